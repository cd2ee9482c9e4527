"""Any rows with known step truth against a judge: first-error F1, step ROC-AUC, ECE and Brier score.

A step is truly right if its truth is at least `truth_threshold`; Brier and ECE take the truth as it is, soft or hard.
Steps without truth (after the first error, say) or without a value are left out of the figures by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import data_files, data_source, file_revision
from footfall.benchmarks.runner import Benchmark, cases_from, content_revision
from footfall.formats import BadRecords, read
from footfall.metrics.cases import Case
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import auc, brier, calibration_error, first_error_rates
from footfall.registry import register
from footfall.types import Judged, Judgement

_CHUNK = 64
"""Resamples measured at once, to bound the memory: each needs a weight a step."""


@register("benchmark", "steps")
@data_source(rows=True, skip_bad=True)
def steps(
    data: str | Path | Sequence[Judged],
    format: str = "auto",
    truth_threshold: float = 0.5,
    bins: int = 10,
    bad: BadRecords | None = None,
) -> Benchmark:
    """Step labels of any file, folder of files (or rows): first-error F1, step AUC, ECE, Brier.

    Each file is a split. Records that cannot be read go to `bad` if it is given.
    """
    if isinstance(data, str | Path):
        files = _splits(Path(data))
        cases = [
            case
            for split, path in files.items()
            for case in cases_from(read(path, format=format, bad=bad), split, path.name)
        ]
        revision = file_revision(files.values())
    else:
        cases = cases_from(data, "all", "rows")
        revision = content_revision(cases)

    def measure(
        cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats
    ) -> dict[str, dict[str, Floats]]:
        figures: dict[str, dict[str, Floats]] = {}
        for split in dict.fromkeys(case.split for case in cases):
            inside = [i for i, case in enumerate(cases) if case.split == split]
            part, said, weights = [cases[i] for i in inside], [judgements[i] for i in inside], weights_RN[:, inside]
            first = _first_error(part, said, threshold, truth_threshold, weights)
            figures[split] = {**first, **_by_step(part, said, truth_threshold, bins, weights)}
        if len(figures) > 1:
            figures["mean"] = {"f1": np.mean([row["f1"] for row in figures.values()], axis=0)}
        return figures

    return Benchmark(
        name="steps",
        cases=cases,
        measure=measure,
        protocol=f"first step valued strictly below the threshold, else -1; a step is right at truth >= "
        f"{truth_threshold:g}; ECE over {bins} equal-width bins, only for values in [0, 1]",
        objective="f1",
        revision=revision,
    )


def _splits(data: Path) -> dict[str, Path]:
    """A file under its name, or each data file below a folder under its path there, both without endings."""
    if not data.is_dir():
        return {data.name.partition(".")[0]: data}
    found: dict[str, Path] = {}
    for path in data_files(data):
        split = path.relative_to(data).with_name(path.name.partition(".")[0]).as_posix()
        if split in found:
            raise ValueError(f"{found[split]} and {path} would be one split; rename one, or name the file itself")
        found[split] = path
    return found


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
