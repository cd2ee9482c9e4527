"""`footfall bench search`: what every search method costs and is worth, with judges of known quality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from footfall.commands._bench_costs import CostBench, run_costs, show_rest
from footfall.commands._output import figures
from footfall.studies._search_advice import advice
from footfall.studies._search_page import (
    HEAD,
    PICK_HEAD,
    PRM_HEAD,
    certainty,
    chart,
    chart_file,
    costs_page,
    pick_rows,
    prm_rows,
    rows,
)
from footfall.studies._search_points import Plan, SearchCosts
from footfall.studies.search import run_plan

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["run_search"]


def run_search(config: BenchConfig) -> int:
    """Measure and report, with one chart for each world and judge."""
    return run_costs(config, _SEARCH)


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
    figures(console, [PICK_HEAD, *pick_rows(costs)])
    console.print(certainty(costs))
    show_rest(console, {}, costs.unmeasured, page)


_SEARCH = CostBench(
    "search", Plan, ("worlds", "judges", "methods"), ("seeds", "problems", "most", "reread", "prm_traces"), run_plan,
    costs_page, _charts, "search_costs.json", _show,
)  # fmt: skip
