"""MR-Ben: is a solution correct, and where is its first error? Six or seven subjects, human labels.

    said correct = the judgement's own value >= threshold, else no step valued below the threshold
    mcc = Matthews correlation of said and true correctness (0 if the judge always says the same)
    acc_step = incorrect solutions that are called incorrect and whose first low step is the labelled one / incorrect ones
    MR-Score = 0.2 max(0, mcc) + 0.3 acc_step + 0.5 acc_reason

`acc_reason` asks whether the reason given for the error is right, which a critic must judge; without it there is no
MR-Score, and none is reported. Steps: the labels count what the text calls "Step 1", "Step 2", …, not the lines of the
list, so a line that opens no next step belongs to the step before it. In `coding` the label is a line of code that the
official script does not match either (it asks the critic), so that subject has no `acc_step`; its steps are the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import (
    Names,
    benchmark_files,
    counted,
    file_cases,
    first_error_truth,
    stem,
    step_case,
    step_number,
)
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, problem_id
from footfall.metrics.cases import Case, Row, mean_of, split_by_split
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import ratio
from footfall.registry import register
from footfall.types import Judgement, Problem

SUBJECTS = ("math", "physics", "chemistry", "biology", "medicine", "logic", "coding")
_HEAD = re.compile(r"[\s*]*Step (\d+)(?!\d|\.\d|_)")
"""Neither "Step 6.1" nor "Step 7_A" opens a step of its own."""


@register("benchmark", "mr-ben")
def mr_ben(data: str | Path) -> Benchmark:
    """MR-Ben: correctness (MCC) and first error step in seven subjects; `data` is its folder or one subject's file."""
    cases, revision = file_cases(benchmark_files(data, SUBJECTS, "MR-Ben").values(), _cases)
    lost = sum(case.split != "coding" and case.truth.first_below(0.5) is None for case in cases)
    return Benchmark(
        name="mr-ben",
        cases=cases,
        measure=split_by_split(_row, mean_of("mcc", "acc_step")),
        protocol="correct if the judgement's own value (else the least step value) is not below the threshold; first "
        "error = first step valued strictly below it",
        objective="mcc",
        revision=revision,
        notes=(
            "MR-Score and the accuracy of reasons are absent: a critic must judge the reasons",
            *counted(
                lost, "incorrect solutions name an error step that the text does not have; they count in mcc alone"
            ),
        ),
    )


def _cases(fields: Fields, path: Path, _names: Names) -> Iterator[Case]:
    """The solutions of a file's one object, question id -> solutions; subjects may have the same ids."""
    names = Names()
    for question in fields.data:
        for row in fields.records(question):
            yield _case(stem(path), question, names.unique(f"{question}/{row.text('Sampled_Model')}"), row)


def _case(subject: str, question: str, name: str, row: Fields) -> Case:
    verdict = row.text("Model_Solution_Correctness")
    if verdict not in ("correct", "incorrect"):
        raise row.wrong("Model_Solution_Correctness", "'correct' or 'incorrect'")
    right, code = verdict == "correct", subject == "coding"
    steps = _code_lines(row) if code else merged_steps(row.texts("Model_Solution_Steps"))
    truth: Sequence[float | None] = first_error_truth(None, len(steps))
    if right and row.text("Model_Solution_First_Error_Step") != "N/A":
        raise row.wrong("Model_Solution_First_Error_Step", "'N/A', as the solution is correct")
    if not right:
        first = None if code else step_number(row, "Model_Solution_First_Error_Step")
        if first is None and not code:
            raise row.wrong("Model_Solution_First_Error_Step", "the number of a step, as the solution is incorrect")
        known = first is not None and first <= len(steps)
        truth = first_error_truth(first, len(steps)) if known else (None,) * len(steps)
    prompt = "\n\n".join(part for part in (row.text("Question"), row.text_or_none("Options")) if part)
    answer = row.text_or_none("Ground_Truth_Answer_Modified") or row.text_or_none("Ground_Truth_Answer")
    problem = Problem(problem_id(prompt), prompt, answer or None, domain=subject)
    # No truth of the whole: that would make the solutions of a question candidates to be compared with each other.
    return step_case(
        subject, name, problem, steps, truth, "mr-ben", group=question, author=row.text("Sampled_Model"), separator="\n"
    )


def merged_steps(lines: Iterable[str]) -> list[str]:
    """Lines joined into the steps that they name: after step n only "Step n + 1" opens another.

    What stands before "Step 1" belongs to step 1, or is it if "Step 2" comes next.
    """
    steps, number = list[list[str]](), 0
    for line in lines:
        head = _HEAD.match(line)
        named = int(head.group(1)) if head else None
        opens = named == number + 1 or (named == 2 and bool(steps) and not number)
        if not steps or (opens and named != 1):
            steps.append([line])
        else:
            steps[-1].append(line)
        number = named if opens and named else number
    return ["\n".join(step).strip() for step in steps]


def _code_lines(row: Fields) -> list[str]:
    return re.split(r"\n(?=[ \t]*\S)", row.text("Model_Solution_Steps"))


def _row(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Row:
    """MCC and first-step accuracy of one subject."""
    table_NC = np.asarray([_counts(case, said, threshold) for case, said in zip(cases, judgements, strict=True)])
    tp, fp, tn, fn, located, wanted = (weights_RN @ table_NC).T
    steps = {} if cases[0].split == "coding" else {"acc_step": ratio(located, wanted)}
    return {"mcc": matthews(tp, fp, tn, fn), **steps}


def _counts(case: Case, judgement: Judgement, threshold: float) -> tuple[float, ...]:
    """TP, FP, TN, FN of "correct", first errors found, first errors; who cannot say is wrong in either class."""
    low = judgement.first_below(threshold)
    said = None if low is None else low == -1
    said = judgement.value >= threshold if judgement.value is not None else said
    first = case.truth.first_below(0.5)
    right = first == -1
    located = not right and said is False and low is not None and low == first
    return (
        right and said is True, not right and said is not False, not right and said is False, right and said is not True,
        located, not right and first is not None,
    )  # fmt: skip


def matthews(tp: Floats, fp: Floats, tn: Floats, fn: Floats) -> Floats:
    """(TP·TN − FP·FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN)); 0 if all are called alike, NaN if all are alike."""
    said, true = (tp + fp) * (tn + fn), (tp + fn) * (tn + fp)
    plain = np.where(said == 0, 0.0, ratio(tp * tn - fp * fn, np.sqrt(said * true)))
    return np.where(true == 0, np.nan, plain)
