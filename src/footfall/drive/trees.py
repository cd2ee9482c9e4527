"""Trees of traces: put traces that share steps together, value every node by rollouts, read labels off again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from footfall.drive.requests import ROOT
from footfall.drive.rollouts import Estimate, Plan, Probe, RolloutCache, finished, graded, run_plans, ungradable
from footfall.types import (
    Barren,
    Cost,
    Harvest,
    Json,
    Judged,
    Judgement,
    Node,
    Problem,
    Reason,
    Step,
    Trajectory,
    Tree,
    Unjudged,
    failures_of,
    image_name,
)

_CUT = Unjudged(Reason.CUT, "all that follows was cut before its end: raise max_tokens (--max-tokens)")
_NOT_PROBED = Unjudged(Reason.NOT_ASKED, "not probed")
ELSEWHERE = Unjudged(Reason.NOT_ASKED, "valued in another row")


@runtime_checkable
class TreeLabeller(Protocol):
    """Makes judged rows from problems alone, and says what was asked for them and which problems gave none."""

    @property
    def name(self) -> str: ...

    def harvest(self, problems: Sequence[Problem], separator: str) -> Harvest: ...


def charged(rows: Sequence[Judged], cost: Cost) -> list[Judged]:
    """The rows with the cost of all in the first."""
    first = [Judged(trace, said and replace(said, cost=cost)) for trace, said in rows[:1]]
    return [*first, *rows[1:]]


@dataclass(eq=False)
class GrowingTree:
    """The tree of one problem while it grows, for labelling and for search. Nodes are named by their index in `tree`."""

    tree: Tree
    _prefixes: dict[int, Trajectory] = field(init=False, repr=False, compare=False, default_factory=dict)
    _keys: dict[int, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._prefixes[ROOT] = top_of(self.tree)

    @cached_property
    def _places(self) -> dict[tuple[object, ...], int]:
        return {_place(node.parent, node.step): i for i, node in enumerate(self.tree.nodes)}

    def add_step(self, parent: int, step: Step, **given: Any) -> int:
        """A new node below `parent`, whether or not the step stands there already."""
        node = self.tree.add(parent, step, **given)
        if "_places" in self.__dict__:
            self._places.setdefault(_place(parent, step), node)
        return node

    def path(self, parent: int, steps: Iterable[Step]) -> list[int]:
        """The nodes of these steps, one below the other, from `parent` on; a step that stands there already is found there."""
        nodes = []
        for step in steps:
            known = self._places.get(_place(parent, step))
            parent = self.add_step(parent, step) if known is None else known
            nodes.append(parent)
        return nodes

    def prefix(self, node: int) -> Trajectory:
        """The path to `node` as a prefix to write on from or to judge."""
        if node not in self._prefixes:
            self._prefixes[node] = self.tree.trajectory(node)
        return self._prefixes[node]

    def key(self, node: int) -> str:
        """The content address of that prefix."""
        if node not in self._keys:
            self._keys[node] = self.prefix(node).key
        return self._keys[node]

    def rewrite(self, node: int, step: Step, **changes: Any) -> None:
        """Put another step in the place of a leaf's."""
        self._prefixes.pop(node, None)
        self._keys.pop(node, None)
        self.tree.update(node, step=step, **changes)


def _place(parent: int, step: Step) -> tuple[object, ...]:
    return (
        parent,
        step.text,
        step.action,
        step.observation,
        step.agent,
        step.author,
        tuple(map(image_name, step.images)),
    )


@dataclass
class RolledOutTree(GrowingTree):
    """The tree of one problem while it grows by rollouts of its nodes, and what was counted on the way."""

    rollouts: int = 0
    unfinished: int = 0
    """So many of them were cut at max_tokens."""
    silence: str | None = None
    """Why the rollouts of the problem itself say nothing, if they do."""

    def count(self, node: int, estimate: Estimate) -> None:
        """Count the rollouts of a node (-1: the top) in."""
        self.rollouts += estimate.tally.rollouts
        self.unfinished += estimate.tally.unfinished
        self.silence = estimate.failure if node < 0 else self.silence

    def harvest(self, rows: Sequence[Judged], cost: Cost, barren: str) -> Harvest:
        """The rows with all that was counted; `barren` says why, if there are none."""
        without = () if rows else (Barren(self.tree.problem, barren),)
        return Harvest(charged(rows, cost), cost, without, self.rollouts, self.unfinished)


def tree_of(trajectories: Sequence[Trajectory]) -> Tree:
    """The traces of one problem, merged where they begin alike. The last step of a finished one is a terminal node.

    Token ids stay if all traces have those of one vocabulary.
    """
    first = trajectories[0]
    shared = first.tokenizer if len({t.tokenizer for t in trajectories}) == 1 else None
    tree = Tree(first.problem, separator=first.separator, tokenizer=shared)
    growing = GrowingTree(tree)
    for trajectory in trajectories:
        if (trajectory.problem.id, trajectory.separator) != (first.problem.id, first.separator):
            raise ValueError(
                f"trajectories {first.id!r} and {trajectory.id!r} cannot share a tree: they differ in problem or separator"
            )
        path = growing.path(ROOT, trajectory.steps if shared else map(_without_ids, trajectory.steps))
        if finished(trajectory) and trajectory.correct is not None:
            tree.update(path[-1], terminal=True, value=float(trajectory.correct))
    return tree


