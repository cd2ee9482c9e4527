"""PRMBench: label every step of solutions rewritten to carry one kind of flaw (card: prmbench).

    a step is called correct if value > threshold, strictly; PRMScore = ½ F1 + ½ F1_neg of pooled steps
    MS (no wrong step at all) = F1 alone; a dimension is the mean of its categories; "overall" pools all steps

The unmodified solutions of `redundency` are judged too (split `correct`): they stay out of every total and serve
`similarity`, the mean |share of steps called correct − the same share on the unmodified twin|; low means that the judge
does not notice the flaw. In NR and NCL a judge that has the aspect "redundant" is asked "not redundant".
Trajectory ids are `classification_idx`, so that a scores file can name them (`correct_idx` for a twin).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from footfall.benchmarks._prm_scores import Categories
from footfall.benchmarks._rows import benchmark_files, counted, traced
from footfall.benchmarks.records import file_revision
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, iter_fields, problem_id
from footfall.metrics.cases import Case
from footfall.registry import register
from footfall.types import Problem

CLASSES = {
    "redundency": "NR", "circular": "NCL", "counterfactual": "ES", "step_contradiction": "SC",
    "domain_inconsistency": "DC", "confidence": "CI", "missing_condition": "PS", "deception": "DR",
    "multi_solutions": "MS",
}  # fmt: skip
"""The data's labels and the names of the published tables."""

CATEGORIES = Categories(
    dimensions={"Simplicity": ("NR", "NCL"), "Soundness": ("ES", "SC", "DC", "CI"), "Sensitivity": ("PS", "DR", "MS")},
    without_errors=frozenset({"MS"}),
    redundancy=frozenset({"NR", "NCL"}),
    control="correct",
)

_ROWS = (
    "overall", "NR", "NCL", "Simplicity", "ES", "SC", "DC", "CI", "Soundness", "PS", "DR", "MS", "Sensitivity",
)  # fmt: skip
PUBLISHED = {
    "Skywork-PRM-1.5B": (31.7, 31.4, 35.8, 33.6, 32.4, 25.7, 26.0, 30.2, 28.6, 33.1, 32.3, 81.1, 48.8),
    "Skywork-PRM-7B": (36.2, 35.7, 41.2, 38.4, 36.7, 29.1, 30.6, 34.4, 32.7, 36.8, 37.4, 88.8, 54.3),
    "Math-Shepherd-7B": (47.0, 44.0, 50.3, 47.1, 49.4, 44.5, 41.3, 47.7, 45.7, 47.2, 48.6, 86.1, 60.7),
    "Llemma-PRM800k-7B": (52.0, 49.3, 53.4, 51.4, 56.4, 47.1, 46.7, 53.3, 50.9, 51.0, 53.5, 93.6, 66.0),
    "RLHFlow-Mistral-8B": (54.4, 46.1, 47.3, 46.7, 56.6, 55.1, 54.4, 63.8, 57.5, 51.5, 56.2, 97.9, 68.5),
    "RLHFlow-Deepseek-8B": (54.2, 46.4, 48.9, 47.6, 55.7, 55.0, 53.2, 66.2, 57.5, 49.0, 55.4, 99.8, 68.1),
    "ReasonEval-7B": (60.1, 61.0, 50.1, 55.6, 62.1, 65.9, 61.5, 66.0, 63.9, 55.7, 58.0, 99.5, 71.1),
    "Qwen2.5-Math-PRM-7B": (65.5, 49.0, 55.1, 52.1, 71.8, 67.3, 66.3, 78.5, 71.0, 57.6, 69.1, 99.7, 75.5),
    "Qwen2.5-Math-PRM-72B": (68.2, 50.4, 58.8, 54.6, 73.7, 71.1, 72.2, 78.6, 73.9, 60.3, 71.2, 99.4, 77.0),
    "GPT-4o (critic)": (66.8, 57.0, 62.4, 59.7, 72.0, 69.7, 70.7, 71.1, 70.9, 62.5, 65.7, 99.2, 75.8),
    "o1-mini (critic, 394 cases)": (68.8, 65.6, 63.7, 64.6, 74.5, 67.7, 73.8, 72.3, 72.1, 61.8, 64.8, 100.0, 75.5),
}
"""PRMScore in percent, as published."""


