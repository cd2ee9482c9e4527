"""How good labels are where the truth is known: figures of one method on one world's traces under one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from footfall.bench._labels_methods import Method
from footfall.bench._labels_setting import Setting
from footfall.bench.metrics import brier, calibration_error
from footfall.label.grounded_tree import GroundedTrees
from footfall.types import Judgement, Trajectory
from footfall.worlds.judges import Valued
from footfall.worlds.truth import StepTruth

__all__ = ["FIGURES", "SHARES", "Figures", "Known", "measure", "measure_own", "per_1000"]

Figures = Mapping[str, float | None]

FIGURES = {
    "first_error": "first error named exactly, or none where there is none; a trace without a verdict counts as missed",
    "said": "traces with a verdict on the first error",
    "first_error_said": "first error named exactly, among the traces with a verdict",
    "step_accuracy": "labelled steps whose label, cut at the method's threshold, is right",
    "coverage": "steps that have a label",
    "brier": "mean squared distance of the label from the truth of the step",
    "ece": "expected calibration error of the label against the truth of the step, 10 bins",
    "value_mae": "mean distance of the method's estimate from the exact value of the prefix",
    "tokens": "generated tokens a trace",
}
"""What each figure is. Steps that are right in themselves but built on an error have no part in step_accuracy, brier and
ece, for methods differ in what they mean to say of them."""
SHARES = ("first_error", "said", "first_error_said", "step_accuracy", "coverage")
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


def measure(known: Known, method: Method, said: Sequence[Judgement]) -> dict[str, float | None]:
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


def measure_own(known: Known, method: Method, trees: GroundedTrees) -> dict[str, float | None] | None:
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


def _of_steps(known: Known, method: Method, said: Sequence[Judgement]) -> dict[str, float | None]:
    pairs = [
        (value, float(truth is StepTruth.RIGHT))
        for judgement, truths in zip(said, known.truths, strict=True)
        for value, truth in zip(judgement.values, truths, strict=True)
        if value is not None and truth in (StepTruth.RIGHT, StepTruth.WRONG)
    ]
    if not pairs:
        return {"step_accuracy": None, "brier": None, "ece": None}
    labels, truth = [value for value, _ in pairs], [right for _, right in pairs]
    hits = sum((value >= method.threshold) == bool(right) for value, right in pairs)
    return {
        "step_accuracy": hits / len(pairs),
        "brier": float(brier(labels, truth)) if method.probability else None,
        "ece": float(calibration_error(labels, truth)) if method.probability else None,
    }


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
