"""Traces that share prefixes, and what comes of them: the rows of a labelling by trees, the answer of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from footfall.types.judgements import Judged
from footfall.types.traces import Cost, Json, Problem, Step, Trajectory


@dataclass(frozen=True, slots=True)
class Node:
    """One step in a tree of traces; `parent` is -1 at the top."""

    parent: int
    step: Step
    visits: int = 0
    value: float | None = None
    terminal: bool = False
    meta: Mapping[str, Json] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    """Of writing and judging this step; several steps written in one go are charged to the last of them."""
    pruned: bool = False
    """Looked at and given up."""


@dataclass(slots=True)
class Tree:
    """Trajectories that share prefixes. Nodes are only ever appended, so an index stays valid."""

    problem: Problem
    nodes: list[Node] = field(default_factory=list)
    separator: str = "\n\n"
    value: float | None = None
    """Of the empty prefix."""
    tokenizer: str | None = None
    """Fingerprint of the vocabulary that the steps' `token_ids` belong to."""

    def __post_init__(self) -> None:
        for i, node in enumerate(self.nodes):
            if not -1 <= node.parent < i:
                raise ValueError(
                    f"tree of {self.problem.id!r}: node {i} hangs under {node.parent}, which is not before it"
                )

    def add(self, parent: int, step: Step, **given: Any) -> int:
        """Put a step under a node (-1: at the top); the index of its node."""
        if not -1 <= parent < len(self.nodes):
            raise ValueError(f"tree of {self.problem.id!r} has no node {parent} to put a step under")
        self.nodes.append(Node(parent, step, **given))
        return len(self.nodes) - 1

    def update(self, node: int, **changes: Any) -> None:
        """Change fields of a node."""
        if not 0 <= node < len(self.nodes):
            raise ValueError(f"tree of {self.problem.id!r} has no node {node} to change")
        self.nodes[node] = replace(self.nodes[node], **changes)

    def children(self, node: int) -> list[int]:
        """The nodes right under `node`, in the order in which they came."""
        return [i for i, n in enumerate(self.nodes) if n.parent == node]

    def leaves(self) -> list[int]:
        """The nodes without children."""
        inner = {n.parent for n in self.nodes}
        return [i for i in range(len(self.nodes)) if i not in inner]

    def path(self, node: int) -> list[int]:
        """Node indices from the top down to `node`."""
        path: list[int] = []
        while node >= 0:
            path.append(node)
            node = self.nodes[node].parent
        return path[::-1]

    def trajectory(self, node: int) -> Trajectory:
        """The trace that ends in `node`."""
        steps = tuple(self.nodes[i].step for i in self.path(node))
        return Trajectory(
            f"{self.problem.id}#{node}", self.problem, steps, separator=self.separator, tokenizer=self.tokenizer
        )


class Barren(NamedTuple):
    """A problem whose tree has no row, and why."""

    problem: Problem
    reason: str


@dataclass(frozen=True)
class Harvest:
    """The rows of trees, and what rows cannot tell: all that was asked for, and the problems that have no row at all."""

    rows: list[Judged] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    """Of all trees, those without a row included."""
    barren: tuple[Barren, ...] = ()
    rollouts: int = 0
    unfinished: int = 0
    """So many of them were cut at max_tokens."""

    def __add__(self, other: Harvest) -> Harvest:
        return Harvest(
            [*self.rows, *other.rows],
            self.cost + other.cost,
            self.barren + other.barren,
            self.rollouts + other.rollouts,
            self.unfinished + other.unfinished,
        )


class Decision(NamedTuple):
    """One thing that a search did, small enough to be read aloud: "pruned 4, 5: not among the 2 best"."""

    what: str
    """expanded, scored, kept, pruned, backed-up, stopped, chosen, failed, or a method's own word."""
    nodes: tuple[int, ...]
    """Of the result's tree; -1 is the empty prefix."""
    why: str
    values: tuple[float | None, ...]
    """The numbers it went by, one a node, or none."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A searcher's answer to one problem, with everything it looked at and what that cost."""

    problem: Problem
    answer: str | None
    chosen: Trajectory | None
    candidates: tuple[Judged, ...] = ()
    tree: Tree | None = None
    scores: tuple[float | None, ...] = ()
    """One a candidate, as the searcher compared them."""
    failure: str | None = None
    cost: Cost = field(default_factory=Cost)
    decisions: tuple[Decision, ...] = ()
    """What was done in which order: with the tree, the search can be replayed."""
    policy_cost: Cost = field(default_factory=Cost)
    """The part of `cost` that went into writing."""
    judge_cost: Cost = field(default_factory=Cost)
    """The part of `cost` that went into judging."""
    stopped: str | None = None
    """The budget that ran out before the method was done, such as "tokens"."""

    def _repr_html_(self) -> str:
        from footfall.notebook import table

        chosen = None if self.chosen is None else self.chosen.id
        rows = [
            ["★" if trace.id == chosen else "", "none" if trace.answer is None else trace.answer,
             {True: "right", False: "wrong", None: "not checked"}[trace.correct],
             "n/a" if score is None else float(score), len(trace.steps)]
            for (trace, _), score in zip(self.candidates, self.scores or (None,) * len(self.candidates), strict=True)
        ]  # fmt: skip
        outcome = self.failure or ("no answer" if self.answer is None else f"answer: {self.answer}")
        spent = (
            f"{self.policy_cost.generated_tokens:,} tokens written, {self.judge_cost.scored_tokens:,} read by the judge"
        )
        return table(f"{self.problem.text}\n{outcome}\n{spent}", ["", "answer", "", "score", "steps"], rows)


class Searcher(Protocol):
    """Policy + judge + budget -> an answer, with its candidates and cost."""

    def solve(self, problems: Sequence[Problem]) -> list[SearchResult]:
        """One result for each problem, in order."""
        ...