@register("benchmark", "prmbench")
def prmbench(data: str | Path) -> Benchmark:
    """PRMBench: PRMScore of step labels in nine kinds of flaws; `data` is its JSON-lines file or the folder of it."""
    path, *_ = benchmark_files(data, ("prmtest_classified", "prmbench", "prmbench_all_6216"), "PRMBench").values()
    read = read_cases([path], CLASSES, "PRMBench", twins_of="redundency", numbered=True)
    return Benchmark(
        name="prmbench",
        cases=read.cases,
        measure=CATEGORIES.measure,
        protocol="a step is called correct if its value is strictly above the threshold (NR and NCL: if the judge does "
        "not call it redundant, where it says so); steps without a value are not counted; no aggregation",
        objective="prm_score",
        revision=file_revision([path]),
        published={model: dict(zip(_ROWS, row, strict=True)) for model, row in PUBLISHED.items()},
        notes=read.notes(),
    )


@dataclass
class Read:
    """Cases of files in PRMBench's schema, and what was wrong with the rows."""

    cases: list[Case] = field(default_factory=list)
    repeated: int = 0
    outside: int = 0

    def notes(self) -> tuple[str, ...]:
        return counted(
            self.repeated, "rows repeat a classification and idx that came before and are left out (the first stays)"
        ) + counted(
            self.outside, "rows name an error step past the end of the process; only the steps that exist are counted"
        )


def read_cases(
    paths: Iterable[Path], classes: Mapping[str, str], name: str, *, twins_of: str = "", numbered: bool = False
) -> Read:
    """Rows in PRMBench's schema. Repeated ids are left out and counted; `numbered` strips "3. " from the third step.

    For each case of the class `twins_of` the unmodified solution follows as a case of the split "correct".
    """
    read, seen = Read(), set[str]()
    for fields in _all_fields(paths):
        label, idx = fields.text("classification"), fields.text("idx")
        if label not in classes:
            raise fields.wrong("classification", f"one of {name}'s classes: {', '.join(classes)}")
        if f"{label}_{idx}" in seen:
            read.repeated += 1
            continue
        seen.add(f"{label}_{idx}")
        errors = fields.integers("error_steps")
        question, steps = fields.text("modified_question"), _steps(fields, "modified_process", numbered)
        read.outside += not all(1 <= error <= len(steps) for error in errors)
        truth = [float(k not in errors) for k in range(1, len(steps) + 1)]
        read.cases.append(_case(classes[label], f"{label}_{idx}", question, steps, truth, idx))
        if label == twins_of:
            question, steps = fields.text("original_question"), _steps(fields, "original_process", numbered)
            read.cases.append(_case("correct", f"correct_{idx}", question, steps, [1.0] * len(steps), idx))
    return read


def _all_fields(paths: Iterable[Path]) -> Iterator[Fields]:
    for path in paths:
        yield from iter_fields(path)


def _steps(fields: Fields, name: str, numbered: bool) -> list[str]:
    """The steps; a number that is not the step's own ("1. …" at the head of a list of goals) is part of its text."""
    steps = fields.texts(name)
    if not steps:
        raise fields.wrong(name, "at least one step")
    return [re.sub(rf"^\s*{k}\.\s+", "", step) if numbered else step for k, step in enumerate(steps, start=1)]


def _case(split: str, name: str, question: str, steps: list[str], truth: list[float], idx: str) -> Case:
    trajectory, judgement = traced(name, Problem(problem_id(question), question), steps, truth, "prmbench")
    return Case(split, trajectory, judgement, group=idx)
