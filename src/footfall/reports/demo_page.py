"""The demo's report: one HTML file that works offline, and the blocks from which other reports are made.

write_page("runs/x/report.html", page("Title", Section("…", [figure(chart, "…")]).markup()))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from footfall.reports._blocks import (
    Section,
    details,
    figure,
    note,
    page,
    paragraph,
    responsive,
    table,
    tiles,
    write_page,
)
from footfall.reports._calibration import mean_absolute_error, reliability_diagram, scatter
from footfall.reports._demo_types import Comparison, CostRow, DemoReport
from footfall.reports._lines import Point
from footfall.reports._traces import trace_block, trace_key
from footfall.reports.plots import accuracy_svg, curve_name
from footfall.reports.svg import Markup, element
from footfall.types import Cost


def write_report(path: str | Path, report: DemoReport) -> Path:
    """Write the demo's report. The same report gives the same bytes."""
    return write_page(path, report_html(report))


def report_html(report: DemoReport) -> str:
    """The demo's page as text."""
    sections = [_accuracy(report), *_calibration(report), *_labels(report), *_cost(report), *_traces(report)]
    return page(report.title, _header(report), *(s.markup() for s in sections), _footer(report))


def verdict(c: Comparison) -> str:
    """`weighted vote 71.3% vs majority 64.0% at N=16: +7.3 [4.1, 10.6]`, the difference in percentage points."""
    return (
        f"{curve_name(c.method)} {100 * c.method_accuracy:.1f}% vs {curve_name(c.baseline)} "
        f"{100 * c.baseline_accuracy:.1f}% at N={c.n}: {_signed(c.difference)} [{_points(c.low)}, {_points(c.high)}]"
    )


def _points(fraction: float) -> str:
    text = f"{100 * fraction:.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")


def _signed(fraction: float) -> str:
    text = _points(fraction)
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
    shown = element(
        "dl", *(element("div", element("dt", k), element("dd", v)) for k, v in facts.items()), class_="facts"
    )
    claim, _, effect = verdict(c).rpartition(": ")
    return element(
        "header",
        element("p", report.title, class_="kicker"),
        element("h1", f"{claim[:1].upper()}{claim[1:]}: ", element("span", effect, class_="effect")),
        element("p", _meaning(c), class_="meaning"),
        element("p", report.summary, class_="lead"),
        shown,
        _key_numbers(report),
        _how_to_read(report),
        class_="top",
    )


def _key_numbers(report: DemoReport) -> Markup:
    c = report.comparison
    interval = f"95% interval {_points(c.low)} to {_points(c.high)}"
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
    chart = responsive(
        lambda width: accuracy_svg(report.accuracy_curves, width=width, height=420 if width > 500 else 340)
    )
    caption = "Share of held-out problems solved, by how the answer is chosen among N samples. Shaded: 95% intervals."
    numbers = details("The numbers behind the figure", _accuracy_table(report))
    return Section("Accuracy against the number of samples", [figure(chart, caption), numbers])


def _accuracy_table(report: DemoReport) -> Markup:
    curves = {key: {p.x: p for p in points} for key, points in report.accuracy_curves.items()}
    rows = [
        [f"{n:g}", *(_interval(points.get(n)) for points in curves.values())]
        for n in sorted({n for points in curves.values() for n in points})
    ]
    return table(["N", *map(curve_name, curves)], rows, caption="Percent of problems solved, with 95% intervals")


def _interval(point: Point | None) -> str:
    if point is None:
        return "–"
    bounds = (
        f" [{_points(point.low)}, {_points(point.high)}]" if point.low is not None and point.high is not None else ""
    )
    return f"{100 * point.y:.1f}{bounds}"


def _calibration(report: DemoReport) -> list[Section]:
    if not any(b.count for b in report.reliability):
        return []
    label = "Reliability diagram of the process reward model"
    chart = reliability_diagram(
        report.reliability, label=label, x_label="PRM’s value", y_label="how often it came true"
    )
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
    measured = (element("strong", ", ".join(scores) + ". "),) if scores else ()
    return [Section("Do the PRM’s values mean what they say?", [figure(chart, *measured, caption, beside=True)])]


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
    return [Section("Are the labels right?", [figure(chart, element("strong", measured), caption, beside=True)])]


def _traces(report: DemoReport) -> list[Section]:
    if not report.traces:
        return []
    count = len(report.traces)
    exact = any(step.exact is not None for trace in report.traces for step in trace.steps)
    lead = f"{count} {'solution' if count == 1 else 'solutions'} to held-out problems, each step with the PRM’s value."
    blocks = [trace_key(report.threshold, exact), *map(partial(trace_block, threshold=report.threshold), report.traces)]
    return [Section("Traces, step by step", blocks, lead)]


def _cost(report: DemoReport) -> list[Section]:
    return [Section("What it cost", [cost_table(report.cost)])] if report.cost else []


def cost_table(rows: Sequence[CostRow]) -> Markup:
    """Stages by tokens, FLOPs and seconds, with their sum."""
    total = sum((row.cost for row in rows), Cost())
    header = ["stage", "prompt tokens", "from cache", "generated", "scored", "calls", "FLOPs", "seconds"]
    cells = [[row.stage, *_cost_cells(row.cost)] for row in rows] + [["total", *_cost_cells(total)]]
    return table(header, cells, caption="Cost by stage", total=True)


def _cost_cells(cost: Cost) -> list[str]:
    counts = (cost.prompt_tokens, cost.cached_tokens, cost.generated_tokens, cost.scored_tokens, cost.calls)
    return [
        *(f"{c:,}" if c else "–" for c in counts),
        f"{cost.flops:.2e}" if cost.flops else "–",
        f"{cost.seconds:,.1f}",
    ]


def _footer(report: DemoReport) -> Markup:
    try:
        config = json.dumps(report.config, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"report: config is not plain JSON ({error}); write it with strings and finite numbers"
        ) from error
    return element("footer", details("Configuration", element("pre", config)), paragraph(f"Footfall {report.version}"))
