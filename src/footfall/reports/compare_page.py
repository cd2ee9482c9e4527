"""The page of a comparison: judges side by side, differences with their intervals."""

from __future__ import annotations

import math

from footfall.benchmarks.compare import Comparison, Difference
from footfall.benchmarks.runner import percent
from footfall.metrics.intervals import from_resamples
from footfall.reports._bars import Bar, BarGroup, bar_chart
from footfall.reports._blocks import Section, figure, note, page, responsive, table
from footfall.reports.bench_page import footer, header
from footfall.reports.svg import Markup


def comparison_page(comparison: Comparison) -> str:
    """One self-contained HTML page."""
    first = comparison.runs[0]
    facts = {
        "baseline": comparison.names[0],
        "figure": first.objective,
        "data": first.revision,
        "cases": first.cases,
        "intervals": f"95% paired bootstrap, {first.resamples:,} resamples, seed {first.seed}",
    }
    top = header(f"Footfall bench: {first.benchmark}", f"{len(comparison.runs)} judges side by side", facts)
    figures, differences = comparison_tables(comparison)
    sections = [
        Section(f"{first.objective} of each judge", [table(figures[0], figures[1:], caption="Percent")]),
        *_chart(comparison),
        Section(
            "Differences from the baseline", [table(differences[0], differences[1:], text_columns=2), _how_to_read()]
        ),
        Section("Runs", [_runs(comparison)]),
    ]
    return page(f"{first.benchmark}: comparison", top, *(s.markup() for s in sections), footer())


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


def _chart(comparison: Comparison) -> list[Section]:
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
    rows = [
        [name, f"{run.threshold:.4g} ({run.threshold_policy})", run.protocol, run.folder]
        for name, run in zip(comparison.names, comparison.runs, strict=True)
    ]
    return table(["judge", "threshold", "protocol", "run"], rows, text_columns=4)


def _how_to_read() -> Markup:
    return note(
        "How to read this",
        [
            "All judges are measured on the same cases and on the same resamples, so each case is its own control.",
            "An interval that holds zero decides nothing.",
            "p is the two-sided bootstrap p of no difference, for each row alone: it is not corrected for their number.",
        ],
    )
