"""Where a judge errs: wrong steps found against the threshold, calibration, and first errors by their position.

Everything is over the reported cases whose step truth is known, but for splits that ask something else of a step (whether it
is redundant); steps without truth or without a value are left out.
"Wrong" is the class to be found: a step is called wrong if its value is strictly below the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from footfall.metrics.cases import Case
from footfall.metrics.intervals import Floats, wilson
from footfall.metrics.steps import CalibrationBin, calibration_error, known_steps, reliability
from footfall.types import Json, Judgement

POINTS = 101
"""Thresholds at which the curve is computed."""
BINS = 10
POSITIONS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 7), (8, None))
"""First and last 0-based index of the first error in each bin; the last bin has no end."""


class Confusion(NamedTuple):
    """Counts of steps at one threshold."""

    wrong_found: int
    right_flagged: int
    right_passed: int
    wrong_missed: int


class CurvePoint(NamedTuple):
    """Finding wrong steps at one threshold; `None` where there is nothing to divide by."""

    threshold: float
    precision: float | None
    recall: float | None
    f1: float | None


class Position(NamedTuple):
    """Cases whose first error lies at `label`, and how many were found there, with Wilson's 95% interval."""

    label: str
    n: int
    found: int
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What stands under "diagnostics" in a report."""

    steps: int
    """Steps with truth and value."""
    wrong: int
    """Those of them that are truly wrong."""
    unjudged: int
    """Steps with truth and without value: where a judge stops early, they are not a random part."""
    threshold: float
    confusion: Confusion
    curve: tuple[CurvePoint, ...]
    reliability: tuple[CalibrationBin, ...]
    """Empty if a value lies outside [0, 1]: then it is no probability."""
    ece: float | None
    positions: tuple[Position, ...]
    """Erroneous cases by the position of the first error; empty bins are left out."""
    no_error: Position | None
    """Cases without an error: found means that no step was flagged."""

    def to_dict(self) -> dict[str, Json]:
        return {
            "steps": self.steps,
            "wrong": self.wrong,
            "unjudged": self.unjudged,
            "threshold": self.threshold,
            "confusion": self.confusion._asdict(),
            "curve": [point._asdict() for point in self.curve],
            "reliability": [asdict(b) for b in self.reliability],
            "ece": self.ece,
            "positions": [position._asdict() for position in self.positions],
            "no_error": None if self.no_error is None else self.no_error._asdict(),
        }


def diagnose(
    cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, truth_threshold: float = 0.5
) -> Diagnostics | None:
    """The diagnostics, or `None` where no judged step has a truth. A step is right at truth >= `truth_threshold`."""
    known = known_steps([case.truth.values for case in cases], [judgement.values for judgement in judgements])
    values_N, truth_N = known.value, known.truth
    if not len(values_N):
        return None
    wrong_N = truth_N < truth_threshold
    probabilities = bool(((values_N >= 0) & (values_N <= 1)).all())
    positions, no_error = _positions(cases, judgements, threshold, truth_threshold)
    return Diagnostics(
        steps=len(values_N),
        wrong=int(wrong_N.sum()),
        unjudged=sum(truth is not None for case in cases for truth in case.truth.values) - len(values_N),
        threshold=threshold,
        confusion=_confusions(values_N, wrong_N, np.asarray([threshold]))[0],
        curve=_curve(values_N, wrong_N, probabilities),
        reliability=tuple(reliability(values_N, truth_N, BINS)) if probabilities else (),
        ece=float(calibration_error(values_N, truth_N, BINS)) if probabilities else None,
        positions=positions,
        no_error=no_error,
    )


def _confusions(values_N: Floats, wrong_N: np.ndarray, thresholds: Floats) -> list[Confusion]:
    """`side="left"` counts the values strictly below a threshold."""
    found = np.searchsorted(np.sort(values_N[wrong_N]), thresholds, side="left").tolist()
    flagged = np.searchsorted(np.sort(values_N[~wrong_N]), thresholds, side="left").tolist()
    wrong, right = int(wrong_N.sum()), int((~wrong_N).sum())
    return [Confusion(tp, fp, right - fp, wrong - tp) for tp, fp in zip(found, flagged, strict=True)]


def _curve(values_N: Floats, wrong_N: np.ndarray, probabilities: bool) -> tuple[CurvePoint, ...]:
    """Over [0, 1], or over the range of the values where they are no probabilities."""
    low, high = (0.0, 1.0) if probabilities else (float(values_N.min()), float(values_N.max()))
    thresholds = np.linspace(low, high, POINTS) if high > low else np.asarray([low])
    counts = _confusions(values_N, wrong_N, thresholds)
    return tuple(_point(float(t), c) for t, c in zip(thresholds, counts, strict=True))


def _point(threshold: float, c: Confusion) -> CurvePoint:
    precision = _share(c.wrong_found, c.wrong_found + c.right_flagged)
    recall = _share(c.wrong_found, c.wrong_found + c.wrong_missed)
    f1 = _share(2 * c.wrong_found, 2 * c.wrong_found + c.right_flagged + c.wrong_missed)
    return CurvePoint(threshold, precision, recall, f1)


def _share(over: int, under: int) -> float | None:
    return over / under if under else None


def _positions(
    cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, truth_threshold: float
) -> tuple[tuple[Position, ...], Position | None]:
    """Over the cases whose first error is known; a prediction that nobody can make is not found."""
    hits: dict[int, list[bool]] = {}
    for case, judgement in zip(cases, judgements, strict=True):
        first = case.truth.first_below(truth_threshold)
        if first is not None and case.truth.values:
            hits.setdefault(first, []).append(judgement.first_below(threshold) == first)
    binned = []
    for start, end in POSITIONS:
        inside = [
            hit for at, found in hits.items() if start <= at <= (math.inf if end is None else end) for hit in found
        ]
        label = f"{start}+" if end is None else str(start) if start == end else f"{start}-{end}"
        if inside:
            binned.append(_position(label, inside))
    return tuple(binned), _position("no error", hits[-1]) if -1 in hits else None


def _position(label: str, hits: Sequence[bool]) -> Position:
    return Position(label, len(hits), sum(hits), *wilson(sum(hits), len(hits)))
