"""PRMBench, Socratic-PRMBench: label every step of solutions rewritten to carry a flaw (cards: prmbench, socratic-prmbench).

    a step is called correct if value > threshold, strictly; PRMScore = ½ F1 + ½ F1_neg of pooled steps
    MS (no wrong step at all) = F1 alone; a dimension is the mean of its categories; "overall" pools all steps

The unmodified solutions of `redundency` are judged too (split `correct`): they stay out of every total and serve
`similarity`, the mean |share of steps called correct − the same share on the unmodified twin|; low means that the judge
does not notice the flaw. In NR and NCL a judge that has the aspect "redundant" is asked "not redundant".
Trajectory ids are `classification_idx`, so that a scores file can name them (`correct_idx` for a twin).

Socratic-PRMBench is the same evaluator on six reasoning patterns with twenty kinds of flaws: a pattern is the mean of its
flaws, and "overall" pools the steps of all cases. Compare `acc_right` with `acc_wrong`: the gap is the judge's leaning to
"correct" or to "wrong". There are no unmodified twins. Steps are taken as they stand: a leading "1." is the head of a list
there, not the number of the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from footfall.benchmarks.records import Names, benchmark_files, counted, file_cases, step_case
from footfall.benchmarks.runner import Benchmark
from footfall.formats import Fields, problem_id
from footfall.metrics.cases import Case, Row, Rows, split_totals
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import case_counts, known_steps, macro_f1, ratio
from footfall.registry import register
from footfall.types import Judgement, Problem

Labels = Sequence[bool | None]


@dataclass(frozen=True)
class Categories:
    """A tree of categories: which splits make up a dimension, and which of them are counted in another way."""

    dimensions: Mapping[str, Sequence[str]]
    without_errors: frozenset[str] = frozenset()
    """Splits that hold no wrong step: their PRMScore is F1 alone."""
    redundancy: frozenset[str] = frozenset()
    """Splits where a judgement's aspect "redundant" (1 a redundant step), if there, goes before its values."""
    control: str | None = None
    """The split of unmodified twins: kept out of all totals, compared with by `similarity`."""

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The categories proper, without the control."""
        return tuple(name for names in self.dimensions.values() for name in names)

    def measure(
        self, cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats
    ) -> Rows:
        """Figures of each split; PRMScore of each dimension (mean of its splits); "overall" from pooled counts."""
        table_NC = self._table(cases, judgements, threshold)
        totals = split_totals(cases, table_NC, weights_RN)
        present = [split for split in self.splits if split in totals]
        figures = {split: self._figures(split, totals[split]) for split in present}
        for dimension, splits in self.dimensions.items():
            if all(split in figures for split in splits):
                figures[dimension] = {"prm_score": np.mean([figures[s]["prm_score"] for s in splits], axis=0)}
        if len(present) > 1:
            figures["overall"] = self._figures("overall", np.sum([totals[split] for split in present], axis=0))
        if self.control in totals:
            tp, _, _, fn = totals[self.control][:, :4].T
            figures[self.control] = {"acc_right": ratio(tp, tp + fn)}
        return figures

    def _table(self, cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float) -> Floats:
        """TP, FP, TN, FN, first error found, first errors, distance to the twin, twins: one row a case."""
        labels = [self.labels(case.split, said, threshold) for case, said in zip(cases, judgements, strict=True)]
        steps = known_steps([case.truth.values for case in cases], labels)
        counts_N4 = case_counts(steps.owner, steps.truth, steps.value, len(cases))
        first_N2 = np.asarray([_first_error_found(case.truth, said) for case, said in zip(cases, labels, strict=True)])
        twins = {case.group: said for case, said in zip(cases, judgements, strict=True) if case.split == self.control}
        away_N2 = np.asarray(
            [self._distance(case, said, twins, threshold) for case, said in zip(cases, labels, strict=True)]
        )
        return np.concatenate([counts_N4, first_N2, away_N2], axis=1)

    def labels(self, split: str, judgement: Judgement, threshold: float) -> Labels:
        """Which steps are called correct in this split; `None` where the judge does not say."""
        if split in self.redundancy and "redundant" in judgement.aspects:
            return [None if value is None else value < 0.5 for value in judgement.aspects["redundant"]]
        return [None if value is None else value > threshold for value in judgement.values]

    def _distance(
        self, case: Case, labels: Labels, twins: Mapping[str, Judgement], threshold: float
    ) -> tuple[float, float]:
        """|share of steps called correct − the same share on the twin| and 1; zeros if there is no twin."""
        twin = twins.get(case.group) if case.split != self.control else None
        if twin is None:
            return 0.0, 0.0
        share, other = _share(labels), _share(self.labels(case.split, twin, threshold))
        return (0.0, 0.0) if share is None or other is None else (abs(share - other), 1.0)

    def _figures(self, split: str, total_RC: Floats) -> Row:
        tp, fp, tn, fn, found, first, distance, twins = total_RC.T
        f1, f1_neg, score = macro_f1(tp, fp, tn, fn)
        alone = split in self.without_errors
        row = {"prm_score": f1 if alone else score, "f1": f1}
        row |= {} if alone else {"f1_neg": f1_neg}
        row["acc_right"] = ratio(tp, tp + fn)
        row |= {} if alone else {"acc_wrong": ratio(tn, tn + fp), "first_error": ratio(found, first)}
        row["accuracy"] = ratio(tp + tn, tp + fp + tn + fn)
        return row | ({"similarity": ratio(distance, twins)} if self.control else {})


def _first_error_found(truth: Judgement, labels: Labels) -> tuple[float, float]:
    """Whether the first wrong step is called wrong, and 1; zeros if there is none or it was not judged."""
    first = next((k for k, value in enumerate(truth.values) if value == 0), None)
    if first is None or labels[first] is None:
        return 0.0, 0.0
    return float(not labels[first]), 1.0


def _share(labels: Labels) -> float | None:
    said = [label for label in labels if label is not None]
    return sum(said) / len(said) if said else None


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
"""PRMScore in percent, as published. The authors judged both Skyworks by changes: a step is called correct if its value lies
less than 0.05 below that of the step before (the first one, of 0), where all others are held against a threshold."""


@register("benchmark", "prmbench")
def prmbench(data: str | Path) -> Benchmark:
    """PRMBench: PRMScore of step labels in nine kinds of flaws; `data` is its JSON-lines file or the folder of it."""
    path, *_ = benchmark_files(data, ("prmtest_classified", "prmbench", "prmbench_all_6216"), "PRMBench").values()
    return flaw_benchmark(
        "prmbench",
        [path],
        Reader("PRMBench", CLASSES, twins_of="redundency", numbered=True),
        CATEGORIES,
        {model: dict(zip(_ROWS, row, strict=True)) for model, row in PUBLISHED.items()},
        aside=" (NR and NCL: if the judge does not call it redundant, where it says so)",
    )


def flaw_benchmark(
    name: str,
    files: Iterable[Path],
    reader: Reader,
    categories: Categories,
    published: Mapping[str, Mapping[str, float]],
    aside: str = "",
) -> Benchmark:
    """A benchmark of files in PRMBench's schema, measured by its evaluator."""
    cases, revision = file_cases(files, reader.read)
    return Benchmark(
        name=name,
        cases=cases,
        measure=categories.measure,
        protocol=f"a step is called correct if its value is strictly above the threshold{aside}; steps without a value are "
        "not counted; no aggregation",
        objective="prm_score",
        revision=revision,
        published=published,
        notes=reader.notes(),
    )


