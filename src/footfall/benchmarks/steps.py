"""Any rows with known step truth against a judge: first-error F1, step ROC-AUC, ECE and Brier score.

A step is truly right if its truth is at least `truth_threshold`; Brier and ECE take the truth as it is, soft or hard.
Steps without truth (after the first error, say) or without a value are left out of the figures by step.
Several traces of one problem are resampled together: a judge is right or wrong about them together more often than by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import data_files, data_source, file_revision, stem, with_steps
from footfall.benchmarks.runner import Benchmark, cases_from, content_revision
from footfall.formats import read
from footfall.metrics.cases import Case, Row, mean_of, split_by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import (
    auc,
    brier,
    calibration_error,
    first_error_rates,
    in_chunks,
    known_steps,
    refuse_beyond_probabilities,
)
from footfall.registry import register
from footfall.types import Judged, Judgement


@register("benchmark", "steps")
@data_source(rows=True, reader=True)
def steps(
    data: str | Path | Sequence[Judged],
    format: str = "auto",
    truth_threshold: float = 0.5,
    bins: int = 10,
    reader: Callable[[Path, str], list[Judged]] = read,
) -> Benchmark:
    """Step labels of any file, folder of files (or rows): first-error F1, step AUC, ECE, Brier.

    Each file is a split; `reader` reads one, given its path and format.
    """
    if bins < 1:
        raise ValueError(f"bins={bins}: at least 1 is needed")
    if isinstance(data, str | Path):
        files = _splits(Path(data))
        cases = [case for split, path in files.items() for case in cases_from(reader(path, format), split, path.name)]
        revision = file_revision(files.values())
    else:
        cases = cases_from(data, "all", "rows")
        revision = content_revision(cases)
    refuse_beyond_probabilities(
        ((case.trajectory.id, case.truth.values) for case in cases),
        Path(data).name if isinstance(data, str | Path) else "rows",
    )
    cases, notes = with_steps(cases)
    cases = _by_problem(cases)

    def row(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Row:
        first = _first_error(cases, judgements, threshold, truth_threshold, weights_RN)
        return {**first, **_by_step(cases, judgements, truth_threshold, bins, weights_RN)}

    return Benchmark(
        name="steps",
        cases=cases,
        measure=split_by_split(row, mean_of("f1")),
        protocol=f"first step valued strictly below the threshold, else -1; a step is right at truth >= "
        f"{truth_threshold:g}; ECE over {bins} equal-width bins, only for values in [0, 1]",
        objective="f1",
        revision=revision,
        truth_threshold=truth_threshold,
        notes=notes,
    )


def _splits(data: Path) -> dict[str, Path]:
    """A file under its name, or each data file below a folder under its path there, both without endings."""
    if not data.is_dir():
        return {stem(data): data}
    found: dict[str, Path] = {}
    for path in data_files(data):
        split = path.relative_to(data).with_name(stem(path)).as_posix()
        if split in found:
            raise ValueError(f"{found[split]} and {path} would be one split; rename one, or name the file itself")
        found[split] = path
    return found


def _by_problem(cases: Sequence[Case]) -> list[Case]:
    """The cases in groups by their problem; in a split of a single problem each stands alone, there is nothing else to draw."""
    problems: dict[str, set[str]] = {}
    for case in cases:
        problems.setdefault(case.split, set()).add(case.trajectory.problem.id)
    return [
        case._replace(group=case.trajectory.problem.id) if len(problems[case.split]) > 1 else case for case in cases
    ]


def _first_error(
    cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, truth_threshold: float, weights_RN: Floats
) -> Row:
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
) -> Row:
    known = known_steps([case.truth.values for case in cases], [judgement.values for judgement in judgements])
    if not len(known.value):
        return {"auc": np.full(len(weights_RN), math.nan)}
    values, truths, right = known.value, known.truth, (known.truth >= truth_threshold).astype(float)
    metrics: dict[str, Callable[[Floats], Floats]] = {"auc": lambda weights: auc(values, right, weights)}
    if ((values >= 0) & (values <= 1)).all():
        metrics["ece"] = lambda weights: calibration_error(values, truths, bins, weights)
        metrics["brier"] = lambda weights: brier(values, truths, weights)
    return {name: in_chunks(metric, known.owner, weights_RN) for name, metric in metrics.items()}
