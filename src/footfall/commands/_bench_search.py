"""`footfall bench search`: what every search method costs and is worth, with judges of known quality."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from footfall.bench.searching import (
    HEAD,
    PRM_HEAD,
    Plan,
    SearchCosts,
    advice,
    chart,
    chart_file,
    costs_page,
    prm_rows,
    rows,
    run_plan,
)
from footfall.commands._bench_costs import plan_options, run_costs, show_rest
from footfall.commands._output import figures
from footfall.commands._parts import settings

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["run_search"]

_LISTS = ("worlds", "judges", "methods")
_PLAIN = ("seeds", "problems", "most", "reread", "prm_traces")
_ELSEWHERE = ("docs", "workers")


def run_search(config: BenchConfig) -> int:
    """Measure and report, with one chart for each world and judge."""
    options = settings(config.option)
    fields = plan_options("search", Plan, options, _LISTS, _PLAIN, _ELSEWHERE)
    workers = options.get("workers", min(2, os.cpu_count() or 1))
    measure = partial(run_plan, Plan(**fields, first_seed=config.run.seed), workers=workers)
    return run_costs(config, "search", _ELSEWHERE, measure, costs_page, _charts, "search_costs.json", _show)


def _charts(costs: SearchCosts) -> dict[str, str]:
    return {chart_file(world, judge): chart(costs, world, judge) for world, judge in costs.settings()}


def _show(console: Console, costs: SearchCosts, page: Path) -> None:
    for world, judge in costs.settings():
        console.print(f"{world}, {judge} judge, * on the cost/accuracy frontier")
        figures(console, [HEAD, *rows(costs.of(world, judge))])
    if costs.prms:
        console.print("how good the trained PRMs are on held-out traces, mean over seeds")
        figures(console, [PRM_HEAD, *prm_rows(costs)])
    console.print(advice(costs))
    show_rest(console, {}, costs.unmeasured, page)
