"""The pages of benchmarks: one judge's run with diagnostics and every fact a number depends on, all runs, or a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from footfall.benchmarks.compare import Comparison, Difference
from footfall.benchmarks.runner import Report, percent
from footfall.metrics.cases import Case
from footfall.metrics.diagnostics import Diagnostics, Position
from footfall.metrics.intervals import from_resamples, wilson
from footfall.reports import pages
from footfall.reports.charts import Bar, BarGroup, Point, Series, bar_chart, line_chart
from footfall.reports.pages import (
    CostRow,
    Named,
    Section,
    cost_table,
    details,
    facts_list,
    figure,
    items,
    note,
    paragraph,
    responsive,
    table,
    turned,
)
from footfall.reports.probabilities import Bin, calibration_plot
from footfall.reports.traces import TraceView, extremes, mean_value, scale_of, traces_section, view_of
from footfall.types import Judged, Judgement

_SHOWN = 10
_DRAWN = 26
"""Points of a curve that are drawn; the numbers behind it are all in report.json."""


@dataclass(frozen=True, slots=True)
class BenchView:
    """A report with what is shown beside it."""

    report: Report
    diagnostics: Diagnostics | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """model -> row -> the objective in percent."""
    given: str = ""
    """The judge as the user typed it."""
    controls: Mapping[str, Report] = field(default_factory=dict)
    """The same cases under judges that know nothing, by their names."""
    traces: Sequence[tuple[Case, Judgement]] = ()
    """Of which some are shown."""
    data: str = ""
    """What was measured on, as the user typed it."""
    truth_threshold: float = 0.5
    """A step is truly right if its truth is at least this."""

    @property
    def judge(self) -> Named:
        """Who was measured."""
        return Named(self.given or self.report.judge, self.report.judge)


def bench_page(view: BenchView) -> str:
    """One benchmark."""
    report = view.report
    row, name, shown = _headline(report)
    heading = f"{view.judge.given}: {name} {shown}, {row}"
    title, kicker = f"{report.benchmark}: {view.judge.given}", f"Footfall bench: {report.benchmark}"
    return pages.report(title, kicker, heading, _facts(view), [*bench_sections(view), *_traces(view)])


def suite_page(judge: Named, views: Sequence[BenchView], failed: Mapping[str, str], not_run: Mapping[str, str]) -> str:
    """All benchmarks of one judge: a summary and a section each, then what failed and what was not run."""
    facts = {"judge": str(judge), "measured": str(len(views)), "failed": str(len(failed)), "not run": str(len(not_run))}
    sections: list[Section] = []
    if views:
        sections.append(Section("Summary", [_summary(views)], "Percent with 95% intervals."))
    for title, reasons in (("Failed", failed), ("Not run", not_run)):
        if reasons:
            sections.append(Section(title, [facts_list(reasons)]))
    for view in views:
        first, *rest = bench_sections(view)
        folded = [details(s.title, *(() if not s.lead else (paragraph(s.lead),)), *s.blocks) for s in rest]
        inner = [facts_list(_facts(view)), *first.blocks, *folded]
        sections.append(Section(view.report.benchmark, inner))
    heading = f"{judge.given} on {len(views)} benchmarks"
    return pages.report(f"All benchmarks: {judge.given}", "Footfall bench: all", heading, facts, sections)


def bench_sections(view: BenchView) -> list[Section]:
    """The sections of one benchmark; the first is the table."""
    return [
        _table(view.report),
        *_bars(view),
        *_controls(view),
        *_published(view),
        *(_diagnosed(view.diagnostics) if view.diagnostics else ()),
        Section("What it cost", [cost_table([CostRow("judging", view.report.cost)])]),
        *_remarks(view.report),
    ]


def _facts(view: BenchView) -> dict[str, str]:
    report = view.report
    return {
        "judge": str(view.judge),
        "threshold": f"{report.threshold:.4g} ({report.threshold_policy})",
        "protocol": report.protocol,
        "data": str(Named(view.data or report.revision, report.revision)),
        "traces": report.traces,
        "left out": f"{report.left_out:,} without scores" if report.left_out else "",
        "tuned on": f"{report.tuned_away:,} traces, not reported" if report.tuned_away else "",
        "unjudged": f"{report.unjudged_steps:,} steps" if report.unjudged_steps else "",
        "unknown ids": f"{report.unknown:,} in the scores file" if report.unknown else "",
        "intervals": f"95% bootstrap, {report.resamples:,} resamples, seed {report.seed}",
    }


def _table(report: Report) -> Section:
    head, *rows = report.table()
    return Section(
        "Figures",
        [
            table(
                head,
                rows,
                caption="Percent, with 95% intervals; n counts cases, or problems where several cases are of one",
            )
        ],
    )


def _bars(view: BenchView) -> list[Section]:
    report, name = view.report, view.report.objective
    rows = [(r.name, r.figures[name]) for r in report.splits if name in r.figures]
    groups = [
        BarGroup(row, [Bar(view.judge.given, f.value, *(_bounds(f.low, f.high)))])
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


def _controls(view: BenchView) -> list[Section]:
    """The same cases under judges that know nothing: a figure that is no better says nothing of the judge."""
    if not view.controls:
        return []
    report, name = view.report, view.report.objective
    rows = [r for r in report.splits if name in r.figures]
    lines = [[view.judge.given, *(percent(r.figures[name]) for r in rows)]]
    for judge, other in view.controls.items():
        known = {r.name: r.figures[name] for r in other.splits if name in r.figures}
        lines.append([judge, *(percent(known[r.name]) if r.name in known else "–" for r in rows)])
    lead = f"{name} of the judge and of judges that know nothing, on the same cases, in percent with 95% intervals."
    return [Section("Beside judges that know nothing", [table(*turned(["", *(r.name for r in rows)], lines))], lead)]


def _published(view: BenchView) -> list[Section]:
    """Published figures below the measured ones, on the rows that both have."""
    report, name = view.report, view.report.objective
    rows = [r for r in report.splits if name in r.figures and any(r.name in p for p in view.published.values())]
    if not rows:
        return []
    ours = [100 * r.figures[name].value for r in rows]
    measured = [f"{view.judge.given} (measured)", *(f"{value:.1f}" if math.isfinite(value) else "–" for value in ours)]
    others = [
        [model, *(f"{theirs[r.name]:.1f}" if r.name in theirs else "–" for r in rows)]
        for model, theirs in view.published.items()
    ]
    shown = turned(["", *(r.name for r in rows)], [measured, *others])
    lead = "As their authors published them; this program did not measure them."
    if report.left_out or report.tuned_away or report.of is not None:
        lead += f" They are over all cases, the measured ones over {report.used:,} of them."
    return [Section("Beside published figures", [table(*shown)], lead)]


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
            y_label="wrong steps", y_range=(0.0, 1.0), mark=(found.threshold, f"threshold {found.threshold:.4g}"), width=width,
            height=380 if width > 500 else 320,
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
    chart = calibration_plot(
        bins, label="Reliability diagram of the step values", x_label="value given", y_label="share of right steps"
    )
    measured = f"ECE {found.ece:.3f}. " if found.ece is not None else ""
    caption = (
        "Steps are gathered by the value they were given. On the dashed line a value of 0.7 is right seven times in ten; "
        "below it the judge is too sure. Whiskers are Wilson’s 95% intervals."
    )
    return [Section("Do the values mean what they say?", [figure(chart, caption, measured, beside=True)])]


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
    return [Section("Notes", [items(said)])] if said else []


def _traces(view: BenchView) -> list[Section]:
    """The cases on which values and truth are furthest apart, then those on which they agree; the lowest and highest valued
    where no step's truth is known."""
    truths = {id(said): case.truth for case, said in view.traces}
    rows = [Judged(case.trajectory, said) for case, said in view.traces]
    scale = scale_of([value for row in rows if row.judgement for value in row.judgement.values])
    low, high = scale

    def truth(row: Judged) -> Judgement:
        return truths[id(row.judgement)]

    def apart(row: Judged) -> float | None:
        assert row.judgement is not None
        pairs = zip(row.judgement.values, truth(row).values, strict=True)
        found = [((v - low) / (high - low) - t) ** 2 for v, t in pairs if v is not None and t is not None]
        return -sum(found) / len(found) if found else None

    by_step = any(value is not None for case, _ in view.traces for value in case.truth.values)
    threshold = view.report.threshold if by_step and low <= view.report.threshold <= high else None

    def shown(row: Judged) -> TraceView:
        whole = {None: "", 1.0: "the right or chosen one"}.get(truth(row).value, "the wrong or rejected one")
        error = truth(row).first_below(view.truth_threshold) if by_step else None
        return view_of(row, scale=scale, true_first_error=error, threshold=threshold, said=None if by_step else whole)

    chosen = extremes(rows, apart if by_step else mean_value, _SHOWN)
    if not chosen:
        return []
    ways = (
        ("values and truth are furthest apart", "they agree") if by_step else ("values are lowest", "they are highest")
    )
    lead = f"{len(chosen)} of {len(rows):,} cases: first those where {ways[0]}, then where {ways[1]}."
    return [traces_section("Traces, step by step", lead, list(map(shown, chosen)), threshold, judge="the judge")]


