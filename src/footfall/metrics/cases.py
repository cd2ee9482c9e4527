"""What a judge is measured on: trajectories whose truth is known, in splits and groups, and figures split by split.

With them stand judges that know nothing, and one that knows all. A benchmark on which the former do well measures something
else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.metrics.intervals import Floats
from footfall.registry import Declared, register
from footfall.types import Judgement, Step, Trajectory, content_key

Indices = npt.NDArray[np.int64]


class Case(NamedTuple):
    """A trajectory whose truth is known, and the split or category that it is counted in."""

    split: str
    trajectory: Trajectory
    truth: Judgement
    """Step truth in `values` (None: not known), outcome truth in `value` (1.0: the right or chosen one)."""
    group: str = ""
    """Cases of one split and group (candidates for, or traces of, one problem) are resampled together, and compared with each
    other if no step of theirs has a truth; without a group a case stands alone."""


Row = dict[str, Floats]
"""By figure: one value a row of weights."""
Rows = dict[str, Row]
"""By split, or by what a row sums up."""
Measure = Callable[[Sequence[Case], Sequence[Judgement], float, Floats], Rows]
"""Cases, their judgements, threshold and weights (a row a resample, a column a case) -> figures."""


def by_split(cases: Sequence[Case]) -> dict[str, Indices]:
    """The numbers of the cases of each split, in the order of appearance."""
    names = np.asarray([case.split for case in cases])
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}


def by_group(cases: Sequence[Case]) -> dict[tuple[str, str], list[int]]:
    """The numbers of the cases that are compared with each other, by split and group."""
    members: dict[tuple[str, str], list[int]] = {}
    for i, case in enumerate(cases):
        members.setdefault((case.split, case.group), []).append(i)
    return members


def split_totals(cases: Sequence[Case], table_NC: Floats, weights_RN: Floats) -> dict[str, Floats]:
    """By split: the weighted sums of a table's columns, one row a resample."""
    return {split: weights_RN[:, inside] @ table_NC[inside] for split, inside in by_split(cases).items()}


def split_by_split(
    row: Callable[[Sequence[Case], Sequence[Judgement], float, Floats], Row],
    summary: Callable[[Rows], Rows] = lambda rows: {},
) -> Measure:
    """A benchmark's `measure`: a row of each split that has one, from its own cases, then what `summary` makes of them."""

    def measure(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Rows:
        rows: Rows = {}
        for split, inside in by_split(cases).items():
            found = row(
                [cases[i] for i in inside], [judgements[i] for i in inside], threshold, weights_RN[:, inside]
            )  # fmt: skip
            rows |= {split: found} if found else {}
        return {**rows, **summary(rows)}

    return measure


def mean_of(*names: str) -> Callable[[Rows], Rows]:
    """The row "mean" of several rows: the plain mean of each figure over the rows that have it."""

    def summary(rows: Rows) -> Rows:
        columns = {name: [row[name] for row in rows.values() if name in row] for name in names}
        found = {name: np.mean(column, axis=0) for name, column in columns.items() if column}
        return {"mean": found} if len(rows) > 1 else {}

    return summary


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value for every step."""

    name: str
    value: float

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (self.value,) * len(t.steps), self.name) for t in trajectories]


@register("labeller", "always-right", Declared(control=True))
def always_right() -> Constant:
    """Sanity judge: every step is right (1.0)."""
    return Constant("always-right", 1.0)


@register("labeller", "always-wrong", Declared(control=True))
def always_wrong() -> Constant:
    """Sanity judge: every step is wrong (0.0)."""
    return Constant("always-wrong", 0.0)


@register("labeller", "random", Declared(control=True))
@dataclass(frozen=True, slots=True)
class RandomJudge:
    """Sanity judge: uniform values in [0, 1); the same seed and trajectory give the same ones."""

    seed: int = 0

    @property
    def name(self) -> str:
        return f"random(seed={self.seed})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, self._values(t), self.name) for t in trajectories]

    def _values(self, trajectory: Trajectory) -> tuple[float, ...]:
        rng = np.random.default_rng(int(content_key("random-judge", self.seed, trajectory.key), 16))
        return tuple(rng.random(len(trajectory.steps)).tolist())


@register("labeller", "length", Declared(control=True))
@dataclass(frozen=True, slots=True)
class LengthJudge:
    """Sanity judge: a step is as good as it is short, scale / (scale + characters)."""

    scale: float = 200.0
    """A step of this many characters gets 0.5."""

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale of the labeller 'length' is a finite number above 0, not {self.scale:g}")

    @property
    def name(self) -> str:
        return f"length(scale={self.scale:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(map(self._value, t.steps)), self.name) for t in trajectories]

    def _value(self, step: Step) -> float:
        return self.scale / (self.scale + len(step.written))


KNOW_NOTHING = (always_right(), always_wrong(), RandomJudge(), LengthJudge())
"""What a figure is to be held against."""


class Oracle:
    """Says the truth of a benchmark's cases, known steps and whole responses: what no judge can beat.

    Two cases of the same id and text get the truth of the first, as any judge would treat them alike.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self._truth: dict[tuple[str, str], Judgement] = {}
        for case in cases:
            self._truth.setdefault((case.trajectory.id, case.trajectory.key), case.truth)
        said = [[*place, list(truth.values), truth.value] for place, truth in self._truth.items()]
        self.name = f"oracle@{content_key('oracle', said)[:8]}"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judgement(t) for t in trajectories]

    def _judgement(self, trajectory: Trajectory) -> Judgement:
        truth = self._truth.get((trajectory.id, trajectory.key))
        if truth is None:
            raise ValueError(f"trajectory {trajectory.id!r} is no case of the benchmark that the oracle knows")
        return Judgement(trajectory.id, truth.values, self.name, truth.value, aspects=truth.aspects)
