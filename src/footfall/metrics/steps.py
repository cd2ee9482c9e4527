"""What a judge is measured by. Pure functions of arrays; each takes optional weights, one a case or a step.

With weights of shape (resamples, cases) a metric returns one figure a resample, which is how intervals are made
(`footfall.metrics.intervals`). A figure whose class is empty is NaN: there is nothing to measure, and that is not a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.metrics.cases import Indices
from footfall.metrics.intervals import Floats
from footfall.terminal import one_line

_CHUNK = 128
"""Resamples measured at once where each needs a weight a step, to bound the memory."""


class FirstError(NamedTuple):
    """ProcessBench's figures: hit rate on erroneous and on correct solutions, and their harmonic mean."""

    acc_err: float
    acc_cor: float
    f1: float


def first_error_f1(labels: Sequence[int], predictions: Sequence[int | None]) -> FirstError:
    """acc_err = mean[pred = label | label ≠ −1], acc_cor = mean[pred = −1 | label = −1], F1 their harmonic mean.

    Indices are 0-based, −1 is "no error"; a prediction of `None` (nobody can say) is wrong in either class.
    """
    rates = first_error_rates(labels, predictions, np.ones((1, len(labels))))
    return FirstError(*(float(figure[0]) for figure in rates))


def first_error_rates(
    labels: Sequence[int], predictions: Sequence[int | None], weights_RN: Floats
) -> tuple[Floats, Floats, Floats]:
    """acc_err, acc_cor and F1 for each row of weights."""
    if len(labels) != len(predictions):
        raise ValueError(f"{len(labels)} labels but {len(predictions)} predictions")
    truth = np.asarray(labels, dtype=np.int64)
    hit = np.asarray([p is not None and p == t for p, t in zip(predictions, labels, strict=True)], dtype=np.float64)
    wrong = (truth != -1).astype(np.float64)
    acc_err = ratio(weights_RN @ (hit * wrong), weights_RN @ wrong)
    acc_cor = ratio(weights_RN @ (hit * (1 - wrong)), weights_RN @ (1 - wrong))
    return acc_err, acc_cor, harmonic_mean(acc_err, acc_cor)


def harmonic_mean(a: Floats, b: Floats) -> Floats:
    """2ab / (a + b), 0 where both are 0."""
    return np.where(a + b == 0, 0.0, ratio(2 * a * b, a + b))