def _summary(views: Sequence[BenchView]) -> Markup:
    rows = []
    for report in (view.report for view in views):
        threshold = f"{report.threshold:.4g} ({report.threshold_policy})"
        rows.append([report.benchmark, *_headline(report), report.traces, threshold])
    return table(["benchmark", "row", "figure", "value", "traces", "threshold"], rows, text_columns=3)


def _headline(report: Report) -> tuple[str, str, str]:
    """Row, name and value of the one figure that sums a report up."""
    row = report.main_row()
    found = row.figures.get(report.objective)
    return row.name, report.objective, "–" if found is None else percent(found)


def comparison_page(comparison: Comparison) -> str:
    """One self-contained HTML page."""
    first = comparison.runs[0]
    facts = {
        "baseline": comparison.names[0],
        "figure": first.objective,
        "protocol": _one_protocol(comparison),
        "data": str(Named(first.data or first.revision, first.revision)),
        "cases": f"{f'{first.count:,}, ' if first.count else ''}the same in every run ({first.cases})",
        "intervals": f"95% paired bootstrap, {first.resamples:,} resamples, seed {first.seed}",
    }
    figures, differences = comparison_tables(comparison)
    sections = [
        Section(f"{first.objective} of each judge", [table(figures[0], figures[1:], caption="Percent")]),
        *_differences(comparison),
        Section(
            "Differences from the baseline", [table(differences[0], differences[1:], text_columns=2), _how_to_read()]
        ),
        Section("Runs", [_runs(comparison)]),
    ]
    heading, kicker = f"{len(comparison.runs)} judges side by side", f"Footfall bench: {first.benchmark}"
    return pages.report(f"{first.benchmark}: comparison", kicker, heading, facts, sections)


