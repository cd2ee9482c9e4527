"""Any rows with known step truth against a judge: first-error F1, step ROC-AUC, ECE and Brier score.

A step is truly right if its truth is at least `truth_threshold`; Brier and ECE take the truth as it is, soft or hard.
Steps without truth (after the first error, say) or without a value are left out of the figures by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import file_revision
from footfall.benchmarks.runner import Benchmark, cases_from, content_revision
from footfall.metrics.cases import Case
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import auc, brier, calibration_error, first_error_rates
from footfall.registry import register
from footfall.types import Judged, Judgement

_CHUNK = 64
"""Resamples measured at once, to bound the memory: each needs a weight a step."""


@register("benchmark", "steps")
def steps(
    data: str | Path | Sequence[Judged], format: str = "auto", truth_threshold: float = 0.5, bins: int = 10
) -> Benchmark:
    """Step labels of any file (or rows): first-error F1, step AUC, ECE, Brier."""
    if isinstance(data, str | Path):
        from footfall.formats import read

        path = Path(data)
        cases = cases_from(read(path, format=format), path.name.partition(".")[0], path.name)
        revision = file_revision([path])
    else:
        cases = cases_from(data, "all", "rows")
        revision = content_revision(cases)

    def measure(
        cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats
    ) -> dict[str, dict[str, Floats]]:
        first = _first_error(cases, judgements, threshold, truth_threshold, weights_RN)
        return {cases[0].split: {**first, **_by_step(cases, judgements, truth_threshold, bins, weights_RN)}}

    return Benchmark(
        name="steps",
        cases=cases,
        measure=measure,
        protocol=f"first step valued strictly below the threshold, else -1; a step is right at truth >= "
        f"{truth_threshold:g}; ECE over {bins} equal-width bins, only for values in [0, 1]",
        objective="f1",
        revision=revision,
    )


def _first_error(
    cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, truth_threshold: float, weights_RN: Floats
) -> dict[str, Floats]:
    """Over the cases whose first error is known."""
    labels = [case.truth.first_below(truth_threshold) for case in cases]
    known = [i for i, label in enumerate(labels) if label is not None]
    rates = first_error_rates(
        [label for label in labels if label is not None],
        [judgements[i].first_below(threshold) for i in known],
        weights_RN[:, known],
    )
    return dict(zip(("acc_err", "acc_cor", "f1"), rates, strict=True))


def _by_step(
    cases: Sequence[Case], judgements: Sequence[Judgement], truth_threshold: float, bins: int, weights_RN: Floats
) -> dict[str, Floats]:
    rows = [
        (n, value, truth)
        for n, (case, judgement) in enumerate(zip(cases, judgements, strict=True))
        for value, truth in zip(judgement.values, case.truth.values, strict=True)
        if value is not None and truth is not None
    ]
    if not rows:
        return {"auc": np.full(len(weights_RN), math.nan)}
    owner, values, truths = (np.asarray(column) for column in zip(*rows, strict=True))
    right = (truths >= truth_threshold).astype(float)
    metrics: dict[str, Callable[[Floats], Floats]] = {"auc": lambda weights: auc(values, right, weights)}
    if ((values >= 0) & (values <= 1)).all():
        metrics["ece"] = lambda weights: calibration_error(values, truths, bins, weights)
        metrics["brier"] = lambda weights: brier(values, truths, weights)
    chunks = [weights_RN[at : at + _CHUNK][:, owner] for at in range(0, len(weights_RN), _CHUNK)]
    return {name: np.concatenate([metric(chunk) for chunk in chunks]) for name, metric in metrics.items()}
