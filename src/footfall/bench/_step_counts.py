"""Steps of many cases as flat arrays: counts once a case, figures of all resamples by one matrix product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from footfall.bench.intervals import Floats
from footfall.bench.metrics import auc
from footfall.bench.runner import Case

__all__ = ["Indices", "KnownSteps", "by_split", "case_counts", "chunked_auc", "divide", "known_steps", "macro_f1"]

Indices = npt.NDArray[np.int64]
_CHUNK = 128
"""Resamples measured at once where each needs a weight a step, to bound the memory."""


class KnownSteps:
    """Steps with both truth and value, flat: `owner` is the number of the case a step belongs to."""

    def __init__(self, rows: Iterable[tuple[int, float, float]]) -> None:
        flat = np.fromiter((number for row in rows for number in row), dtype=np.float64).reshape(-1, 3)
        self.owner: Indices = flat[:, 0].astype(np.int64)
        self.truth: Floats = flat[:, 1]
        self.value: Floats = flat[:, 2]


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


def divide(over: Floats, under: Floats) -> Floats:
    """A ratio for each resample; NaN where there is nothing to measure."""
    result: Floats = np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0)
    return result


def macro_f1(tp: Floats, fp: Floats, tn: Floats, fn: Floats) -> tuple[Floats, Floats, Floats]:
    """F1, F1_neg and their mean, PRMScore."""
    f1, f1_neg = (divide(2 * n, 2 * n + fp + fn) for n in (tp, tn))
    return f1, f1_neg, (f1 + f1_neg) / 2


def chunked_auc(scores: Floats, right: Floats, owner: Indices, weights_RN: Floats) -> Floats:
    """ROC-AUC of steps (or whole cases) for each row of case weights."""
    if not len(scores):
        return np.full(len(weights_RN), np.nan)
    chunks = [weights_RN[at : at + _CHUNK][:, owner] for at in range(0, len(weights_RN), _CHUNK)]
    return np.concatenate([auc(scores, right, chunk) for chunk in chunks])


def by_split(cases: Sequence[Case]) -> dict[str, Indices]:
    """The numbers of the cases of each split, in the order of appearance."""
    names = np.asarray([case.split for case in cases])
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
