"""What a judge is measured on: trajectories whose truth is known, in splits and groups, and figures split by split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.metrics.intervals import Floats
from footfall.types import Judgement, Trajectory

Indices = npt.NDArray[np.int64]


class Case(NamedTuple):
    """A trajectory whose truth is known, and the split or category that it is counted in."""

    split: str
    trajectory: Trajectory
    truth: Judgement
    """Step truth in `values` (None: not known), outcome truth in `value` (1.0: the right or chosen one)."""
    group: str = ""
    """Cases of one split and group (the candidates of one problem) are compared with each other and resampled together;
    without a group a case stands alone."""


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
