"""`footfall bench labels`: what every labelling method costs and is worth, where the truth is known."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from footfall.bench.labels import HEAD, LabelCosts, Plan, advice, charts, costs_page, rows, run_plan
from footfall.commands._bench_costs import plan_options, run_costs, show_rest
from footfall.commands._output import figures
from footfall.commands._parts import settings

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["run_labels"]

_LISTS = ("worlds", "methods")
_PLAIN = ("seeds", "traces", "price", "recover")
_ELSEWHERE = ("docs", "workers")


def run_labels(config: BenchConfig) -> int:
    """Measure and report, with the charts of each world."""
    options = settings(config.option)
    fields = plan_options("labels", Plan, options, _LISTS, _PLAIN, _ELSEWHERE)
    workers = options.get("workers", min(2, os.cpu_count() or 1))
    measure = partial(run_plan, Plan(**fields, first_seed=config.run.seed), workers=workers)
    return run_costs(config, "labels", _ELSEWHERE, measure, costs_page, charts, "label_costs.json", _show)


def _show(console: Console, costs: LabelCosts, page: Path) -> None:
    for world in costs.worlds:
        console.print(f"{world}, * on the cost/quality frontier")
        figures(console, [HEAD, *rows(costs.of(world))])
    console.print(advice(costs))
    show_rest(console, {name: next(iter(why.values())) for name, why in costs.lacking.items()}, costs.unmeasured, page)
