"""What `footfall bench` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from footfall.benchmarks.compare import Comparison
from footfall.benchmarks.figures import percent
from footfall.commands._output import facts, figures, spent
from footfall.reports.bench_page import BenchView
from footfall.reports.compare_page import comparison_tables

__all__ = ["show_comparison", "show_one", "show_suite"]


def show_one(console: Console, view: BenchView, folder: Path) -> None:
    """The table, published figures and every fact that the numbers depend on."""
    report = view.report
    console.print(f"{report.benchmark}, {report.used} traces, figures in percent with 95% intervals")
    figures(console, report.table())
    published = view.published
    splits = [row.name for row in report.splits if any(row.name in theirs for theirs in published.values())]
    if splits:
        console.print(f"published {report.objective}")
        rows = [
            [model, *(f"{theirs[s]:.1f}" if s in theirs else "" for s in splits)] for model, theirs in published.items()
        ]
        figures(console, [["", *splits], *rows])
    facts(console, {
        "judge": report.judge,
        "threshold": f"{report.threshold:.4g} ({report.threshold_policy})",
        "protocol": report.protocol,
        "data": report.revision,
        "not scored": _named(report.left_out, "traces", report.left_out_ids),
        "unknown": _named(report.unknown, "ids of the scores file", report.unknown_ids),
        "unjudged": f"{report.unjudged_steps} steps" if report.unjudged_steps else None,
        **{f"note {i}": said for i, said in enumerate(report.notes, start=1)},
        "cost": spent(report.cost),
        "report": folder / "report.json",
        "page": folder / "report.html",
    })  # fmt: skip


def _named(count: int, what: str, ids: Sequence[str]) -> str | None:
    more = ", …" if count > len(ids) else ""
    return f"{count} {what}: {', '.join(ids)}{more}" if count else None


def show_suite(
    console: Console, views: Sequence[BenchView], failed: Mapping[str, str], not_run: Mapping[str, str], page: Path
) -> None:
    """One line a benchmark, then what failed and what was not run."""
    rows = [["benchmark", "row", "figure", "value", "traces", "threshold"]]
    for report in (view.report for view in views):
        row = report.main_row()
        found = row.figures.get(report.objective)
        threshold = f"{report.threshold:.4g} ({report.threshold_policy})"
        shown = "–" if found is None else percent(found)
        rows.append([report.benchmark, row.name, report.objective, shown, str(report.used), threshold])
    if views:
        figures(console, rows)
    facts(console, {f"failed: {name}": why for name, why in failed.items()})
    facts(console, {f"not run: {name}": why for name, why in not_run.items()})
    facts(console, {"page": page})


def show_comparison(console: Console, comparison: Comparison, page: Path) -> None:
    """Figures side by side, then the differences."""
    first = comparison.runs[0]
    ours, differences = comparison_tables(comparison)
    console.print(f"{first.benchmark}, {first.objective} in percent with 95% intervals")
    figures(console, ours)
    console.print(f"difference from {comparison.names[0]}, paired")
    figures(console, differences)
    facts(console, {
        "data": first.revision,
        "resamples": f"{first.resamples}, seed {first.seed}",
        "page": page,
    })  # fmt: skip