def _without_ids(step: Step) -> Step:
    return replace(step, token_ids=None, logprobs=None)


def trees_of(trajectories: Iterable[Trajectory]) -> list[Tree]:
    """One tree for each problem (and separator), in the order in which they first appear."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(trajectory.prefix(0).key, []).append(trajectory)
    return [tree_of(group) for group in groups.values()]


def top_of(tree: Tree) -> Trajectory:
    """The empty prefix of a tree."""
    return Trajectory(tree.problem.id, tree.problem, separator=tree.separator, tokenizer=tree.tokenizer)


def value_trees(trees: Sequence[Tree], cache: RolloutCache, rollouts: int = 8) -> Cost:
    """Per-step Monte Carlo on trees: the top and every node that is not terminal get MC of `rollouts` completions.

    All nodes of all trees are one batch. A node whose calls all failed, or whose problem has no
    reference answer, keeps no value; its meta holds the reason.
    """
    done = run_plans([_value_all(tree, rollouts) for tree in trees], cache)
    return Cost.total(each.cost for each in done)


def _value_all(tree: Tree, rollouts: int) -> Plan[None]:
    nodes = [i for i, node in enumerate(tree.nodes) if not node.terminal]
    reason = ungradable(tree.problem)
    if reason is not None:
        for node in nodes:
            tree.update(node, meta={**tree.nodes[node].meta, "failure": reason})
        return
    prefixes = (graded(top_of(tree)), *map(tree.trajectory, nodes))
    of_top, *estimates = yield [Probe(prefix, rollouts) for prefix in prefixes]
    tree.value = of_top.value
    for node, estimate in zip(nodes, estimates, strict=True):
        note_value(tree, node, estimate)


def note_value(tree: Tree, node: int, estimate: Estimate) -> None:
    """Put an estimate into a node, with its counts, and the reason where there is no value."""
    tally = estimate.tally
    meta: dict[str, Json] = {**tree.nodes[node].meta, "successes": tally.successes, "rollouts": tally.rollouts}
    if estimate.failure is not None:
        meta["failure"] = estimate.failure
    tree.update(node, value=estimate.value, meta=meta)


def score_nodes(tree: Tree) -> None:
    """Value every node by its leaves, in place; a terminal node keeps its outcome.

    score = right leaves / leaves below; a leaf that is no finished answer is a wrong one. A leaf is not counted if it is one
    only because every call after it failed (`failure` in its meta); one cut at max_tokens (`cut`) is a wrong one beside
    others. A node with no other leaf has no value, for nobody can say; its meta holds the reason.
    """
    right: defaultdict[int, float] = defaultdict(float)
    leaves: defaultdict[int, int] = defaultdict(int)
    told: set[int] = set()
    silences: dict[int, str] = {}
    for i in tree.leaves():
        node, above = tree.nodes[i], (-1, *tree.path(i))
        cut = "cut" in node.meta
        for k in above if cut or "failure" not in node.meta else ():
            right[k] += (node.value or 0.0) if node.terminal else 0.0
            leaves[k] += 1
        if cut or "failure" in node.meta:
            silences |= {k: _CUT if cut else silence_of(node, _NOT_PROBED) for k in above if k not in silences}
        else:
            told.update(above)
    for i, node in enumerate(tree.nodes):
        if i in told:
            tree.update(i, value=right[i] / leaves[i])
        else:
            tree.update(i, value=None, meta={**node.meta, "failure": silences[i]})
    tree.value = right[-1] / leaves[-1] if -1 in told else None


def silence_of(node: Node, otherwise: Unjudged) -> Unjudged:
    """Why a node has no value, from its meta; in a tree that was read from a file, as it was written there."""
    found = node.meta.get("failure", otherwise)
    return found if isinstance(found, Unjudged) else Unjudged.read(str(found))


def leaf_rows(tree: Tree, judge: str) -> list[Judged]:
    """One row for each leaf: a whole trace, valued at each step whose node has a value."""
    return [_row(tree, tree.path(leaf), judge, first=0) for leaf in tree.leaves()]


def node_rows(tree: Tree, judge: str, silent: bool = False) -> list[Judged]:
    """One row for each node with a value, valued at its last step alone: no example occurs twice.

    With `silent` also one for each node that was asked for in vain: its last step has the reason instead of a value.
    """
    valued = [i for i, node in enumerate(tree.nodes) if node.value is not None or (silent and "failure" in node.meta)]
    return [_row(tree, path, judge, first=len(path) - 1) for path in map(tree.path, valued)]


def _row(tree: Tree, path: Sequence[int], judge: str, first: int) -> Judged:
    """The trace along `path`, valued from its step `first` on."""
    trajectory = tree.trajectory(path[-1])
    values: list[float | None] = []
    failures: list[Unjudged | None] = []
    for k, node in enumerate(tree.nodes[i] for i in path):
        values.append(node.value if k >= first else None)
        reason = silence_of(node, _NOT_PROBED) if k >= first else ELSEWHERE
        failures.append(reason if values[-1] is None else None)
    if tree.nodes[path[-1]].terminal:
        right = tree.nodes[path[-1]].value
        trajectory = replace(trajectory, correct=None if right is None else right > 0)
    return Judged(trajectory, Judgement(trajectory.id, tuple(values), judge, failures=failures_of(failures)))