def comparison_tables(comparison: Comparison) -> tuple[list[list[str]], list[list[str]]]:
    """Two tables as text, each with its header: figures by row and judge, differences from the baseline."""
    first = comparison.runs[0]
    rows = [row for row, name in first.figures if name == first.objective]
    figures = [["split", *comparison.names]]
    for row in rows:
        held = [run.figures.get((row, first.objective)) for run in comparison.runs]
        figures.append([row, *("" if found is None else percent(from_resamples(found)) for found in held)])
    differences = [["judge", "split", f"{first.objective} − baseline", "p"]]
    for name, found in zip(comparison.names[1:], comparison.differences, strict=True):
        differences += [[name, d.row, _signed(d), p_text(d, first.resamples)] for d in found]
    return figures, differences


def _signed(d: Difference) -> str:
    text = percent(d.difference)
    return f"+{text}" if d.difference.value > 0 else text


def p_text(d: Difference, resamples: int) -> str:
    """p with three decimals; below what so many resamples can resolve it is a bound."""
    if not math.isfinite(d.difference.value):
        return "–"
    least = 2 / (resamples + 1)
    return f"≤ {least:.2g}" if d.p <= least else f"{d.p:.3f}"


def _differences(comparison: Comparison) -> list[Section]:
    """Differences with their intervals, one group a row."""
    first = comparison.runs[0]
    groups: dict[str, list[Bar]] = {}
    for name, found in zip(comparison.names[1:], comparison.differences, strict=True):
        for d in found:
            if all(map(math.isfinite, d.difference)):
                groups.setdefault(d.row, []).append(Bar(name, *d.difference))
    if not groups:
        return []
    bars = [BarGroup(row, found) for row, found in groups.items()]
    label = f"Differences in {first.objective} from {comparison.names[0]}"

    def draw(width: float) -> Markup:
        return bar_chart(bars, label=label, x_label=f"{first.objective}, difference from the baseline", width=width)

    return [Section("Differences", [figure(responsive(draw), "Whiskers are 95% intervals of the paired difference.")])]


def _runs(comparison: Comparison) -> Markup:
    """Who was compared; the protocol only where it is not the same for all, as it stands at the top then."""
    same = _one_protocol(comparison)
    rows = [
        [
            name,
            run.judge,
            f"{run.threshold:.4g} ({run.threshold_policy})",
            *(() if same else (run.protocol,)),
            run.folder,
        ]
        for name, run in zip(comparison.names, comparison.runs, strict=True)
    ]
    head = ["judge", "by content", "threshold", *(() if same else ("protocol",)), "run"]
    return table(head, rows, text_columns=len(head))


def _one_protocol(comparison: Comparison) -> str:
    """The protocol of all runs; empty where there are several."""
    first, *others = {run.protocol for run in comparison.runs}
    return "" if others else first


def _how_to_read() -> Markup:
    return note(
        "How to read this",
        [
            "All judges are measured on the same cases and on the same resamples, so each case is its own control.",
            "An interval that holds zero decides nothing.",
            "p is the two-sided bootstrap p of no difference, for each row alone: it is not corrected for their number.",
        ],
    )
