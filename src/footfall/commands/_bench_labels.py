"""`footfall bench labels`: what every labelling method costs and is worth, where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from footfall.commands._bench_costs import CostBench, run_costs, show_rest
from footfall.commands._output import figures
from footfall.studies._labels_advice import advice
from footfall.studies._labels_page import HEAD, charts, costs_page, rows
from footfall.studies._labels_points import LabelCosts, Plan
from footfall.studies.labels import run_plan

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["run_labels"]


def run_labels(config: BenchConfig) -> int:
    """Measure and report, with the charts of each world."""
    return run_costs(config, _LABELS)


def _show(console: Console, costs: LabelCosts, page: Path) -> None:
    for world in costs.worlds:
        console.print(f"{world}, * on the cost/quality frontier")
        figures(console, [HEAD, *rows(costs.of(world))])
    console.print(advice(costs))
    show_rest(console, {name: next(iter(why.values())) for name, why in costs.lacking.items()}, costs.unmeasured, page)


_LABELS = CostBench(
    "labels", Plan, ("worlds", "methods"), ("seeds", "traces", "price", "recover"), run_plan, costs_page, charts,
    "label_costs.json", _show,
)  # fmt: skip
