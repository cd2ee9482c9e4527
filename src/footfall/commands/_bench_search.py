"""`footfall bench search`: what every search method costs and is worth, with judges of known quality."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from footfall.bench._frontier import names_of
from footfall.bench.report import write_page
from footfall.bench.searching import HEAD, Plan, SearchCosts, advice, chart, chart_file, costs_page, rows, run_plan
from footfall.commands._options import given
from footfall.commands._output import emit, facts, figures
from footfall.commands._parts import settings
from footfall.commands._running import open_run
from footfall.store import write_json

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["plan_of", "run_search"]

DOCS_FILE = "search_costs.json"
_LISTS = ("worlds", "judges", "methods")
_PLAIN = ("seeds", "problems", "most", "reread", "prm")


def run_search(config: BenchConfig) -> int:
    """Measure, and write report.json, report.html and the charts into the run's folder."""
    named = [name for name in ("data", "format", "scores", "threshold", "tune_on") if getattr(config, name) is not None]
    named += [name for group in (config.judge, config.policy, config.sampling) for name in given(group)]
    if named:
        raise ValueError(f"bench search has its own worlds and judges and takes no --{named[0].replace('_', '-')}")
    options = settings(config.option)
    docs, workers = options.get("docs"), int(options.get("workers", min(2, os.cpu_count() or 1)))
    # Where a copy goes, and who works, is no part of what is measured.
    measured = tuple(option for option in config.option if not option.startswith(("docs=", "workers=")))
    plan = plan_of(settings(measured), config.run.seed)
    with open_run("bench-search", replace(config, option=measured), for_show=("runs", "chunk")) as run:
        costs = run_plan(plan, run, workers)
        result = costs.to_dict()
        write_json(run.folder / "report.json", result)
        page = write_page(run.folder / "report.html", costs_page(costs))
        write_charts(costs, run.folder)
        run.finish(result)
    if docs is not None:
        write_json(Path(docs) / DOCS_FILE, result)
        write_charts(costs, Path(docs))
    emit(result, config.run.json, lambda console: _show(console, costs, page))
    return 0


def plan_of(options: dict[str, Any], seed: int) -> Plan:
    """The plan of options such as `worlds=arithmetic,logic` and `seeds=5`; one that there is not is an error."""
    unknown = [name for name in options if name not in (*_LISTS, *_PLAIN)]
    if unknown:
        raise ValueError(
            f"bench search takes no option {unknown[0]!r}; it takes {', '.join((*_LISTS, *_PLAIN))}, docs, workers"
        )
    read: dict[str, Any] = {name: names_of(value) if name in _LISTS else value for name, value in options.items()}
    return Plan(**read, first_seed=seed)


def write_charts(costs: SearchCosts, folder: Path) -> None:
    """One SVG for each world and judge."""
    for world, judge in costs.settings():
        write_page(folder / chart_file(world, judge), chart(costs, world, judge) + "\n")


def _show(console: Console, costs: SearchCosts, page: Path) -> None:
    for world, judge in costs.settings():
        console.print(f"{world}, {judge} judge, * on the cost/accuracy frontier")
        figures(console, [HEAD, *rows(costs.of(world, judge))])
    console.print(advice(costs))
    facts(console, {
        **{f"{name} does not apply": why for name, why in costs.lacking.items()},
        "not measured": ", ".join(costs.unmeasured),
        "report": page.with_name("report.json"),
        "page": page,
    })  # fmt: skip
