"""OmegaPRM (arXiv 2406.06592): trees of rollouts, grown by searching wrong ones for their first error.

Of all wrong rollouts r of states s with 0 < MC(s) < 1 the pair with the largest Q + U is searched next, by binary search:

    Q(s, r) = α^(1 - MC(s)) · β^(len(r) / L)        wrong although the state is good, and short
    U(s)    = c · sqrt(Σ_s' N(s')) / (1 + N(s))     not searched often yet

Every probed prefix becomes a valued node. All problems advance together. What differs from the paper: a node is one step,
so a segment between two probes is a chain of nodes of which the last has a value; the last step of a rollout is not rolled
out, for its outcome is known; a correct rollout may be kept as a leaf of value 1 (`leaves`), as the public re-implementation
does, for else every last step in the tree would be a wrong one.

Binary search for the first error of given traces (OmegaPRM, arXiv 2406.06592).

A prefix from which no rollout succeeds (MC = 0) holds an error; one with MC > 0 can still be saved. If that is monotone,
the first error of a wrong trace with M steps is found with at most ceil(log2(M + 1)) probes of k rollouts. All traces are
searched side by side. What differs from the paper: a prefix may count as lost at a small MC already (`lost`), and the last
step of a finished trace is not rolled out, for its outcome is known.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from footfall.drive.rollouts import (
    Done,
    Estimate,
    Plan,
    Probe,
    Rollout,
    RolloutCache,
    counts,
    drawn,
    finished,
    graded,
    of_answered,
    run_plans,
    ungradable,
)
from footfall.drive.trees import RolledOutTree, leaf_rows, node_rows, note_value, top_of
from footfall.judging import Traits
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import NEVER, Declared, label_row, register
from footfall.types import (
    AFTER_ERROR,
    Cost,
    Harvest,
    Judged,
    Judgement,
    Problem,
    Reason,
    Trajectory,
    Tree,
    Unjudged,
    failures_of,
)


def bisect(steps: int) -> Generator[int, bool, int]:
    """Binary search for the first error among `steps` steps: yields the step to probe, is sent whether all is lost there.

    Returns the index of the first lost step; `steps` if none is lost.
    """
    low, high = 0, steps - 1
    while low <= high:
        middle = (low + high) // 2
        if (yield middle):
            high = middle - 1
        else:
            low = middle + 1
    return low


class Searched(NamedTuple):
    """The course of one binary search: what each probed prefix (by its number of steps) showed, and how it ended."""

    estimates: dict[int, Estimate]
    recoverable: int
    """So many steps are known to be recoverable."""
    failure: Unjudged | None = None


def search(
    trace: Trajectory, rollouts: int, before: int = 0, ends: bool = True, lost_at: float = 0.0
) -> Plan[Searched]:
    """Search a wrong trace after its first `before` steps; if it `ends`, its last prefix is known to be lost."""
    estimates: dict[int, Estimate] = {}
    probes = bisect(len(trace.steps) - before)
    recoverable = before
    try:
        at = before + next(probes) + 1
        while True:
            lost = ends and at == len(trace.steps)
            if not lost:
                (estimate,) = yield [Probe(trace.prefix(at), rollouts)]
                estimates[at] = estimate
                if estimate.value is None:
                    return Searched(estimates, recoverable, estimate.failure)
                lost = estimate.value <= lost_at
            recoverable = recoverable if lost else at
            at = before + probes.send(lost) + 1
    except StopIteration:
        return Searched(estimates, recoverable)


_NOT_PROBED = Unjudged(Reason.NOT_ASKED, "not probed")


@dataclass(frozen=True)
class BinarySearch:
    """A judge that finds the first error of a wrong trace with few probes. Needs reference answers.

    A correct trace costs nothing: if its end is right, no prefix of it was lost, so all its steps are 1.
    """

    policy: Policy
    rollouts: int = 8
    estimate: Literal["hard", "soft"] = "hard"
    """`hard`: 1 before the first error and 0 at it. `soft`: MC, at the probed steps alone."""
    lost: float = 0.0
    """A prefix with MC up to this is lost. The paper has 0; a completer that repairs errors needs more (see the docs)."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or not 0 <= self.lost < 1:
            raise ValueError(f"want at least 1 rollout and lost in [0, 1), got {self.rollouts} and {self.lost}")

    @property
    def name(self) -> str:
        return f"omegaprm({self.policy.name},k={self.rollouts},{self.estimate},lost={self.lost:g},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("rollouts", self.rollouts),))

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All traces are searched side by side; equal prefixes share their rollouts."""
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        return [self._judgement(t, each.result, each.cost) for t, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[Searched]:
        if trace.correct:
            return Searched({}, len(trace.steps))
        return (yield from search(trace, self.rollouts, ends=finished(trace), lost_at=self.lost))

    def _judgement(self, trace: Trajectory, found: Searched, cost: Cost) -> Judgement:
        n = len(trace.steps)
        tallies = [found.estimates[k].tally if k in found.estimates else None for k in range(1, n + 1)]
        pairs = [self._label(trace, found, k) for k in range(n)]
        return Judgement(
            trace.id,
            values=tuple(value for value, _ in pairs),
            judge=self.name,
            aspects=counts(tallies),
            failures=failures_of(reason for _, reason in pairs),
            cost=cost,
        ).check(trace)

    def _label(self, trace: Trajectory, found: Searched, k: int) -> tuple[float | None, Unjudged | None]:
        """The value of step `k` from 0 on, or why it has none."""
        if self.estimate == "soft":
            if k == len(trace.steps) - 1 and finished(trace):
                return float(bool(trace.correct)), None
            estimate = found.estimates.get(k + 1)
            return (None, _NOT_PROBED) if estimate is None else (estimate.value, estimate.failure)
        if k < found.recoverable:
            return 1.0, None
        if found.failure is not None:
            return None, found.failure
        return (0.0, None) if k == found.recoverable else (None, AFTER_ERROR)


@register(
    "labeller",
    "omegaprm",
    Declared(
        study=(
            label_row(20),
            # With fewer rollouts than 5 it is the same as above.
            label_row(21, "omegaprm-lost", budgets=(5.0, 8.0, 16.0, 32.0), fixed={"lost": 0.2}),
        ),
        smoke={"rollouts": 2},
    ),
)
def omegaprm(
    policy: Policy,
    rollouts: int = 8,
    estimate: Literal["hard", "soft"] = "hard",
    lost: float = 0.0,
    params: SamplingParams = SamplingParams(),
) -> BinarySearch:
    """The first error of each trace by binary search over rollouts (OmegaPRM)."""
    return BinarySearch(policy, rollouts, estimate, lost, params)


def exploitation(mc: float, length: float, alpha: float = 0.5, beta: float = 0.9, scale: float = 500.0) -> float:
    """Q(s, r) = α^(1 - MC(s)) · β^(len(r) / L)."""
    return float(alpha ** (1 - mc) * beta ** (length / scale))


def exploration(visits: int, all_visits: int, c_puct: float = 0.125) -> float:
    """U(s) = c · sqrt(Σ N) / (1 + N(s))."""
    return c_puct * math.sqrt(all_visits) / (1 + visits)


def rollout_length(completion: Completion) -> int:
    """Tokens of a rollout, or its words where ids are not known."""
    return sum(len(s.text.split()) if s.token_ids is None else len(s.token_ids) for s in completion.steps)


class Grown(NamedTuple):
    """A tree, how many searches and rollouts made it, and what they cost."""

    tree: Tree
    searches: int
    rollouts: int
    cost: Cost

    @property
    def labelled(self) -> int:
        """Nodes with a value: examples to train on."""
        return sum(node.value is not None for node in self.tree.nodes)


@dataclass
class Candidates:
    """A state with its node (-1: the top), its visits N(s) and its wrong rollouts that no search has taken yet."""

    node: int
    prefix: Trajectory
    mc: float
    pool: list[Rollout]
    visits: int = 0


@dataclass
class _Growth(RolledOutTree):
    """The tree of one problem while it grows, with the states to search from."""

    states: dict[int, Candidates] = field(default_factory=dict)
    searches: int = 0
    asked: int = 0
    """Rollouts, and calls that failed."""

    @property
    def barren(self) -> str:
        """Why no node has a value."""
        never = "never solved: no rollout is right, so there is no first error to search for"
        always = "always solved: no rollout is wrong, so there is no error to search for"
        otherwise = {0.0: never, 1.0: always}.get(self.tree.value or 0.0, "no rollout has steps to search")
        return self.silence or otherwise


@dataclass(frozen=True)
class OmegaPRM:
    """Grows one tree a problem by searching wrong rollouts for their first error. It generates all traces itself."""

    policy: Policy
    rollouts: int = 8
    searches: int = 100
    """Binary searches a problem, at most."""
    budget: int | None = None
    """Rollouts a problem: no search begins once so many are made."""
    alpha: float = 0.5
    beta: float = 0.9
    scale: float = 500.0
    """L: a rollout of so many tokens (words, where ids are not known) has its Q multiplied by β."""
    c_puct: float = 0.125
    leaves: bool = True
    """Keep the first correct rollout of each state as a path to a leaf of value 1."""
    params: SamplingParams = SamplingParams(temperature=0.7)

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.searches < 0:
            raise ValueError(f"rollouts must be at least 1 and searches 0, got {self.rollouts} and {self.searches}")

    @property
    def name(self) -> str:
        rule = f"alpha={self.alpha},beta={self.beta},L={self.scale:g},c={self.c_puct}"
        most = f"searches={self.searches},budget={self.budget},leaves={self.leaves}"
        return f"omegaprm-tree({self.policy.name},k={self.rollouts},{most},{rule},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("rollouts", self.rollouts),))

    def grow(self, problems: Sequence[Problem], separator: str = "\n\n") -> list[Grown]:
        """One tree a problem. A problem whose first rollouts are all right or all wrong has nothing to search.

        The tree of a problem without a reference answer stays empty, and costs nothing.
        """
        return [
            Grown(each.result.tree, each.result.searches, each.result.asked, each.cost)
            for each in self._grown(problems, separator)
        ]

    def collect(self, problems: Sequence[Problem], separator: str = "\n\n") -> list[Judged]:
        """Process data from problems alone: a row for each probed node of their trees, valued at its last step.

        The cost of a tree stands in its first row; `harvest` has that of trees without a row as well.
        """
        return list(self.harvest(problems, separator).rows)

    def harvest(self, problems: Sequence[Problem], separator: str = "\n\n") -> Harvest:
        """The rows with all that was asked for them. A node whose rollouts say nothing has a row with the reason."""
        return sum((self._harvest(each) for each in self._grown(problems, separator)), Harvest())

    def _harvest(self, done: Done[_Growth]) -> Harvest:
        rows = node_rows(done.result.tree, self.name, silent=True)
        return done.result.harvest(rows, done.cost, done.result.barren)

    def _grown(self, problems: Sequence[Problem], separator: str) -> list[Done[_Growth]]:
        plans = [self._plan(Tree(problem, separator=separator)) for problem in problems]
        return run_plans(plans, RolloutCache(self.policy, self.params))

    def _plan(self, tree: Tree) -> Plan[_Growth]:
        growth = _Growth(tree, silence=ungradable(tree.problem))
        if growth.silence is not None:
            return growth
        (estimate,) = yield [Probe(graded(top_of(tree)), self.rollouts)]
        tree.value = estimate.value
        self._enter(growth, -1, estimate)
        while growth.searches < self.searches and (self.budget is None or growth.asked < self.budget):
            chosen = self.select(list(growth.states.values()))
            if chosen is None:
                break
            state, rollout = chosen
            state.visits += 1
            state.pool.remove(rollout)
            growth.searches += 1
            yield from self._search_rollout(growth, state, rollout)
        for state in growth.states.values():
            if state.node >= 0:
                tree.update(state.node, visits=state.visits)
        return growth

    def select(self, states: Sequence[Candidates]) -> tuple[Candidates, Rollout] | None:
        """The pair with the largest Q + U; of equal ones the first that entered."""
        total = sum(state.visits for state in states)
        pairs = [(state, rollout) for state in states for rollout in state.pool]
        return max(pairs, key=lambda pair: self._score(pair[0], pair[1], total), default=None)

    def _score(self, state: Candidates, rollout: Rollout, total: int) -> float:
        q = exploitation(state.mc, rollout_length(rollout.completion), self.alpha, self.beta, self.scale)
        return q + exploration(state.visits, total, self.c_puct)

    def _search_rollout(self, growth: _Growth, state: Candidates, rollout: Rollout) -> Plan[None]:
        """Binary search on one wrong rollout; every probed prefix becomes a valued node and may supply candidates."""
        tree = growth.tree
        whole = rollout.completion.after(state.prefix, self.policy.name)
        found = yield from search(whole, self.rollouts, before=len(state.prefix.steps))
        first_error = found.recoverable + (found.failure is None)
        nodes = growth.path(-1, whole.steps[: max(first_error, *found.estimates, 0)])
        for size, estimate in found.estimates.items():
            if nodes[size - 1] not in growth.states:
                note_value(tree, nodes[size - 1], estimate)
                self._enter(growth, nodes[size - 1], estimate)
        if len(nodes) == len(whole.steps) and len(whole.steps) not in found.estimates:
            tree.update(nodes[-1], terminal=True, value=0.0)

    def _enter(self, growth: _Growth, node: int, estimate: Estimate) -> None:
        """A newly estimated state; its wrong rollouts become candidates if some others of it are right.

        A rollout cut at max_tokens is no candidate: nobody knows whether it holds an error.
        """
        growth.count(node, estimate)
        growth.asked += estimate.tally.asked
        mc = estimate.value
        rollouts = [rollout for rollout in estimate.rollouts if rollout.completion.steps]
        if rollouts and growth.tree.tokenizer is None:
            growth.tree.tokenizer = rollouts[0].completion.tokenizer
        wrong = [rollout for rollout in rollouts if not rollout.correct and rollout.completion.finish == "end"]
        searchable = mc is not None and 0 < mc < 1
        growth.states[node] = Candidates(node, estimate.prefix, mc or 0.0, wrong if searchable else [])
        right = next((rollout for rollout in rollouts if rollout.correct), None)
        if self.leaves and right is not None:
            leaf = growth.path(node, right.completion.steps)[-1]
            growth.tree.update(leaf, terminal=True, value=1.0)


@dataclass(frozen=True)
class WholeTraces:
    """The trees' leaves as whole traces with a label at each step, as studies measure them."""

    trees: OmegaPRM

    @property
    def name(self) -> str:
        return self.trees.name

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Grown]:
        return self.trees.grow(problems, separator)

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        grown = self.grow(problems, separator)
        return [by_segments(row) for each in grown for row in leaf_rows(each.tree, self.name)]


