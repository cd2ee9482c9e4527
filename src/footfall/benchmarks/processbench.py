"""ProcessBench: find the earliest wrong step, or say that there is none (card: processbench).

    prediction = smallest k with value_k < threshold, else −1
    F1 = harmonic mean of acc_err (exact index, erroneous solutions) and acc_cor (correct solutions), per split
    mean = plain mean of the splits' F1

Unlike the official script, a class without cases gives no figure rather than a division by zero, and a threshold that was
tuned on a split is not reported on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from footfall.benchmarks.records import benchmark_files, file_revision, with_steps
from footfall.benchmarks.runner import Benchmark, cases_from
from footfall.metrics.cases import Case, Row, mean_of, split_by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import first_error_rates
from footfall.registry import register
from footfall.types import Judgement

SPLITS = ("gsm8k", "math", "olympiadbench", "omnimath")

PUBLISHED = {
    "Math-Shepherd-7B": (47.9, 29.5, 24.8, 23.8),
    "RLHFlow-Mistral-8B": (50.4, 33.4, 13.8, 15.8),
    "RLHFlow-Deepseek-8B": (38.8, 33.8, 16.9, 16.9),
    "Skywork-1.5B": (59.0, 48.0, 19.3, 19.2),
    "Skywork-7B": (70.8, 53.6, 22.9, 21.0),
    "Qwen2.5-Math-7B-PRM800K": (68.2, 62.6, 50.7, 44.3),
    "Qwen2.5-Math-PRM-7B": (82.4, 77.6, 67.5, 66.3),
    "Qwen2.5-Math-PRM-72B": (87.3, 80.6, 74.3, 71.1),
    "GPT-4o-0806 (critic)": (79.2, 63.6, 51.4, 53.5),
    "QwQ-32B-Preview (critic)": (88.0, 78.7, 57.8, 61.3),
    "o1-mini (critic)": (93.2, 88.9, 87.2, 82.4),
}
"""F1 in percent of each split, as published."""


@register("benchmark", "processbench")
def processbench(data: str | Path) -> Benchmark:
    """ProcessBench: first-error F1 on human-labelled math solutions; `data` is its folder or one split's file."""
    from footfall.formats import read

    files = benchmark_files(data, SPLITS, "ProcessBench")
    cases, notes = with_steps(
        [
            case
            for split, path in files.items()
            for case in cases_from(read(path, format="processbench"), split, path.name)
        ]
    )
    return Benchmark(
        name="processbench",
        cases=cases,
        measure=measure,
        protocol="first step valued strictly below the threshold, else -1; no aggregation",
        objective="f1",
        revision=file_revision(files.values()),
        published={model: dict(zip(SPLITS, row, strict=True)) for model, row in PUBLISHED.items()},
        notes=notes,
    )


def _row(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Row:
    predictions = [judgement.first_below(threshold) for judgement in judgements]
    rates = first_error_rates([_label(case) for case in cases], predictions, weights_RN)
    return dict(zip(("acc_err", "acc_cor", "f1"), rates, strict=True))


def _label(case: Case) -> int:
    label = case.truth.first_below(0.5)
    if label is None:
        raise ValueError(f"{case.split} {case.trajectory.id!r}: a step before the first error has no label")
    return label


measure = split_by_split(_row, mean_of("f1"))
"""acc_err, acc_cor and F1 of each split, and the mean of the F1."""
