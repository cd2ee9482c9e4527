"""OmegaPRM (arXiv 2406.06592): the first wrong step by binary search, and a tree of all rollouts made on the way.

A prefix from which no rollout succeeds (MC = 0) holds an error; one with MC > 0 can still be saved. If that is monotone,
the first error of a wrong trace with M steps is found with at most ceil(log2(M + 1)) probes of k rollouts. The tree search
applies this to wrong rollouts r of states s with 0 < MC(s) < 1, and takes the pair with the largest Q + U:

    Q(s, r) = α^(1 - MC(s)) · β^(len(r) / L)        wrong although the state is good, and short
    U(s)    = c · sqrt(Σ_s' N(s')) / (1 + N(s))     not searched often yet

`BinarySearch` labels given traces; `OmegaPRM` grows trees. Both advance all traces or problems together. What differs from
the paper: a node is one step, so a segment between two probes is a chain of nodes of which the last has a value; the last
step of a finished trace is not rolled out, for its outcome is known; a correct rollout may be kept as a leaf of value 1
(`leaves`), as the public re-implementation does, for else every last step in the tree would be a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from footfall.label.probing import Estimate, Plan, Probe, Prober, Rollout, drawn, finished, ready, together
from footfall.label.trees import TreeBuilder, note_value, top_of
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import register
from footfall.types import Cost, Judgement, Problem, Trajectory, Tree

__all__ = ["BinarySearch", "Grown", "OmegaPRM", "bisect", "exploitation", "exploration", "omegaprm", "rollout_length"]


def exploitation(mc: float, length: float, alpha: float = 0.5, beta: float = 0.9, scale: float = 500.0) -> float:
    """Q(s, r) = α^(1 - MC(s)) · β^(len(r) / L)."""
    return float(alpha ** (1 - mc) * beta ** (length / scale))


def exploration(visits: int, all_visits: int, c_puct: float = 0.125) -> float:
    """U(s) = c · sqrt(Σ N) / (1 + N(s))."""
    return c_puct * math.sqrt(all_visits) / (1 + visits)


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


def rollout_length(completion: Completion) -> int:
    """Tokens of a rollout, or its words where ids are not known."""
    return sum(len(s.text.split()) if s.token_ids is None else len(s.token_ids) for s in completion.steps)


class _Searched(NamedTuple):
    """The course of one binary search: what each probed prefix (by its number of steps) showed, and how it ended."""

    estimates: dict[int, Estimate]
    recoverable: int
    """So many steps are known to be recoverable."""
    failure: str | None = None


def _search(trace: Trajectory, rollouts: int, before: int = 0, ends: bool = True) -> Plan[_Searched]:
    """Search the steps after the first `before` ones; if the trace `ends` its last step is known to be wrong."""
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
                    return _Searched(estimates, recoverable, estimate.failure)
                lost = estimate.value == 0
            recoverable = recoverable if lost else at
            at = before + probes.send(lost) + 1
    except StopIteration:
        return _Searched(estimates, recoverable)


@dataclass(frozen=True)
class BinarySearch:
    """A judge that finds the first error of a wrong trace with few probes. Needs reference answers.

    A correct trace costs nothing: if its end is right, no prefix of it was lost, so all its steps are 1.
    """

    policy: Policy
    rollouts: int = 8
    estimate: Literal["hard", "soft"] = "hard"
    """`hard`: 1 before the first error and 0 at it. `soft`: MC, at the probed steps alone."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1:
            raise ValueError(f"rollouts must be at least 1, got {self.rollouts}")

    @property
    def name(self) -> str:
        return f"omegaprm({self.policy.name},k={self.rollouts},{self.estimate},{drawn(self.params)})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All traces are searched side by side; equal prefixes share their rollouts."""
        traces = [ready(trajectory) for trajectory in trajectories]
        prober = Prober(self.policy, self.params)
        done = together([self._plan(trace) for trace in traces], prober)
        return [self._judgement(t, each.result, each.cost) for t, each in zip(traces, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[_Searched]:
        if trace.correct:
            return _Searched({}, len(trace.steps))
        return (yield from _search(trace, self.rollouts, ends=finished(trace)))

    def _judgement(self, trace: Trajectory, found: _Searched, cost: Cost) -> Judgement:
        n = len(trace.steps)
        tallies = [found.estimates[k].tally if k in found.estimates else None for k in range(1, n + 1)]
        pairs = [self._label(trace, found, k) for k in range(n)]
        failures = tuple(reason for _, reason in pairs)
        return Judgement(
            trace.id,
            values=tuple(value for value, _ in pairs),
            judge=self.name,
            aspects={
                "successes": tuple(None if t is None else float(t.successes) for t in tallies),
                "rollouts": tuple(None if t is None else float(t.rollouts) for t in tallies),
            },
            failures=failures if any(failures) else (),
            cost=cost,
        ).check(trace)

    def _label(self, trace: Trajectory, found: _Searched, k: int) -> tuple[float | None, str | None]:
        """The value of step `k` from 0 on, or why it has none."""
        if self.estimate == "soft":
            if k == len(trace.steps) - 1 and finished(trace):
                return float(bool(trace.correct)), None
            estimate = found.estimates.get(k + 1)
            return (None, "not probed") if estimate is None else (estimate.value, estimate.failure)
        if k < found.recoverable:
            return 1.0, None
        if found.failure is not None:
            return None, found.failure
        return (0.0, None) if k == found.recoverable else (None, "after the first error")


@register("labeller", "omegaprm")
def omegaprm(
    policy: Policy,
    rollouts: int = 8,
    estimate: Literal["hard", "soft"] = "hard",
    params: SamplingParams = SamplingParams(),
) -> BinarySearch:
    """The first error of each trace by binary search over rollouts (OmegaPRM)."""
    return BinarySearch(policy, rollouts, estimate, params)


class Grown(NamedTuple):
    """A tree, how many searches and rollouts made it, and what they cost."""

    tree: Tree
    searches: int
    rollouts: int
    cost: Cost


@dataclass
class _State:
    """A prefix in the candidate pool: its node (-1: the top), its visits N(s) and the wrong rollouts not yet taken."""

    node: int
    prefix: Trajectory
    mc: float
    pool: list[Rollout]
    visits: int = 0


@dataclass
class _Growth:
    """The tree of one problem while it grows."""

    builder: TreeBuilder
    states: dict[str, _State] = field(default_factory=dict)
    searches: int = 0
    rollouts: int = 0


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
    """L, the length that halves nothing but β: a rollout of L tokens has its Q multiplied by β."""
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

    def grow(self, problems: Sequence[Problem], separator: str = "\n\n") -> list[Grown]:
        """One tree a problem. A problem whose first rollouts are all right or all wrong has nothing to search."""
        prober = Prober(self.policy, self.params)
        plans = [self._plan(Tree(problem, separator=separator)) for problem in problems]
        return [
            Grown(growth.builder.tree, growth.searches, growth.rollouts, cost)
            for growth, cost in ((each.result, each.cost) for each in together(plans, prober))
        ]

    def _plan(self, tree: Tree) -> Plan[_Growth]:
        growth = _Growth(TreeBuilder(tree))
        top = ready(top_of(tree))
        (estimate,) = yield [Probe(top, self.rollouts)]
        tree.value = estimate.value
        self._enter(growth, -1, estimate)
        while growth.searches < self.searches and (self.budget is None or growth.rollouts < self.budget):
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

    def select(self, states: Sequence[_State]) -> tuple[_State, Rollout] | None:
        """The pair with the largest Q + U; of equal ones the first that entered."""
        total = sum(state.visits for state in states)
        pairs = [(state, rollout) for state in states for rollout in state.pool]
        return max(pairs, key=lambda pair: self._score(*pair, total), default=None)

    def _score(self, state: _State, rollout: Rollout, total: int) -> float:
        q = exploitation(state.mc, rollout_length(rollout.completion), self.alpha, self.beta, self.scale)
        return q + exploration(state.visits, total, self.c_puct)

    def _search_rollout(self, growth: _Growth, state: _State, rollout: Rollout) -> Plan[None]:
        """Binary search on one wrong rollout; every probed prefix becomes a valued node and may supply candidates."""
        tree = growth.builder.tree
        whole = rollout.completion.after(state.prefix, self.policy.name)
        ends = rollout.completion.finish == "end"
        found = yield from _search(whole, self.rollouts, before=len(state.prefix.steps), ends=ends)
        nodes = growth.builder.path(-1, whole.steps)[: max(found.recoverable + 1, *found.estimates, 0)]
        for size, estimate in found.estimates.items():
            if nodes[size - 1] not in {state.node for state in growth.states.values()}:
                note_value(tree, nodes[size - 1], estimate)
                self._enter(growth, nodes[size - 1], estimate)
        if ends and found.failure is None and found.recoverable == len(whole.steps) - 1:
            tree.update(nodes[-1], terminal=True, value=0.0)

    def _enter(self, growth: _Growth, node: int, estimate: Estimate) -> None:
        """A newly estimated state: count its rollouts, put the wrong ones into the pool if it is worth searching."""
        raise NotImplementedError
