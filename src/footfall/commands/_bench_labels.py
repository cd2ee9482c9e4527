"""`footfall bench labels`: what every labelling method costs and is worth, where the truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from footfall.bench._frontier import names_of
from footfall.bench.labels import HEAD, LabelCosts, Plan, advice, chart, chart_file, costs_page, rows, run_plan
from footfall.bench.report import write_page
from footfall.commands._options import given
from footfall.commands._output import emit, facts, figures
from footfall.commands._parts import settings
from footfall.commands._running import open_run
from footfall.store import write_json

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["plan_of", "run_labels"]

DOCS_FILE = "label_costs.json"
_NUMBERS = ("seeds", "traces", "price", "recover")


def run_labels(config: BenchConfig) -> int:
    """Measure, and write report.json, report.html and one chart a world into the run's folder."""
    named = [name for name in ("data", "format", "scores", "threshold", "tune_on") if getattr(config, name) is not None]
    named += [name for group in (config.judge, config.policy, config.sampling) for name in given(group)]
    if named:
        raise ValueError(f"bench labels has its own worlds and policies and takes no --{named[0].replace('_', '-')}")
    docs = settings(config.option).get("docs")
    # Where a copy goes is no part of what is measured.
    measured = tuple(option for option in config.option if not option.startswith("docs="))
    plan = plan_of(settings(measured), config.run.seed)
    with open_run("bench-labels", replace(config, option=measured), for_show=("runs", "chunk")) as run:
        costs = run_plan(plan, run)
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
    unknown = [name for name in options if name not in ("worlds", "methods", *_NUMBERS)]
    if unknown:
        raise ValueError(
            f"bench labels takes no option {unknown[0]!r}; it takes worlds, methods, {', '.join(_NUMBERS)}, docs"
        )
    read: dict[str, Any] = {name: names_of(value) if name not in _NUMBERS else value for name, value in options.items()}
    return Plan(**read, first_seed=seed)


def write_charts(costs: LabelCosts, folder: Path) -> None:
    """One SVG a world."""
    for world in costs.worlds:
        write_page(folder / chart_file(world), chart(costs, world) + "\n")


def _show(console: Console, costs: LabelCosts, page: Path) -> None:
    for world in costs.worlds:
        console.print(f"{world}, * on the cost/quality frontier")
        figures(console, [HEAD, *rows(costs.of(world))])
    console.print(advice(costs))
    facts(console, {
        **{f"{name} does not apply": next(iter(why.values())) for name, why in costs.lacking.items()},
        "not measured": ", ".join(costs.unmeasured),
        "report": page.with_name("report.json"),
        "page": page,
    })  # fmt: skip
