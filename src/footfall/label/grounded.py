"""GroundedPRM (arXiv 2510.14942): rollouts whose steps a tool verifies, fused with the outcome and propagated up a tree.

A rollout from node i has N verified steps between i and its last one, with verdicts v_j = ±1 (0 where the tool cannot say),
and the outcome F = ±1:

    V = (1/N) Σ_j v_j (N − j)/N,   R = V + F/N,   R = F if N = 0          earlier verdicts weigh more
    value(i) += R,   value(ancestor at distance d) += 0.9^d R,   visits += 1

The label of a step is the sign of its value. A step that the tool refutes although its value is positive is dropped, and a
step that the tool refutes is never positive. A step whose own rollouts all failed, or were all cut, has no label.

What differs: the tree is that of the given trace (with what other traces of the same call share with it); each of its nodes
is simulated the same number of times, so nothing is chosen by UCT; the tool is `formal` or any other judge; no rationale is
written. The paper's own trees have both:

GroundedPRM's own trees (arXiv 2510.14942): process data from problems alone, by tree search with verified simulations.

A round goes down to a node without children by the largest

    UCT = ±value(child) + c · sqrt(ln(visits + 1) / (visits of the child + 1))

(+ while right paths are wanted, − afterwards), writes three next steps there, simulates each to its end, lets the tool verify
every step, and adds the reward of `grounded` to the child and 0.9^d of it to the nodes d above. It ends with three right
and three wrong paths, or when the rounds are used up. A path with a step that the tool refutes although its value is
positive is dropped; a wrong path is cut before its first recovery. Labels are the signs of values.

What differs: the three next steps are the first steps of three rollouts, and what follows in a rollout is the simulation of
its child, so a step is written once. A simulated step has the reward of the rest of its rollout in the tree. Rollouts end
by themselves, so there are no open paths to keep; one that failed or was cut at max_tokens is left out. All nodes are verified.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from footfall.drive.rollouts import (
    Estimate,
    Plan,
    Probe,
    Rollout,
    RolloutCache,
    Tally,
    counts,
    drawn,
    finished,
    graded,
    of_answered,
    run_plans,
    ungradable,
)
from footfall.drive.trees import RolledOutTree, top_of
from footfall.judging import Traits
from footfall.label.formal import Formal
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, label_row, register
from footfall.simulate import chance
from footfall.types import (
    Cost,
    Harvest,
    Judge,
    Judged,
    Judgement,
    Problem,
    Reason,
    Trajectory,
    Tree,
    Unjudged,
    failures_of,
)


def verdict_sum(verdicts: Sequence[float]) -> float:
    """V = (1/N) Σ_j v_j (N − j)/N."""
    n = len(verdicts)
    return sum(v * (n - j) / n for j, v in enumerate(verdicts)) / n if n else 0.0


def rollout_reward(verdicts: Sequence[float], outcome: float) -> float:
    """R = V + F/N over the steps between the start and the last one; the outcome alone if there are none."""
    return verdict_sum(verdicts) + outcome / len(verdicts) if verdicts else outcome


@dataclass(frozen=True)
class Grounded:
    """Monte Carlo rollouts whose steps a tool verifies. Costs as many completions as Monte Carlo."""

    policy: Policy
    tool: Judge = field(default_factory=Formal)
    rollouts: int = 8
    decay: float = 0.9
    clean: bool = True
    """Drop steps that the tool refutes although their value is positive; otherwise they are labelled wrong."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or not 0 <= self.decay <= 1:
            raise ValueError(f"rollouts must be at least 1 and decay in [0, 1], got {self.rollouts} and {self.decay}")

    @property
    def name(self) -> str:
        settings = f"n={self.rollouts},decay={self.decay:g},clean={self.clean}"
        return f"grounded({self.policy.name},{self.tool.name},{settings},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("rollouts", self.rollouts),))

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Label every step; all rollouts are one batch, and so is what the tool is asked."""
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        verified = self.tool.judge(trajectories)
        return [
            self._judgement(trace, each.result, said, said.cost + each.cost)
            for trace, each, said in zip(trajectories, done, verified, strict=True)
        ]

    def _plan(self, trace: Trajectory) -> Plan[Sequence[Estimate]]:
        """All prefixes, but for the whole of a finished trace, whose value is its outcome."""
        sizes = range(1, len(trace.steps) - finished(trace) + 1)
        return (yield [Probe(trace.prefix(k), self.rollouts) for k in sizes])

    def _judgement(self, trace: Trajectory, estimates: Sequence[Estimate], said: Judgement, cost: Cost) -> Judgement:
        rewards, tool_cost = self._rewards(estimates)
        outcomes = len(trace.steps) - len(estimates)  # 1 if the last step has its outcome instead of rollouts
        tallies: list[Tally | None] = [*(estimate.tally for estimate in estimates), *[None] * outcomes]
        silences = [None if tally is None else tally.silence for tally in tallies]
        scores = self._propagated(trace, rewards, silences)
        verdicts = signs(said.values)
        labels = list(map(self._label, scores, verdicts, silences))
        return Judgement(
            trace.id,
            tuple(label for label, _ in labels),
            self.name,
            aspects={"score": tuple(scores), "verdict": tuple(verdicts), **counts(tallies)},
            failures=failures_of(reason for _, reason in labels),
            cost=cost + tool_cost,
        ).check(trace)

    def _rewards(self, estimates: Sequence[Estimate]) -> tuple[list[list[float]], Cost]:
        """R of every rollout of every prefix; the tool reads each whole, for a step is judged in its place.

        Rollouts that say nothing of their prefix have no rewards.
        """
        rewards: list[list[float]] = []
        cost = Cost()
        for estimate in estimates:
            if estimate.failure is not None:
                rewards.append([])
                continue
            whole = [rollout.completion.after(estimate.prefix, self.policy.name) for rollout in estimate.rollouts]
            said = self.tool.judge(whole)
            cost += Cost.total(each.cost for each in said)
            first = len(estimate.prefix.steps)
            rewards.append([
                rollout_reward(signs(each.values[first:-1]), 1.0 if rollout.correct else -1.0)
                for each, rollout in zip(said, estimate.rollouts, strict=True)
            ])  # fmt: skip
        return rewards, cost

    def _propagated(
        self, trace: Trajectory, rewards: Sequence[Sequence[float]], silences: Sequence[Unjudged | None]
    ) -> list[float | None]:
        """value(i) = Σ 0.9^distance R over the nodes from i down, a visit; of a finished trace the last R is its outcome.

        A silent node has no value: what is known further down does not say whether the answer was in reach here.
        """
        totals = [sum(own) for own in rewards]
        visits = [len(own) for own in rewards]
        if len(totals) < len(trace.steps):
            totals.append(1.0 if trace.correct else -1.0)
            visits.append(1)
        scores: list[float | None] = []
        for i, silence in enumerate(silences):
            if silence is not None:
                scores.append(None)
                continue
            total = sum(totals[k] * self.decay ** (k - i) for k in range(i, len(totals)))
            scores.append(total / max(1, sum(visits[i:])))
        return scores

    def _label(
        self, score: float | None, verdict: float, silence: Unjudged | None = None
    ) -> tuple[float | None, Unjudged | None]:
        if score is None:
            return None, silence
        if verdict < 0 and score > 0 and self.clean:
            return None, Unjudged(Reason.UNDECIDED, "the tool refutes the step, but its value is positive")
        if score == 0 and verdict == 0:
            return None, Unjudged(Reason.UNDECIDED, "the value is zero, and the tool cannot say")
        good = verdict > 0 if score == 0 else score > 0 and verdict >= 0
        return float(good), None


def signs(values: Sequence[float | None]) -> list[float]:
    """+1 for verified, −1 for refuted, 0 where the tool could not say."""
    return [0.0 if value is None else 1.0 if value >= 0.5 else -1.0 for value in values]


def _study(setting: Any, budget: float) -> Grounded:
    return Grounded(setting.policy, setting.tool(), rollouts=int(budget), params=setting.params)


@register(
    "labeller",
    "grounded",
    Declared(
        # The tool reads every rollout: more of them would take longer than all other methods together.
        study=(label_row(130, budgets=(1.0, 2.0, 3.0, 4.0), make=_study, kind="stand-in"),),
        systems={"grounded-prm": {}},
        smoke={"rollouts": 2},
    ),
)
def grounded(
    policy: Policy, rollouts: int = 8, clean: bool = True, params: SamplingParams = SamplingParams()
) -> Grounded:
    """Rollouts whose steps a formal tool verifies, fused with the outcome (GroundedPRM)."""
    return Grounded(policy, rollouts=rollouts, clean=clean, params=params)


def uct(value: float, visits: int, parent_visits: int, c: float = 1.414, sign: int = 1) -> float:
    """±value + c · sqrt(ln(visits + 1) / (visits of the child + 1)): sign −1 while wrong paths are wanted."""
    return sign * value + c * math.sqrt(math.log(parent_visits + 1) / (visits + 1))


def before_recovery(scores: Sequence[float]) -> int:
    """How many steps of a wrong path are kept: those before the first score ≥ 0 after the first score ≤ 0."""
    error = next((k for k, score in enumerate(scores) if score <= 0), len(scores))
    return next((k for k in range(error + 1, len(scores)) if scores[k] >= 0), len(scores))


def rationale(evidence: str | None, verdict: float, right: bool) -> str:
    """What a generative PRM is to write of a step: the tool's evidence, a judgement, and the label in a box."""
    read = evidence or "there is nothing to compute."
    said = {1: "The tool confirms the step. ", -1: "The tool refutes the step. "}.get(int(verdict), "")
    word, sign = ("Right", "+") if right else ("Wrong", "-")
    return f"Verify: {read}\nJudge: {said}[{word}]\nOutput: \\boxed{{{sign}}}"


