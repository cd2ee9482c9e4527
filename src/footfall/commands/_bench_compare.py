"""`footfall bench compare RUN RUN…`: judges side by side, with paired differences from the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from footfall.benchmarks.compare import compare, read_kept
from footfall.commands._bench_show import show_comparison
from footfall.commands._options import given
from footfall.commands._output import emit
from footfall.commands._running import open_run
from footfall.reports._blocks import write_page
from footfall.reports.compare_page import comparison_page
from footfall.store import write_json

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["run_compare"]


def run_compare(config: BenchConfig) -> int:
    """Read the runs, compare, and write one page."""
    named = [name for name in ("data", "format", "scores", "threshold", "tune_on") if getattr(config, name) is not None]
    named += [name for group in (config.judge, config.policy, config.sampling) for name in given(group)]
    if named:
        raise ValueError(f"bench compare takes finished runs and no --{named[0].replace('_', '-')}")
    found = compare([read_kept(folder) for folder in config.runs])
    result = found.to_dict()
    with open_run("bench-compare", config) as run:
        page = write_page(run.folder / "report.html", comparison_page(found))
        write_json(run.folder / "report.json", result)
        run.finish(result)
        emit(result, config.run.json, lambda console: show_comparison(console, found, page))
    return 0
