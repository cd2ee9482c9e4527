"""The demo's report: what is shown, as typed values, and the one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from footfall.reports.charts import Point
from footfall.reports.pages import (
    CostRow,
    Section,
    cost_table,
    figure,
    footer,
    note,
    page,
    render,
    tiles,
    write_page,
)
from footfall.reports.probabilities import Bin, calibration_plot, mean_absolute_error, scatter
from footfall.reports.search_page import accuracy_blocks, curve_name, percentage
from footfall.reports.svg import finite
from footfall.reports.traces import TraceView, traces_section
from footfall.types import Json


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


def write_report(path: str | Path, report: DemoReport) -> Path:
    """Write the demo's report. The same report gives the same bytes."""
    return write_page(path, report_html(report))


def report_html(report: DemoReport) -> str:
    """The demo's page as text."""
    sections = [_accuracy(report), *_calibration(report), *_labels(report), *_cost(report), *_traces(report)]
    return page(report.title, _header(report), *(s.markup() for s in sections), footer(report.config, report.version))


def verdict(c: Comparison) -> str:
    """`weighted vote 71.3% vs majority 64.0% at N=16: +7.3 [4.1, 10.6]`, the difference in percentage points."""
    return (
        f"{curve_name(c.method)} {100 * c.method_accuracy:.1f}% vs {curve_name(c.baseline)} "
        f"{100 * c.baseline_accuracy:.1f}% at N={c.n}: {_signed(c.difference)} [{percentage(c.low)}, {percentage(c.high)}]"
    )


def _signed(fraction: float) -> str:
    text = percentage(fraction)
    return text if text[0] == "−" or text == "0.0" else f"+{text}"


def _meaning(c: Comparison) -> str:
    method, baseline = curve_name(c.method), curve_name(c.baseline)
    if c.low > 0:
        return (
            f"The whole 95% interval lies above zero: {method} beats {baseline} here, and luck is an unlikely reason."
        )
    if c.high < 0:
        return f"The whole 95% interval lies below zero: {method} loses to {baseline} here."
    return f"The 95% interval contains zero: between {method} and {baseline} this run is too close to call."


def _header(report: DemoReport) -> Markup:
    c = report.comparison
    facts = {
        "model": report.model, "seed": str(report.seed), "held-out problems": f"{report.problems:,}",
        "version": report.version, **report.facts,
    }  # fmt: skip
    claim, _, effect = verdict(c).rpartition(": ")
    return render(
        "demo", "header", title=report.title, claim=f"{claim[:1].upper()}{claim[1:]}", effect=effect, meaning=_meaning(c),
        summary=report.summary, facts=render("blocks", "facts", facts=facts), numbers=_key_numbers(report),
        how_to_read=_how_to_read(report),
    )  # fmt: skip


def _key_numbers(report: DemoReport) -> Markup:
    c = report.comparison
    interval = f"95% interval {percentage(c.low)} to {percentage(c.high)}"
    numbers = [(f"gain over {curve_name(c.baseline)}", f"{_signed(c.difference)} pts", interval)]
    if report.label_pairs:
        mae = mean_absolute_error(report.label_pairs)
        numbers.append(("label error", f"{mae:.3f}", "mean distance from the exact value"))
    if report.first_error_f1 is not None:
        numbers.append(("first-error F1", f"{report.first_error_f1:.3f}", f"at threshold {report.threshold:g}"))
    if report.ece is not None:
        numbers.append(("calibration error", f"{report.ece:.3f}", "ECE of the PRM’s values"))
    return tiles(numbers)


def _how_to_read(report: DemoReport) -> Markup:
    return note(
        "How to read this",
        [
            "A value is the chance, from 0 to 1, that a solution which goes on from that step ends in the right answer.",
            "Bands and brackets are 95% intervals over problems. A difference whose interval holds zero decides nothing.",
            "The oracle counts a problem as solved if any of the N samples is right: no way of choosing can do better.",
            f"The first step valued below {report.threshold:g} is the PRM’s pick for the first error. "
            "The true first error comes from the world, which can check every step.",
        ],
    )


def _accuracy(report: DemoReport) -> Section:
    caption = "Share of held-out problems solved, by how the answer is chosen among N samples. Shaded: 95% intervals."
    return Section("Accuracy against the number of samples", accuracy_blocks(report.accuracy_curves, caption))


def _calibration(report: DemoReport) -> list[Section]:
    if not any(b.count for b in report.reliability):
        return []
    label = "Reliability diagram of the process reward model"
    chart = calibration_plot(report.reliability, label=label, x_label="PRM’s value", y_label="how often it came true")
    scores = [
        f"{name} {value:.3f}"
        for name, value in (("ECE", report.ece), ("Brier score", report.brier))
        if value is not None
    ]
    caption = (
        "Steps are gathered by the value the PRM gave them. On the dashed line a value of 0.7 comes true seven times "
        "in ten; below it the PRM is too sure, above it too cautious. "
        "The bars show how many steps each point stands for."
    )
    measured = ", ".join(scores) + ". " if scores else ""
    return [Section("Do the PRM’s values mean what they say?", [figure(chart, caption, measured, beside=True)])]


def _labels(report: DemoReport) -> list[Section]:
    if not report.label_pairs:
        return []
    chart = scatter(
        report.label_pairs, label="Labels against exact values", y_label="Monte Carlo label", show_mae=False
    )
    measured = f"MAE {mean_absolute_error(report.label_pairs):.3f} over {len(report.label_pairs):,} prefixes. "
    caption = (
        "In this world the true chance of success from any prefix can be computed, so the labels that the PRM learned "
        "from can be checked one by one. A perfect labeller sits on the dashed line. "
        "A bubble’s area is the number of prefixes near it."
    )
    return [Section("Are the labels right?", [figure(chart, caption, measured, beside=True)])]


def _traces(report: DemoReport) -> list[Section]:
    if not report.traces:
        return []
    count = len(report.traces)
    lead = f"{count} {'solution' if count == 1 else 'solutions'} to held-out problems, each step with the PRM’s value."
    return [traces_section("Traces, step by step", lead, report.traces, report.threshold)]


def _cost(report: DemoReport) -> list[Section]:
    return [Section("What it cost", [cost_table(report.cost)])] if report.cost else []
