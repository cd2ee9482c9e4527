"""What `bench labels` and `bench search` have in common: options that are a plan, a run, a report, charts, a copy for docs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rich.console import Console

from footfall.commands._options import given
from footfall.commands._output import emit, facts
from footfall.commands._parts import settings
from footfall.commands._running import open_run
from footfall.commands._values import check_values
from footfall.reports._blocks import write_page
from footfall.store import write_json
from footfall.studies.frontier import names_of

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["CostBench", "run_costs", "show_rest"]

_ELSEWHERE = ("docs", "workers")
"""Options that are no part of what is measured: where a copy goes, how many processes work."""


class Costs(Protocol):
    """All that was measured, as JSON."""

    def to_dict(self) -> dict[str, Any]: ...


C = TypeVar("C", bound=Costs)


@dataclass(frozen=True)
class CostBench(Generic[C]):
    """One of the two: its name, its plan with the options that are fields of it, how it is measured and how it is shown."""

    name: str
    plan: Callable[..., Any]
    lists: tuple[str, ...]
    """Options that are names with commas between."""
    plain: tuple[str, ...]
    measure: Callable[..., C]
    page: Callable[[C], str]
    charts: Callable[[C], Mapping[str, str]]
    docs_file: str
    show: Callable[[Console, C, Path], None]


def run_costs(config: BenchConfig, bench: CostBench[C]) -> int:
    """Measure, and write report.json, report.html and the charts into the run's folder, and a copy where docs=FOLDER says."""
    _refuse_others(config, bench.name)
    options = settings(config.option)
    plan = bench.plan(**_plan_fields(bench, options), first_seed=config.run.seed)
    workers = options.get("workers", min(2, os.cpu_count() or 1))
    kept = tuple(option for option in config.option if option.partition("=")[0] not in _ELSEWHERE)
    with open_run(f"bench-{bench.name}", replace(config, option=kept), for_show=("runs", "chunk")) as run:
        costs = bench.measure(plan, run, workers=workers)
        result = costs.to_dict()
        write_json(run.folder / "report.json", result)
        page = write_page(run.folder / "report.html", bench.page(costs))
        _write_charts(bench.charts(costs), run.folder)
        run.finish(result)
    if "docs" in options:
        write_json(Path(options["docs"]) / bench.docs_file, result)
        _write_charts(bench.charts(costs), Path(options["docs"]))
    emit(result, config.run.json, lambda console: bench.show(console, costs, page))
    return 0


def _refuse_others(config: BenchConfig, name: str) -> None:
    named = [key for key in ("data", "format", "scores", "threshold", "tune_on") if getattr(config, key) is not None]
    named += [key for group in (config.judge, config.policy, config.sampling) for key in given(group)]
    if named:
        raise ValueError(f"bench {name} has its own worlds and judges and takes no --{named[0].replace('_', '-')}")


def _write_charts(charts: Mapping[str, str], folder: Path) -> None:
    for file, drawn in charts.items():
        write_page(folder / file, drawn + "\n")


def _plan_fields(bench: CostBench[C], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options such as `worlds=arithmetic,logic` and `seeds=5` as fields of the plan; one that there is not is an error."""
    owner = f"bench {bench.name}"
    known = (*bench.lists, *bench.plain, *_ELSEWHERE)
    unknown = [key for key in options if key not in known]
    if unknown:
        raise ValueError(f"{owner} takes no option {unknown[0]!r}; it takes {', '.join(known)}")
    check_values(owner, bench.plan, {key: options[key] for key in bench.plain if key in options})
    check_values(owner, _elsewhere, {key: options[key] for key in _ELSEWHERE if key in options})
    kept = {key: value for key, value in options.items() if key not in _ELSEWHERE}
    return {key: names_of(value) if key in bench.lists else value for key, value in kept.items()}


def _elsewhere(docs: str, workers: int) -> None:
    """The kinds of the options that are no part of a plan."""


def show_rest(console: Console, lacking: Mapping[str, str], unmeasured: Mapping[str, str], page: Path) -> None:
    """What was left out and why, and where the report is."""
    facts(console, {
        **{f"{name} does not apply": why for name, why in lacking.items()},
        **{f"{name} not measured": why for name, why in unmeasured.items()},
        "report": page.with_name("report.json"),
        "page": page,
    })  # fmt: skip