def ratio(over: Floats, under: Floats) -> Floats:
    """over / under, NaN where there is nothing to divide by."""
    result: Floats = np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0)
    return result


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike, weights: Floats | None = None) -> Floats:
    """ROC-AUC: the chance that a right step is scored above a wrong one, ties counting one half."""
    scores_N, labels_N, weights_RN = _columns(scores, labels, weights)
    order = np.argsort(scores_N, kind="stable")
    _, starts = np.unique(scores_N[order], return_index=True)
    positive = np.add.reduceat((weights_RN * labels_N)[:, order], starts, axis=1)
    negative = np.add.reduceat((weights_RN * (1 - labels_N))[:, order], starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative
    wins = (positive * (below + negative / 2)).sum(axis=1)
    return _shaped(ratio(wins, positive.sum(axis=1) * negative.sum(axis=1)), weights)


def average_precision(scores: npt.ArrayLike, labels: npt.ArrayLike, weights: Floats | None = None) -> Floats:
    """Σ (R_k − R_{k−1}) P_k over the thresholds from the highest score down; tied scores are one threshold."""
    scores_N, labels_N, weights_RN = _columns(scores, labels, weights)
    order = np.argsort(-scores_N, kind="stable")
    _, starts = np.unique(-scores_N[order], return_index=True)
    found = np.add.reduceat((weights_RN * labels_N)[:, order], starts, axis=1)
    taken = np.cumsum(np.add.reduceat(weights_RN[:, order], starts, axis=1), axis=1)
    precision = np.cumsum(found, axis=1) / np.maximum(taken, np.finfo(np.float64).tiny)
    return _shaped(ratio((found * precision).sum(axis=1), found.sum(axis=1)), weights)


def brier(values: npt.ArrayLike, truth: npt.ArrayLike, weights: Floats | None = None) -> Floats:
    """mean (p − y)²; the truth may be soft."""
    values_N, truth_N, weights_RN = _columns(values, truth, weights, probabilities=True)
    return _shaped(ratio(weights_RN @ (values_N - truth_N) ** 2, weights_RN.sum(axis=1)), weights)


def calibration_error(
    values: npt.ArrayLike, truth: npt.ArrayLike, bins: int = 10, weights: Floats | None = None
) -> Floats:
    """ECE = Σ_b (n_b / n) |mean p in b − mean y in b| over equal-width bins of [0, 1]; 1.0 falls into the last bin."""
    return _bin_gaps(values, truth, bins, weights, np.abs)


def positive_calibration_error(
    values: npt.ArrayLike, truth: npt.ArrayLike, bins: int = 10, weights: Floats | None = None
) -> Floats:
    """PCE = Σ_b (n_b / n) max(0, mean p in b − mean y in b), the over-confident part of `calibration_error`.

    The rest, ECE − PCE, is under-confidence. The name is that of arXiv 2603.09117 and 2604.23333.
    """
    return _bin_gaps(values, truth, bins, weights, lambda gaps_R: np.maximum(gaps_R, 0.0))


def _bin_gaps(
    values: npt.ArrayLike,
    truth: npt.ArrayLike,
    bins: int,
    weights: Floats | None,
    counted: Callable[[Floats], Floats],
) -> Floats:
    """Σ_b (n_b / n) counted(mean p in b − mean y in b), `counted` being positively homogeneous."""
    values_N, truth_N, weights_RN = _columns(values, truth, weights, probabilities=True)
    index = _bin_index(values_N, bins)
    total_R = np.zeros(len(weights_RN))
    for b in np.unique(index):
        total_R += counted(weights_RN[:, index == b] @ (values_N - truth_N)[index == b])
    return _shaped(ratio(total_R, weights_RN.sum(axis=1)), weights)


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """One bar of a reliability diagram: values from `start` to `end`; empty bins are left out."""

    start: float
    end: float
    count: int
    predicted: float
    """Mean value given."""
    observed: float
    """Mean truth found."""


def reliability(values: npt.ArrayLike, truth: npt.ArrayLike, bins: int = 10) -> list[CalibrationBin]:
    """Mean value against mean truth in equal-width bins of [0, 1]."""
    values_N, truth_N, _ = _columns(values, truth, None, probabilities=True)
    index = _bin_index(values_N, bins)
    return [
        CalibrationBin(
            start=b / bins,
            end=(b + 1) / bins,
            count=int(inside.sum()),
            predicted=float(values_N[inside].mean()),
            observed=float(truth_N[inside].mean()),
        )
        for b in range(bins)
        if (inside := index == b).any()
    ]


def _bin_index(values_N: Floats, bins: int) -> npt.NDArray[np.int64]:
    return np.minimum((values_N * bins).astype(np.int64), bins - 1)


def _columns(
    values: npt.ArrayLike, truth: npt.ArrayLike, weights: Floats | None, probabilities: bool = False
) -> tuple[Floats, Floats, Floats]:
    values_N, truth_N = np.asarray(values, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if values_N.ndim != 1 or values_N.shape != truth_N.shape:
        raise ValueError(f"one value and one truth a step are needed, not shapes {values_N.shape} and {truth_N.shape}")
    if not len(values_N):
        raise ValueError("there is no step to measure")
    if not (np.isfinite(values_N).all() and ((truth_N >= 0) & (truth_N <= 1)).all()):
        raise ValueError("a value is not finite, or a truth is not in [0, 1]")
    if probabilities and not ((values_N >= 0) & (values_N <= 1)).all():
        raise ValueError("calibration needs values in [0, 1]; map logits by a sigmoid first")
    weights_RN = np.ones((1, len(values_N))) if weights is None else np.atleast_2d(weights)
    return values_N, truth_N, weights_RN


def _shaped(figures_R: Floats, weights: Floats | None) -> Floats:
    """A row for each row of weights; a single figure if there were none."""
    return figures_R if weights is not None else figures_R[0]


class PrmScore(NamedTuple):
    """PRMBench's figures from counts of steps; "correct" is the positive class."""

    f1: float
    f1_neg: float
    score: float
    accuracy: float


def prm_counts(right: Iterable[bool], said_right: Iterable[bool]) -> tuple[int, int, int, int]:
    """TP, FP, TN, FN of steps: a right step called right is TP. Steps beyond the given labels are not counted."""
    tp = fp = tn = fn = 0
    for truth, label in zip(right, said_right, strict=False):
        tp += truth and label
        fp += label and not truth
        tn += not truth and not label
        fn += truth and not label
    return tp, fp, tn, fn


def prm_score(tp: int, fp: int, tn: int, fn: int) -> PrmScore:
    """PRMScore = ½ F1 + ½ F1_neg, F1 = 2TP / (2TP + FP + FN), F1_neg = 2TN / (2TN + FP + FN); an empty one is 0."""
    f1, f1_neg = (2 * n / (2 * n + fp + fn) if n else 0.0 for n in (tp, tn))
    total = tp + fp + tn + fn
    return PrmScore(f1, f1_neg, (f1 + f1_neg) / 2, (tp + tn) / total if total else 0.0)


class KnownSteps:
    """Steps with both truth and value, flat: `owner` is the number of the case a step belongs to."""

    def __init__(self, rows: Iterable[tuple[int, float, float]]) -> None:
        flat = np.fromiter((number for row in rows for number in row), dtype=np.float64).reshape(-1, 3)
        self.owner: Indices = flat[:, 0].astype(np.int64)
        self.truth: Floats = flat[:, 1]
        self.value: Floats = flat[:, 2]


def refuse_beyond_probabilities(rows: Iterable[tuple[str, Sequence[float | None]]], source: str) -> None:
    """A label says how likely a step is right; the first outside [0, 1] is named with its trace. `rows`: ids and labels."""
    for trace, labels in rows:
        for number, label in enumerate(labels, 1):
            if label is not None and not 0 <= label <= 1:
                raise ValueError(
                    f"{source}: trace {one_line(trace, 60)!r}, step {number}: label {label:g} is no probability; "
                    "bring labels into [0, 1]"
                )


def known_steps(truths: Iterable[Sequence[float | None]], values: Iterable[Sequence[float | None]]) -> KnownSteps:
    """The steps that can be counted: neither the truth nor the value is unknown."""
    return KnownSteps(
        (n, truth, value)
        for n, (truths_K, values_K) in enumerate(zip(truths, values, strict=True))
        for truth, value in zip(truths_K, values_K, strict=True)
        if truth is not None and value is not None
    )


def case_counts(owner: Indices, right: Floats, said_right: Floats, cases: int) -> Floats:
    """TP, FP, TN, FN of each case, as columns."""
    columns = (right * said_right, (1 - right) * said_right, (1 - right) * (1 - said_right), right * (1 - said_right))
    return np.stack([np.bincount(owner, column, minlength=cases) for column in columns], axis=1)


def macro_f1(tp: Floats, fp: Floats, tn: Floats, fn: Floats) -> tuple[Floats, Floats, Floats]:
    """F1, F1_neg and their mean, PRMScore."""
    f1, f1_neg = (ratio(2 * n, 2 * n + fp + fn) for n in (tp, tn))
    return f1, f1_neg, (f1 + f1_neg) / 2


def in_chunks(metric: Callable[[Floats], Floats], owner: Indices, weights_RN: Floats) -> Floats:
    """A metric of steps (or whole cases) for each row of case weights, each step with the weight of its owner."""
    chunks = [weights_RN[at : at + _CHUNK][:, owner] for at in range(0, len(weights_RN), _CHUNK)]
    return np.concatenate([metric(chunk) for chunk in chunks])


def case_auc(known: KnownSteps, weights_RN: Floats) -> Floats:
    """ROC-AUC of known steps for each row of case weights; NaN without any."""
    if not len(known.value):
        return np.full(len(weights_RN), np.nan)
    return in_chunks(lambda weights: auc(known.value, known.truth, weights), known.owner, weights_RN)
