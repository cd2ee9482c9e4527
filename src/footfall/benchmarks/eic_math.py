"""EIC-Math: one planted error of a known type in a GSM8K or MathQA solution; find the step.

    acc_step = cases whose first step valued below the threshold is the labelled one
    acc_present = cases with any step below the threshold; prm_score and step_auc over the steps up to the error

The benchmark proper is `generated_cases_{GSM8K,MathQA}/<type>/<type>_100`, the folders that the authors' evaluation
reads: 9 types × 2 sources × the first 100 cases. The other folders (robustness, cut solutions, fixed numbers of steps) are
studies of one question each. Every solution is wrong, so `acc_present` rewards a judge that always finds fault: read it
beside `acc_step`. Steps are lines; the last line, "#### answer", is the answer and no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import counted, file_revision, first_error_truth, step_case, step_number
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, iter_fields, problem_id
from footfall.metrics.cases import Case, Row, Rows, mean_of, split_by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import case_auc, case_counts, known_steps, macro_f1, ratio
from footfall.registry import register
from footfall.types import Judgement, Problem

SOURCES = ("GSM8K", "MathQA")
TYPES = (
    "calculation_error", "counting_error", "referencing_context_value_error", "referencing_previous_step_value_error",
    "confusing_formula_error", "unit_conversion_error", "operator_error", "missing_step",
    "adding_irrelevant_information",
)  # fmt: skip
_CASES = 100

PUBLISHED = {
    "gpt-4-1106-preview (critic)": ((55, 92, 95, 88, 92, 94, 93, 72, 78), (56, 71, 82, 69, 74, 86, 79, 59, 67)),
    "glm-4 (critic)": ((23, 50, 69, 70, 83, 74, 75, 69, 68), (29, 63, 65, 47, 48, 60, 70, 51, 61)),
    "gemini-pro (critic)": ((10, 24, 49, 32, 33, 15, 49, 44, 67), (8, 31, 25, 14, 26, 11, 29, 29, 42)),
    "gpt-3.5-turbo-1106 (critic)": ((7, 9, 7, 32, 13, 11, 18, 18, 17), (9, 18, 10, 35, 16, 11, 15, 18, 24)),
}
"""Steps found of a hundred, by source and type, from the result files that the authors released (zero-shot prompt)."""


@register("benchmark", "eic-math")
def eic_math(data: str | Path) -> Benchmark:
    """EIC-Math: the step of a planted error, by source and 9 types of errors; `data` is the folder with its folders."""
    files = _files(Path(data))
    rows = {split: list(iter_fields(path)) for split, path in files.items()}
    cases = [_case(split, n, row) for split, found in rows.items() for n, row in enumerate(found[:_CASES], start=1)]
    more = sum(max(0, len(found) - _CASES) for found in rows.values())
    other = sum(case.trajectory.meta["wrong_type"] != case.split.partition("/")[2] for case in cases)
    lost = sum(case.truth.first_below(0.5) is None for case in cases)
    return Benchmark(
        name="eic-math",
        cases=cases,
        measure=split_by_split(_row, _means),
        protocol="the error is at the first step valued strictly below the threshold; no aggregation",
        objective="acc_step",
        revision=file_revision(files.values()),
        published={model: _published(rows) for model, rows in PUBLISHED.items()},
        notes=counted(more, f"rows after the first {_CASES} of their file are left out, as in the authors' evaluation")
        + counted(lost, "cases name a wrong step past the end of the solution; they count in acc_present alone")
        + counted(other, "cases state another error type than their folder's; the folder is taken"),
    )


def _published(rows: Sequence[Sequence[int]]) -> dict[str, float]:
    found = {f"{source}/{kind}": float(n) for source, row in zip(SOURCES, rows, strict=True)
             for kind, n in zip(TYPES, row, strict=True)}  # fmt: skip
    means = {source: sum(row) / len(row) for source, row in zip(SOURCES, rows, strict=True)}
    return {**found, **means, "mean": sum(means.values()) / len(means)}


def _files(data: Path) -> dict[str, Path]:
    found = {
        f"{source}/{kind}": path
        for source in SOURCES
        for kind in TYPES
        for path in sorted((data / f"generated_cases_{source}" / kind / f"{kind}_{_CASES}").glob("*_clean.jsonl*"))
    }
    if not found:
        wanted = f"generated_cases_GSM8K/{TYPES[0]}/{TYPES[0]}_{_CASES}/generated_cases_clean.jsonl (or .gz)"
        raise FileNotFoundError(f"{data} has no files of EIC-Math such as {wanted}")
    return found


def _case(split: str, number: int, fields: Fields) -> Case:
    lines = [line for line in fields.text("transformed_solution").split("\n") if line.strip()]
    steps = [line for line in lines if not line.strip().startswith("####")]
    if not steps:
        raise fields.wrong("transformed_solution", "a solution with at least one step")
    first = step_number(fields, "wrong_step", none="none")
    if first is None or not fields.boolean("is_single_error"):
        raise fields.error(None, "a case with a single wrong step", "none, or several")
    truth = first_error_truth(first, len(steps)) if first <= len(steps) else (None,) * len(steps)
    question = fields.text("question")
    return step_case(
        split, f"{split}/{number}", Problem(problem_id(question), question), steps, truth, "eic-math", correct=False,
        separator="\n", meta={"wrong_type": fields.text("wrong_type")},
    )  # fmt: skip


def _row(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Row:
    """Figures of one source and type."""
    found_N3 = np.asarray([_found(case, said, threshold) for case, said in zip(cases, judgements, strict=True)])
    located, wanted, present = (weights_RN @ found_N3).T
    known = known_steps([case.truth.values for case in cases], [judgement.values for judgement in judgements])
    counts_N4 = case_counts(known.owner, known.truth, (known.value >= threshold).astype(np.float64), len(cases))
    return {
        "acc_step": ratio(located, wanted),
        "acc_present": ratio(present, weights_RN.sum(axis=1)),
        "prm_score": macro_f1(*(weights_RN @ counts_N4).T)[2],
        "step_auc": case_auc(known, weights_RN),
    }


def _means(rows: Rows) -> Rows:
    """The accuracies' plain means over types for each source, and over all."""
    mean = mean_of("acc_step", "acc_present")
    sources = {
        source: {split: row for split, row in rows.items() if split.startswith(f"{source}/")} for source in SOURCES
    }
    return {name: row for name, group in {**sources, "mean": rows}.items() for row in mean(group).values()}


def _found(case: Case, judgement: Judgement, threshold: float) -> tuple[float, float, float]:
    """The labelled step found, a step labelled, any step called wrong."""
    label, low = case.truth.first_below(0.5), judgement.first_below(threshold)
    return label is not None and low == label, label is not None, low is not None and low >= 0
