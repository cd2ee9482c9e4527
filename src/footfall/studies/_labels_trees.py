"""Methods that write their own traces: trees from problems alone, read as whole traces with a label at each step.

The worlds' truth is about whole traces, so a tree gives one trace a leaf. OmegaPRM values the ends of segments, EDU-PRM the
ends of fragments; a step has the value of the segment or fragment in which it ends. HRM values every step; its merged pairs
are left out, for the truth is about single steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol, runtime_checkable

from footfall.label.edu_prm import EntropyTrees
from footfall.label.edu_prm import Grown as Branched
from footfall.label.hrm_hnc import Expansion, FullTrees
from footfall.label.omegaprm import Grown, OmegaPRM
from footfall.label.tally import drawn
from footfall.label.trees import leaf_rows
from footfall.studies._labels_setting import Setting, scripted
from footfall.studies._labels_words import WordWriter
from footfall.types import Cost, Judged, Problem, Trajectory, failures_of


class Paid(Protocol):
    """A tree, or several, and what they cost."""

    @property
    def cost(self) -> Cost: ...


@runtime_checkable
class OwnTraces(Protocol):
    """Labelled traces from problems alone."""

    @property
    def name(self) -> str: ...

    def grow(self, problems: Sequence[Problem], separator: str) -> Sequence[Paid]:
        """The trees of all problems."""
        ...

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        """The traces of the trees."""
        ...


@dataclass(frozen=True)
class _Searched:
    """OmegaPRM's trees."""

    trees: OmegaPRM

    @property
    def name(self) -> str:
        return self.trees.name

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Grown]:
        return self.trees.grow(problems, separator)

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        grown = self.grow(problems, separator)
        return [by_segments(row) for each in grown for row in leaf_rows(each.tree, self.name)]


@dataclass(frozen=True)
class _Branched:
    """EDU-PRM's trees."""

    trees: EntropyTrees

    @property
    def name(self) -> str:
        return self.trees.name

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Branched]:
        return replace(self.trees, separator=separator).grow(problems)

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        rows = [row for each in self.grow(problems, separator) for row in each.rows(self.name)]
        return [by_lines(row, self.trees.writer.in_lines(row.trajectory)) for row in rows]


@dataclass(frozen=True)
class _Full:
    """HRM's trees."""

    trees: FullTrees

    @property
    def name(self) -> str:
        size = f"branch={self.trees.branch},depth={self.trees.depth}"
        return f"hrm-tree({self.trees.policy.name},{size},{drawn(self.trees.params)})"

    def grow(self, problems: Sequence[Problem], separator: str) -> list[Expansion]:
        return [self.trees.grow(problems, separator)]

    def collect(self, problems: Sequence[Problem], separator: str) -> list[Judged]:
        trees = [tree for each in self.grow(problems, separator) for tree in each.trees]
        rows = [row for tree in trees for row in leaf_rows(tree, self.name)]
        # Siblings may have one text: an answer has one wording.
        return list({(row.trajectory.key, row.judgement and row.judgement.values): row for row in rows}.values())


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


def by_lines(row: Judged, lines: Trajectory) -> Judged:
    """The same text in lines: nothing branches within a fragment, so a line has the value of the fragment it ends in."""
    trajectory, said = row
    assert said is not None
    ends = list(accumulate(len(step.token_ids or ()) for step in trajectory.steps))
    closed = accumulate(len(step.token_ids or ()) for step in lines.steps)
    values = tuple(said.values[bisect_left(ends, end)] for end in closed)
    return Judged(lines, replace(said, values=values, failures=()).check(lines))


def search_trees(setting: Setting, budget: float) -> OwnTraces:
    """OmegaPRM's trees of the same problems, by so many binary searches a problem."""
    return _Searched(OmegaPRM(setting.policy, searches=int(budget), params=setting.params))


def full_trees(setting: Setting, budget: float) -> OwnTraces:
    """HRM's trees of the same problems, two steps after every step, so deep."""
    return _Full(FullTrees(setting.policy, branch=2, depth=int(budget), params=setting.params))


def entropy_trees(threshold: float = 1.0) -> Callable[[Setting, float], OwnTraces]:
    """EDU-PRM's trees of the same problems, with so many solutions each, that branch above `threshold` nats."""

    def make(setting: Setting, budget: float) -> OwnTraces:
        writer = WordWriter(scripted(setting))
        return _Branched(EntropyTrees(writer, int(budget), threshold, setting.params.max_tokens))

    return make