def by_segments(row: Judged) -> Judged:
    """Each step with the value of its segment, which the next probed prefix ends; the aspect `mc` has the probed ones alone."""
    trajectory, said = row
    assert said is not None
    values, following = [], None
    for value in reversed(said.values):
        following = following if value is None else value
        values.append(following)
    filled = tuple(reversed(values))
    failures = tuple(why if value is None else None for value, why in zip(filled, said.failures, strict=False))
    told = failures_of(failures)
    return Judged(
        trajectory, replace(said, values=filled, aspects={"mc": said.values}, failures=told).check(trajectory)
    )


def _study_trees(setting: Any, budget: float) -> WholeTraces:
    return WholeTraces(OmegaPRM(setting.policy, searches=int(budget), params=setting.params))


@register(
    "tree-labeller",
    "omegaprm",
    Declared(
        study=(
            label_row(
                150, "omegaprm-tree", "searches", (2.0, 4.0, 8.0, 16.0), make=_study_trees, threshold=NEVER,
                kind="own traces", value="mc",
            ),
        )
    ),
)  # fmt: skip
def omegaprm_trees(
    policy: Policy, trees: int, rollouts: int = 8, params: SamplingParams = SamplingParams(temperature=0.7)
) -> OmegaPRM:
    """Rows of the nodes that at most so many binary searches a problem probe (OmegaPRM's tree search)."""
    return OmegaPRM(policy, rollouts, trees, params=params)