@dataclass
class Reader:
    """Reads rows in PRMBench's schema, and counts what is wrong with them: repeated ids are left out."""

    title: str
    classes: Mapping[str, str]
    """Labels of the data and the splits that they are counted in."""
    twins_of: str = ""
    """For each case of this class the unmodified solution follows as a case of the split "correct"."""
    numbered: bool = False
    """Whether "3. " is to be stripped from the third step."""
    repeated: int = 0
    outside: int = 0
    _seen: set[str] = field(default_factory=set)

    def read(self, fields: Fields, _path: Path, _names: Names) -> list[Case]:
        """The cases of one row."""
        label, idx = fields.text("classification"), fields.text("idx")
        if label not in self.classes:
            raise fields.wrong("classification", f"one of {self.title}'s classes: {', '.join(self.classes)}")
        name = f"{label}_{idx}"
        if name in self._seen:
            self.repeated += 1
            return []
        self._seen.add(name)
        errors = fields.integers("error_steps")
        question, steps = fields.text("modified_question"), self._steps(fields, "modified_process")
        self.outside += not all(1 <= error <= len(steps) for error in errors)
        truth = [float(k not in errors) for k in range(1, len(steps) + 1)]
        cases = [_case(self.classes[label], name, question, steps, truth, idx)]
        if label == self.twins_of:
            question, steps = fields.text("original_question"), self._steps(fields, "original_process")
            cases.append(_case("correct", f"correct_{idx}", question, steps, [1.0] * len(steps), idx))
        return cases

    def _steps(self, fields: Fields, name: str) -> list[str]:
        """The steps; a number that is not the step's own ("1. …" at the head of a list of goals) is part of its text."""
        steps = fields.texts(name)
        if not steps:
            raise fields.wrong(name, "at least one step")
        return [re.sub(rf"^\s*{k}\.\s+", "", step) if self.numbered else step for k, step in enumerate(steps, start=1)]

    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know of the rows."""
        return counted(
            self.repeated, "rows repeat a classification and idx that came before and are left out (the first stays)"
        ) + counted(
            self.outside, "rows name an error step past the end of the process; only the steps that exist are counted"
        )


def _case(split: str, name: str, question: str, steps: list[str], truth: list[float], idx: str) -> Case:
    return step_case(split, name, Problem(problem_id(question), question), steps, truth, "prmbench", group=idx)


PATTERNS = Categories(
    {
        "Transformation": ("repeat_inconsistency", "repeat_counterfactual"),
        "Decomposition": ("decomposition_unsoundness", "decomposition_redundancy", "decomposition_incompleteness"),
        "Regather": ("regather_imprecision", "regather_redundancy", "regather_incompleteness"),
        "Deduction": (
            "premise_unsoundness", "premise_redundancy", "premise_incompleteness", "conclusion_invalidity",
            "conclusion_inconsistency", "conclusion_counterfactual",
        ),
        "Verification": ("detection_error", "correction_error"),
        "Integration": (
            "integration_inconsistency", "integration_incompleteness", "integration_redundancy",
            "integration_unsoundness",
        ),
    }
)  # fmt: skip

SOCRATIC_PUBLISHED = {
    "Skywork-PRM-7B": 43.6, "RLHFlow-Mistral-8B": 48.8, "RLHFlow-Deepseek-8B": 51.5, "ReasonEval-7B": 61.9,
    "Math-Shepherd-7B": 64.4, "Qwen2.5-Math-PRM-7B": 68.0, "GPT-4o (critic)": 70.8, "DeepSeek-R1 (critic)": 73.0,
    "Gemini-2.5-Pro (critic)": 73.5, "QwQ-32B (critic)": 73.8, "o3-mini (critic)": 75.7,
}  # fmt: skip
"""PRMScore over all cases in percent, as published."""


@register("benchmark", "socratic-prmbench")
def socratic_prmbench(data: str | Path) -> Benchmark:
    """Socratic-PRMBench: PRMScore under six reasoning patterns; `data` is the folder of its 20 files, or one of them."""
    files = benchmark_files(data, [f"test_{flaw}" for flaw in PATTERNS.splits], "Socratic-PRMBench")
    reader = Reader("Socratic-PRMBench", {flaw: flaw for flaw in PATTERNS.splits})
    published = {model: {"overall": score} for model, score in SOCRATIC_PUBLISHED.items()}
    return flaw_benchmark("socratic-prmbench", files.values(), reader, PATTERNS, published)