@dataclass
class GroundedTree(RolledOutTree):
    """The tree of one problem. Of each node: the sum of rewards, and what the tool said. -1 is the top."""

    expanded: set[int] = field(default_factory=set)
    evidence: dict[int, tuple[float, str | None]] = field(default_factory=dict)
    rounds: int = 0
    cost: Cost = field(default_factory=Cost)
    top_visits: int = 0

    @property
    def barren(self) -> str:
        """Why there is no clean path."""
        if not self.tree.nodes:
            return self.silence or f"no step was written in {self.rollouts} rollouts"
        return "every path has a step that the tool refutes although its value is positive"

    def reward(self, node: int, reward: float, decay: float) -> None:
        """value += R at the node, 0.9^d R at the nodes d above it; all are visited."""
        for distance, i in enumerate(reversed(self.tree.path(node))):
            old = self.tree.nodes[i]
            self.tree.update(i, value=(old.value or 0.0) + decay**distance * reward, visits=old.visits + 1)
        self.top_visits += 1

    def paths(self, right: bool) -> list[list[int]]:
        """The finished paths with this outcome."""
        ends = [i for i, node in enumerate(self.tree.nodes) if node.terminal and node.meta["correct"] is right]
        return [self.tree.path(end) for end in ends]


@dataclass(frozen=True)
class GroundedTrees:
    """Grows one tree a problem whose steps a tool verifies. It generates all traces itself."""

    policy: Policy
    tool: Judge = field(default_factory=Formal)
    children: int = 3
    rounds: int = 8
    depth: int = 9
    """Nodes this deep are not expanded."""
    wanted: int = 3
    """Right paths, and wrong ones, after which a tree is done."""
    c: float = 1.414
    decay: float = 0.9
    select: Literal["uct", "random"] = "uct"
    """`random`: a child by chance, as the released code has it."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if min(self.children, self.rounds, self.depth, self.wanted) < 1:
            raise ValueError(f"children, rounds, depth and wanted must be at least 1, got {self}")

    @property
    def name(self) -> str:
        size = f"children={self.children},rounds={self.rounds},depth={self.depth},wanted={self.wanted}"
        rule = f"{self.select},c={self.c:g},decay={self.decay:g}"
        return f"grounded-tree({self.policy.name},{self.tool.name},{size},{rule},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("children", self.children),))

    def grow(self, problems: Sequence[Problem], separator: str = "\n\n") -> list[GroundedTree]:
        """One tree a problem; those of all problems advance together. Without a reference answer it stays empty."""
        done = run_plans(
            [self._plan(Tree(p, separator=separator)) for p in problems], RolloutCache(self.policy, self.params)
        )
        return [replace(each.result, cost=each.result.cost + each.cost) for each in done]

    def collect(self, problems: Sequence[Problem], separator: str = "\n\n") -> list[Judged]:
        """Clean paths with labels and rationales; what a tree cost stands in its first row.

        `harvest` has the cost of trees without a row as well, and why they have none.
        """
        return list(self.harvest(problems, separator).rows)

    def harvest(self, problems: Sequence[Problem], separator: str = "\n\n") -> Harvest:
        """The rows with all that was asked for them."""
        grown = self.grow(problems, separator)
        return sum((each.harvest(list(self._rows(each)), each.cost, each.barren) for each in grown), Harvest())

    def _plan(self, tree: Tree) -> Plan[GroundedTree]:
        grown = GroundedTree(tree, silence=ungradable(tree.problem))
        while grown.rounds < self.rounds and grown.silence is None:
            found = [len(grown.paths(right)) >= self.wanted for right in (True, False)]
            node = None if all(found) else self._selected(grown, -1, -1 if found[0] else 1)
            if node is None:
                break
            prefix = graded(top_of(tree)) if node < 0 else tree.trajectory(node)
            (estimate,) = yield [Probe(prefix, self.children)]
            grown.rounds += 1
            grown.expanded.add(node)
            grown.count(node, estimate)
            for rollout in estimate.rollouts:
                if rollout.completion.finish == "end" and rollout.completion.steps:
                    self._enter(grown, node, prefix, rollout)
        return grown

    def _selected(self, grown: GroundedTree, node: int, sign: int) -> int | None:
        """The node to expand below this one, by UCT at each level; none if all below it are finished or too deep."""
        if node not in grown.expanded:
            return node
        nodes = grown.tree.nodes
        visits = grown.top_visits if node < 0 else nodes[node].visits

        def rank(child: int) -> float:
            if self.select == "random":
                return chance(self.params.seed, grown.tree.problem.id, grown.rounds, child)
            return uct(nodes[child].value or 0.0, nodes[child].visits, visits, self.c, sign)

        open_ones = [
            i for i in grown.tree.children(node) if not nodes[i].terminal and len(grown.tree.path(i)) < self.depth
        ]
        below = (self._selected(grown, child, sign) for child in sorted(open_ones, key=rank, reverse=True))
        return next((found for found in below if found is not None), None)

    def _enter(self, grown: GroundedTree, node: int, prefix: Trajectory, rollout: Rollout) -> None:
        """Put a rollout under a node: its first step is a child, the rest is the child's simulation."""
        if grown.tree.tokenizer is None and node < 0:
            grown.tree.tokenizer = rollout.completion.tokenizer
        (said,) = self.tool.judge([rollout.completion.after(prefix, self.policy.name)])
        grown.cost += said.cost
        start = len(prefix.steps)
        known = len(grown.tree.nodes)
        path = grown.path(node, rollout.completion.steps)
        outcome = 1.0 if rollout.correct else -1.0
        verdicts = [*signs(said.values[start:-1]), outcome]
        told = said.rationales[start:] or (None,) * len(path)
        for k, (i, verdict) in enumerate(zip(path, verdicts, strict=True)):
            grown.evidence.setdefault(i, (verdict, told[k]))
            if k and i >= known:
                grown.tree.update(i, value=rollout_reward(verdicts[k + 1 : -1], outcome), visits=1)
        grown.tree.update(path[-1], terminal=True, meta={"correct": rollout.correct})
        grown.reward(path[0], rollout_reward(verdicts[1:-1], outcome), self.decay)

    def _rows(self, grown: GroundedTree) -> Iterator[Judged]:
        for right in (True, False):
            for path in grown.paths(right):
                scores = [grown.tree.nodes[i].value or 0.0 for i in path]
                kept = len(path) if right else before_recovery(scores)
                if all(grown.evidence[i][0] >= 0 or score <= 0 for i, score in zip(path, scores, strict=True)):
                    yield self._row(grown, path[:kept], scores[:kept], right)

    def _row(self, grown: GroundedTree, path: Sequence[int], scores: Sequence[float], right: bool) -> Judged:
        """The trace along a path; a score of zero is the tool's to decide."""
        trajectory = replace(grown.tree.trajectory(path[-1]), correct=right, author=self.policy.name)
        told = [grown.evidence[i] for i in path]
        labels = [score > 0 or (score == 0 and said > 0) for score, (said, _) in zip(scores, told, strict=True)]
        judgement = Judgement(
            trajectory.id,
            tuple(map(float, labels)),
            self.name,
            aspects={"score": tuple(scores), "verdict": tuple(said for said, _ in told)},
            rationales=tuple(rationale(text, said, label) for label, (said, text) in zip(labels, told, strict=True)),
        )
        return Judged(trajectory, judgement.check(trajectory))


def _study_trees(setting: Any, budget: float) -> GroundedTrees:
    return GroundedTrees(setting.policy, setting.tool(), rounds=int(budget), params=setting.params)


@register(
    "tree-labeller",
    "grounded",
    Declared(
        study=(label_row(140, "grounded-tree", "rounds", (1.0, 2.0, 4.0, 8.0), make=_study_trees, kind="own traces"),),
        systems={"grounded-prm": {}},
    ),
)
def grounded_trees(
    policy: Policy,
    trees: int,
    children: int = 3,
    depth: int = 9,
    wanted: int = 3,
    select: Literal["uct", "random"] = "uct",
    params: SamplingParams = SamplingParams(),
) -> GroundedTrees:
    """A row a clean path of so many rounds of simulations whose steps a tool verifies, with rationales (GroundedPRM)."""
    return GroundedTrees(
        policy, rounds=trees, children=children, depth=depth, wanted=wanted, select=select, params=params
    )
