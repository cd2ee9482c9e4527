"""The page of a benchmark run: one HTML file with table, bars, diagnostics, cost and every fact a number depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from footfall import __version__
from footfall.benchmarks.runner import Report, percent
from footfall.metrics.diagnostics import Diagnostics, Position
from footfall.metrics.intervals import wilson
from footfall.reports._bars import Bar, BarGroup, bar_chart
from footfall.reports._blocks import Section, details, figure, page, paragraph, responsive, table
from footfall.reports._calibration import Bin, reliability_diagram
from footfall.reports._demo_types import CostRow
from footfall.reports._lines import Point, Series, line_chart
from footfall.reports.demo_page import cost_table
from footfall.reports.svg import Markup, element

_DRAWN = 26
"""Points of a curve that are drawn; the numbers behind it are all in report.json."""


@dataclass(frozen=True, slots=True)
class BenchView:
    """A report with what is shown beside it."""

    report: Report
    diagnostics: Diagnostics | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """model -> row -> the objective in percent."""


def bench_page(view: BenchView) -> str:
    """One benchmark."""
    report = view.report
    row, name, shown = _headline(report)
    top = header(f"Footfall bench: {report.benchmark}", f"{report.judge}: {name} {shown}, {row}", _facts(report))
    return page(f"{report.benchmark}: {report.judge}", top, *(s.markup() for s in bench_sections(view)), footer())


def suite_page(judge: str, views: Sequence[BenchView], failed: Mapping[str, str], not_run: Mapping[str, str]) -> str:
    """All benchmarks of one judge: a summary and a section each, then what failed and what was not run."""
    facts = {"judge": judge, "measured": str(len(views)), "failed": str(len(failed)), "not run": str(len(not_run))}
    top = header("Footfall bench: all", f"{judge} on {len(views)} benchmarks", facts)
    blocks: list[Markup] = []
    if views:
        blocks.append(Section("Summary", [_summary(views)], "Percent with 95% intervals.").markup())
    for title, reasons in (("Failed", failed), ("Not run", not_run)):
        if reasons:
            blocks.append(Section(title, [facts_list(reasons)]).markup())
    for view in views:
        first, *rest = bench_sections(view)
        folded = [details(s.title, *(() if not s.lead else (paragraph(s.lead),)), *s.blocks) for s in rest]
        inner = [facts_list(_facts(view.report)), *first.blocks, *folded]
        blocks.append(Section(view.report.benchmark, inner).markup())
    return page(f"All benchmarks: {judge}", top, *blocks, footer())


def header(kicker: str, title: str, facts: Mapping[str, str]) -> Markup:
    """The top of a page."""
    return element(
        "header", element("p", kicker, class_="kicker"), element("h1", title), facts_list(facts), class_="top"
    )


def facts_list(facts: Mapping[str, str]) -> Markup:
    """Names and values; empty ones are left out."""
    shown = [element("div", element("dt", name), element("dd", said)) for name, said in facts.items() if said]
    return element("dl", *shown, class_="facts")


def footer() -> Markup:
    return element("footer", paragraph(f"Footfall {__version__}"))


def bench_sections(view: BenchView) -> list[Section]:
    """The sections of one benchmark; the first is the table."""
    return [
        _table(view.report),
        *_bars(view.report),
        *_published(view),
        *(_diagnosed(view.diagnostics) if view.diagnostics else ()),
        Section("What it cost", [cost_table([CostRow("judging", view.report.cost)])]),
        *_remarks(view.report),
    ]


def _facts(report: Report) -> dict[str, str]:
    return {
        "judge": report.judge,
        "threshold": f"{report.threshold:.4g} ({report.threshold_policy})",
        "protocol": report.protocol,
        "data": report.revision,
        "traces": f"{report.used:,}",
        "left out": f"{report.left_out:,} without scores" if report.left_out else "",
        "tuned on": f"{report.tuned_away:,} traces, not reported" if report.tuned_away else "",
        "unjudged": f"{report.unjudged_steps:,} steps" if report.unjudged_steps else "",
        "unknown ids": f"{report.unknown:,} in the scores file" if report.unknown else "",
        "intervals": f"95% bootstrap, {report.resamples:,} resamples, seed {report.seed}",
    }


def _table(report: Report) -> Section:
    head, *rows = report.table()
    return Section("Figures", [table(head, rows, caption="Percent, with 95% intervals over cases")])


def _bars(report: Report) -> list[Section]:
    name = report.objective
    rows = [(r.name, r.figures[name]) for r in report.splits if name in r.figures]
    groups = [
        BarGroup(row, [Bar(report.judge, f.value, *(_bounds(f.low, f.high)))])
        for row, f in rows
        if math.isfinite(f.value)
    ]
    if not groups:
        return []
    said = ", ".join(f"{g.label} {100 * g.bars[0].value:.1f}%" for g in groups)
    chart = responsive(lambda width: bar_chart(groups, label=f"{name}: {said}", x_label=name, width=width))
    return [Section(f"{name} by category", [figure(chart, "Whiskers are 95% intervals.")])]


def _bounds(low: float, high: float) -> tuple[float | None, float | None]:
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)


def _published(view: BenchView) -> list[Section]:
    """Published figures below the measured ones, on the rows that both have."""
    report, name = view.report, view.report.objective
    rows = [r for r in report.splits if name in r.figures and any(r.name in p for p in view.published.values())]
    if not rows:
        return []
    ours = [100 * r.figures[name].value for r in rows]
    measured = [f"{report.judge} (measured)", *(f"{value:.1f}" if math.isfinite(value) else "–" for value in ours)]
    others = [
        [model, *(f"{theirs[r.name]:.1f}" if r.name in theirs else "–" for r in rows)]
        for model, theirs in view.published.items()
    ]
    lead = "As their authors published them; this program did not measure them."
    if report.left_out or report.tuned_away:
        lead += f" They are over all cases, the measured ones over {report.used:,} of them."
    return [Section("Beside published figures", [table(["", *(r.name for r in rows)], [measured, *others])], lead)]


def _diagnosed(found: Diagnostics) -> list[Section]:
    return [_confusion(found), *_curve(found), *_reliability(found), *_by_position(found)]


def _confusion(found: Diagnostics) -> Section:
    c = found.confusion
    rows = [
        ["wrong", f"{c.wrong_found:,}", f"{c.wrong_missed:,}"],
        ["right", f"{c.right_flagged:,}", f"{c.right_passed:,}"],
    ]
    lead = f"{found.steps:,} steps with truth and value, {found.wrong:,} of them wrong, at threshold {found.threshold:.4g}."
    if found.unjudged:
        lead += f" {found.unjudged:,} more have a truth but no value and are left out here and in the next two figures."
    return Section("Steps called wrong", [table(["truth", "called wrong", "called right"], rows)], lead)


def _curve(found: Diagnostics) -> list[Section]:
    every = max(1, (len(found.curve) - 1) // (_DRAWN - 1))
    drawn = found.curve[::every]
    series = [
        Series(name, [Point(p.threshold, y) for p in drawn if (y := getattr(p, name.lower())) is not None])
        for name in ("precision", "recall", "F1")
    ]
    series = [s for s in series if len(s.points) > 1]
    if not series:
        return []

    def draw(width: float) -> Markup:
        return line_chart(
            series, label="Precision, recall and F1 of finding wrong steps against the threshold", x_label="threshold",
            y_label="wrong steps", y_range=(0.0, 1.0), width=width, height=380 if width > 500 else 320,
        )  # fmt: skip

    caption = (
        f"A step valued below the threshold is called wrong. The report is at {found.threshold:.4g}. Choosing another "
        "from this figure would be tuning on the data that is reported."
    )
    return [Section("Precision and recall against the threshold", [figure(responsive(draw), caption)])]


def _reliability(found: Diagnostics) -> list[Section]:
    if not found.reliability:
        return []
    bins = []
    for b in found.reliability:
        # The truth may be soft; Wilson's interval is for counts, so it takes the nearest one.
        interval = wilson(round(b.observed * b.count), b.count)
        low, high = min(interval.low, b.observed), max(interval.high, b.observed)
        bins.append(Bin(b.predicted, min(max(b.observed, 0.0), 1.0), b.count, max(low, 0.0), min(high, 1.0)))
    chart = reliability_diagram(
        bins, label="Reliability diagram of the step values", x_label="value given", y_label="share of right steps"
    )
    said = element("strong", f"ECE {found.ece:.3f}. ") if found.ece is not None else ""
    caption = (
        "Steps are gathered by the value they were given. On the dashed line a value of 0.7 is right seven times in ten; "
        "below it the judge is too sure. Whiskers are Wilson’s 95% intervals."
    )
    return [Section("Do the values mean what they say?", [figure(chart, said, caption, beside=True)])]


def _by_position(found: Diagnostics) -> list[Section]:
    bins: list[Position] = [*found.positions, *([found.no_error] if found.no_error else [])]
    if not bins:
        return []
    groups = [BarGroup(f"{b.label}  (n={b.n:,})", [Bar("found", b.accuracy, b.low, b.high)]) for b in bins]
    said = ", ".join(f"{b.label}: {100 * b.accuracy:.1f}%" for b in bins)

    def draw(width: float) -> Markup:
        label = f"Accuracy by the position of the first error. {said}"
        return bar_chart(groups, label=label, x_label="first error found exactly", width=width)

    caption = (
        "Traces by the index of their first error (0 is the first step), and those without one, where no step may be "
        "flagged. Whiskers are Wilson’s 95% intervals."
    )
    return [Section("Accuracy against the position of the error", [figure(responsive(draw), caption)])]


def _remarks(report: Report) -> list[Section]:
    """Notes on the data, and the ids that were left out or are unknown."""
    said = list(report.notes)
    for count, what, ids in (
        (report.left_out, "cases have no scores and are left out", report.left_out_ids),
        (report.unknown, "ids of the scores file are no case of the benchmark", report.unknown_ids),
    ):
        if count:
            said.append(f"{count:,} {what}, the first: {', '.join(ids)}")
    return [Section("Notes", [element("ul", *(element("li", item) for item in said))])] if said else []


def _summary(views: Sequence[BenchView]) -> Markup:
    rows = []
    for report in (view.report for view in views):
        threshold = f"{report.threshold:.4g} ({report.threshold_policy})"
        rows.append([report.benchmark, *_headline(report), f"{report.used:,}", threshold])
    return table(["benchmark", "row", "figure", "value", "traces", "threshold"], rows, text_columns=3)


def _headline(report: Report) -> tuple[str, str, str]:
    """Row, name and value of the one figure that sums a report up."""
    row = report.main_row()
    found = row.figures.get(report.objective)
    return row.name, report.objective, "–" if found is None else percent(found)
