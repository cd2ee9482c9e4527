"""How good labels are where the truth is known: figures of one method on one world's traces under one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from footfall.metrics.steps import brier, calibration_error
from footfall.studies.label_setting import Setting
from footfall.studies.label_trees import OwnTraces
from footfall.study_rows import StudyRow
from footfall.types import Judgement, Trajectory
from footfall.worlds.judges import Valued
from footfall.worlds.truth import StepTruth

Figures = Mapping[str, float | None]

FIGURES = {
    "first_error": "first error named exactly, or none where there is none; a trace without a verdict counts as missed",
    "said": "traces with a verdict on the first error",
    "first_error_said": "first error named exactly, among the traces with a verdict",
    "step_accuracy": "labelled steps up to and with the first error whose label, cut at the method's threshold, is right",
    "later_accuracy": "labelled steps after the first error whose label, cut likewise, says what the step is in itself",
    "coverage": "steps that have a label",
    "brier": "mean squared distance of the label from the truth of the step, up to and with the first error",
    "ece": "expected calibration error of the label against the truth of the step, 10 bins, up to and with the first error",
    "value_mae": "mean distance of the method's estimate from the exact value of the prefix",
    "tokens": "generated tokens a trace",
}
"""What each figure is. Up to the first error a step is right if and only if all is right so far, so step_accuracy, brier and
ece are fair both to methods that label every step and to those that call all steps after an error wrong. later_accuracy
is for the former alone; steps that are right in themselves but built on an error have no part in it."""
SHARES = ("first_error", "said", "first_error_said", "step_accuracy", "later_accuracy", "coverage")
_ERRORS = ("brier", "ece", "value_mae")


@dataclass(frozen=True)
class Known:
    """Traces of one world under one seed, with all that is known of them."""

    setting: Setting
    traces: Sequence[Trajectory]
    writer: Valued
    """The policy that wrote the traces, which is also the completer: it knows the value of every prefix."""

    @cached_property
    def truths(self) -> list[Sequence[StepTruth | None]]:
        return [self.setting.world.check(trace) for trace in self.traces]

    @cached_property
    def values(self) -> list[list[float]]:
        """The exact value after each step."""
        return [[self.writer.value(t.prefix(k)) for k in range(1, len(t.steps) + 1)] for t in self.traces]

    @property
    def first_errors(self) -> list[int]:
        """0-based, -1 for none."""
        return [truths.index(StepTruth.WRONG) if StepTruth.WRONG in truths else -1 for truths in self.truths]


def measure(known: Known, method: StudyRow, said: Sequence[Judgement]) -> dict[str, float | None]:
    """All figures; `None` where there is nothing to measure."""
    found = [judgement.first_below(method.threshold) for judgement in said]
    hits = sum(error is not None and error == true for error, true in zip(found, known.first_errors, strict=True))
    spoken = sum(error is not None for error in found)
    values = [value for judgement in said for value in judgement.values]
    return {
        "first_error": hits / len(found),
        "said": spoken / len(found),
        "first_error_said": hits / spoken if spoken else None,
        "coverage": sum(value is not None for value in values) / len(values),
        **_of_steps(known, method, said),
        "value_mae": None if method.value is None else _value_error(known, [_estimates(j, method.value) for j in said]),
        "tokens": sum(judgement.cost.generated_tokens for judgement in said) / len(said),
    }


def measure_own(known: Known, method: StudyRow, trees: OwnTraces) -> dict[str, float | None] | None:
    """The figures of labels on traces that the method writes itself, with what it wrote; `None`: it kept none.

    A quarter of the problems is enough: a tree has several traces.
    """
    problems, separator = [trace.problem for trace in known.traces[::4]], known.traces[0].separator
    rows = [row for row in trees.collect(problems, separator) if row.judgement is not None]
    if not rows:
        return None
    own = Known(known.setting, [row.trajectory for row in rows], known.writer)
    # A tree without a row has its cost nowhere else.
    spent = sum(grown.cost.generated_tokens for grown in trees.grow(problems, separator))
    found = measure(own, method, [row.judgement for row in rows if row.judgement is not None])
    return found | {"tokens": spent / len(rows)}


def _of_steps(known: Known, method: StudyRow, said: Sequence[Judgement]) -> dict[str, float | None]:
    """Of the steps up to the first error, and of those after it."""
    ends = [len(truths) if at < 0 else at + 1 for truths, at in zip(known.truths, known.first_errors, strict=True)]
    rows = list(zip(said, known.truths, ends, strict=True))
    pairs = [pair for judgement, truths, end in rows for pair in _pairs(judgement.values[:end], truths[:end])]
    later = [pair for judgement, truths, end in rows for pair in _pairs(judgement.values[end:], truths[end:])]
    calibrated = method.probability and pairs
    labels, truth = [value for value, _ in pairs], [float(right) for _, right in pairs]
    return {
        "step_accuracy": _accuracy(pairs, method.threshold),
        "later_accuracy": _accuracy(later, method.threshold),
        "brier": float(brier(labels, truth)) if calibrated else None,
        "ece": float(calibration_error(labels, truth)) if calibrated else None,
    }


def _pairs(values: Sequence[float | None], truths: Sequence[StepTruth | None]) -> list[tuple[float, bool]]:
    """Label and truth of each step that has both; one that is built on an error has none."""
    known = (StepTruth.RIGHT, StepTruth.WRONG)
    pairs = zip(values, truths, strict=True)
    return [(value, truth is StepTruth.RIGHT) for value, truth in pairs if value is not None and truth in known]


def _accuracy(pairs: Sequence[tuple[float, bool]], threshold: float) -> float | None:
    return sum((value >= threshold) == right for value, right in pairs) / len(pairs) if pairs else None


def _estimates(judgement: Judgement, name: str) -> Sequence[float | None]:
    return judgement.values if name == "values" else judgement.aspects[name]


def _value_error(known: Known, estimates: Sequence[Sequence[float | None]]) -> float | None:
    errors = [
        abs(estimate - exact)
        for row, values in zip(estimates, known.values, strict=True)
        for estimate, exact in zip(row, values, strict=True)
        if estimate is not None
    ]
    return sum(errors) / len(errors) if errors else None


def per_1000(figures: Figures) -> dict[str, float | None]:
    """Each figure by thousands of generated tokens a trace; of an error e it is 1 - e. A free method has none."""
    tokens = figures["tokens"]
    found: dict[str, float | None] = {}
    for name in ("first_error", "step_accuracy", *_ERRORS):
        value = figures[name]
        worth = 1 - value if value is not None and name in _ERRORS else value
        found[name] = None if worth is None or not tokens else worth / (tokens / 1000)
    return found
