"""MR-MATH (ReasonEval): invalid steps and redundant steps in solutions that reach the right answer.

    invalid: a step is called valid if value > threshold; the steps after the first error are not counted
    redundant: a step is called useful if its redundancy is below 0.15 (ReasonEval's own limit)
    a solution scores the least of its steps; f1 is the mean of the F1 of both classes, as in PRMScore

The redundant split is measured by the judgement's aspect "redundancy" (soft) or else "redundant" (1 or 0); for a judge
with neither there is no figure. A step that the data splits into lines is one step here, its lines joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import (
    Names,
    benchmark_files,
    data_source,
    file_cases,
    first_error_truth,
    step_case,
    step_number,
)
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, problem_id
from footfall.metrics.cases import Case, Row, split_by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import case_auc, case_counts, first_error_rates, known_steps, macro_f1
from footfall.registry import register
from footfall.types import Judgement, Problem

REDUNDANT_ABOVE = 0.15
_FILES = ("mr-math_invalid_errors", "mr-math_redundant_errors")
Values = list[Sequence[float | None]]


@register("benchmark", "mr-math")
@data_source(folder="reasoneval")
def mr_math(data: str | Path) -> Benchmark:
    """MR-MATH (ReasonEval): macro F1 and AUC of invalid and redundant steps; `data` is the folder or one of its files."""
    cases, revision = file_cases(benchmark_files(data, _FILES, "MR-MATH").values(), _case)
    return Benchmark(
        name="mr-math",
        cases=cases,
        measure=split_by_split(_row),
        protocol="a step is called valid if its value is strictly above the threshold, useful if its aspect redundancy is "
        f"below {REDUNDANT_ABOVE:g}; a solution is as good as its worst step",
        objective="step_f1",
        revision=revision,
        aside=frozenset({"redundant"}),
        notes=("the split redundant is measured only for judges with the aspect redundancy (or redundant)",),
    )


def _case(fields: Fields, _path: Path, _names: Names) -> list[Case]:
    lines = [fields.within(f"model_output_step_format[{i}]", {"step": step})
             for i, step in enumerate(fields.items("model_output_step_format"))]  # fmt: skip
    steps = ["\n".join(line.texts("step")) for line in lines]
    if "rating" in fields:
        split, truth = "redundant", fields.values("rating", len(steps))
        if not {*truth} <= {0.0, 1.0}:
            raise fields.wrong("rating", "1 (useful) or 0 (redundant) for each step")
        right = 0.0 not in truth
    else:
        split, truth, right = "invalid", *_validity(fields, len(steps))
    name, question = f"{split}-{fields.integer('id')}", fields.text("question")
    problem = Problem(problem_id(question), question, fields.text_or_none("ground_truth_answer"))
    author = fields.text_or_none("generator")
    return [step_case(split, name, problem, steps, truth, "mr-math", correct=right, author=author, separator="\n")]


def _validity(fields: Fields, steps: int) -> tuple[tuple[float | None, ...], bool]:
    verdict = fields.text("model_output_solution_correctness")
    if verdict not in ("correct", "wrong"):
        raise fields.wrong("model_output_solution_correctness", "'correct' or 'wrong'")
    first = step_number(fields, "model_output_solution_first_error_step")
    if (verdict == "correct") != (first is None) or (first is not None and first > steps):
        expected = "N/A" if verdict == "correct" else f"a number from 1 to {steps}"
        raise fields.wrong("model_output_solution_first_error_step", f"{expected}, as the solution is {verdict}")
    return first_error_truth(first, steps), verdict == "correct"


def _row(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Row:
    """Macro F1 and AUC of a split's steps and solutions; nothing if the judge has no numbers for it."""
    if cases[0].split == "invalid":
        row = _figures(cases, [judgement.values for judgement in judgements], threshold, weights_RN)
        labels = [values.index(0.0) if 0.0 in (values := case.truth.values) else -1 for case in cases]
        found = [judgement.first_below(threshold) for judgement in judgements]
        return row | {"first_error_f1": first_error_rates(labels, found, weights_RN)[2]}
    if not any(_redundancy(judgement) for judgement in judgements):
        return {}
    return _figures(cases, [_useful(judgement) for judgement in judgements], -REDUNDANT_ABOVE, weights_RN)


def _figures(cases: Sequence[Case], values: Values, threshold: float, weights_RM: Floats) -> Row:
    steps = [case.truth.values for case in cases]
    least = [(None,) if None in known else (min(v for v in known if v is not None),) for known in values]
    step_f1, step_auc = _f1_and_auc(steps, values, threshold, weights_RM)
    f1, area = _f1_and_auc([(case.truth.value,) for case in cases], least, threshold, weights_RM)
    return {"step_f1": step_f1, "step_auc": step_auc, "solution_f1": f1, "solution_auc": area}


def _f1_and_auc(
    truths: Sequence[Sequence[float | None]], values: Sequence[Sequence[float | None]], threshold: float,
    weights_RM: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    known = known_steps(truths, values)
    counts_M4 = case_counts(known.owner, known.truth, (known.value > threshold).astype(np.float64), len(truths))
    _, _, both = macro_f1(*(weights_RM @ counts_M4).T)
    return both, case_auc(known, weights_RM)


def _redundancy(judgement: Judgement) -> Sequence[float | None]:
    return judgement.aspects.get("redundancy") or judgement.aspects.get("redundant") or ()


def _useful(judgement: Judgement) -> Sequence[float | None]:
    """Minus the redundancy of each step, so that high is good."""
    given = _redundancy(judgement) or (None,) * len(judgement.values)
    return [None if value is None else -value for value in given]
