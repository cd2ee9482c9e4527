"""What a demo report shows, as typed values: no torch, no files, nothing measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from footfall.reports._calibration import Bin
from footfall.reports._lines import Point
from footfall.reports.svg import finite
from footfall.types import Cost, Json


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method against its baseline at one N: accuracies and their paired difference, all as fractions."""

    method: str
    baseline: str
    n: int
    method_accuracy: float
    baseline_accuracy: float
    low: float
    """Lower end of the difference's 95% interval."""
    high: float

    def __post_init__(self) -> None:
        for name in ("method_accuracy", "baseline_accuracy", "low", "high"):
            finite(getattr(self, name), f"comparison of {self.method!r} with {self.baseline!r}: {name}")

    @property
    def difference(self) -> float:
        """In points of a fraction: 0.073 is 7.3 percentage points."""
        return self.method_accuracy - self.baseline_accuracy


class LabelPair(NamedTuple):
    """The exact value of a prefix and what the labeller said of it."""

    exact: float
    label: float


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one stage of the loop used."""

    stage: str
    cost: Cost


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as it is shown: its text, the judge's value (`None`: not judged) and, where known, the exact one."""

    text: str
    value: float | None
    exact: float | None = None


@dataclass(frozen=True, slots=True)
class TraceView:
    """A trace as it is shown. First errors are 0-based; -1 says there is none, `None` that nobody knows."""

    problem_id: str
    problem: str
    steps: Sequence[StepView]
    answer: str | None
    reference: str | None
    correct: bool | None
    true_first_error: int | None
    predicted_first_error: int | None

    def __post_init__(self) -> None:
        where = f"trace of problem {self.problem_id!r}"
        for i, step in enumerate(self.steps, 1):
            for name in ("value", "exact"):
                value = getattr(step, name)
                if value is not None and not 0 <= finite(value, f"{where}, step {i}: {name}") <= 1:
                    raise ValueError(f"{where}, step {i}: {name} is {value}; the report shows values from 0 to 1")
        for name in ("true_first_error", "predicted_first_error"):
            at = getattr(self, name)
            if at is not None and not -1 <= at < len(self.steps):
                raise ValueError(f"{where}: {name} is {at}, but there are {len(self.steps)} steps (-1: no error)")


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Everything on the demo's page. Whatever was not measured is `None` or empty and is left out of it."""

    seed: int
    model: str
    version: str
    problems: int
    """Held-out problems behind the accuracies."""
    comparison: Comparison
    accuracy_curves: Mapping[str, Sequence[Point]]
    """By method: `single`, `majority`, `best_of_n`, `weighted_vote`, `oracle`, or any other name; x is N."""
    reliability: Sequence[Bin]
    label_pairs: Sequence[LabelPair]
    cost: Sequence[CostRow]
    traces: Sequence[TraceView]
    ece: float | None = None
    brier: float | None = None
    first_error_f1: float | None = None
    threshold: float = 0.5
    """A step valued below it is a predicted error."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further things a number depends on, e.g. `{"aggregation": "prod", "rollouts a step": "8"}`."""
    config: Mapping[str, Json] = field(default_factory=dict)
    title: str = "Footfall demo"
    summary: str = (
        "One small language model sampled solutions, Monte Carlo rollouts labelled their steps, a process reward model "
        "learned from those labels, and its judgement then chose among fresh solutions to problems nobody had seen."
    )

    def __post_init__(self) -> None:
        for name in ("ece", "brier", "first_error_f1", "threshold"):
            value = getattr(self, name)
            if value is not None:
                finite(value, f"report: {name}")
