"""What `bench labels` and `bench search` have in common: options that are a plan, a run, a report, charts, a copy for docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rich.console import Console

from footfall.bench._frontier import names_of
from footfall.bench.report import write_page
from footfall.commands._options import given
from footfall.commands._output import emit, facts
from footfall.commands._parts import settings
from footfall.commands._running import open_run
from footfall.commands._values import check_values
from footfall.store import Run, write_json

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["plan_options", "run_costs", "show_rest"]


class Costs(Protocol):
    """All that was measured, as JSON."""

    def to_dict(self) -> dict[str, Any]: ...


C = TypeVar("C", bound=Costs)


def run_costs(
    config: BenchConfig,
    name: str,
    elsewhere: tuple[str, ...],
    measure: Callable[[Run], C],
    page_of: Callable[[C], str],
    charts_of: Callable[[C], Mapping[str, str]],
    docs_file: str,
    show: Callable[[Console, C, Path], None],
) -> int:
    """Measure, and write report.json, report.html and the charts into the run's folder, and a copy where docs=FOLDER says.

    `elsewhere` are options that are no part of what is measured: where a copy goes, who works.
    """
    _refuse_others(config, name)
    docs = settings(config.option).get("docs")
    kept = tuple(option for option in config.option if option.partition("=")[0] not in elsewhere)
    with open_run(f"bench-{name}", replace(config, option=kept), for_show=("runs", "chunk")) as run:
        costs = measure(run)
        result = costs.to_dict()
        write_json(run.folder / "report.json", result)
        page = write_page(run.folder / "report.html", page_of(costs))
        _write_charts(charts_of(costs), run.folder)
        run.finish(result)
    if docs is not None:
        write_json(Path(docs) / docs_file, result)
        _write_charts(charts_of(costs), Path(docs))
    emit(result, config.run.json, lambda console: show(console, costs, page))
    return 0


def _refuse_others(config: BenchConfig, name: str) -> None:
    named = [key for key in ("data", "format", "scores", "threshold", "tune_on") if getattr(config, key) is not None]
    named += [key for group in (config.judge, config.policy, config.sampling) for key in given(group)]
    if named:
        raise ValueError(f"bench {name} has its own worlds and judges and takes no --{named[0].replace('_', '-')}")


def _write_charts(charts: Mapping[str, str], folder: Path) -> None:
    for file, drawn in charts.items():
        write_page(folder / file, drawn + "\n")


def plan_options(
    name: str,
    plan: Callable[..., Any],
    options: Mapping[str, Any],
    lists: tuple[str, ...],
    plain: tuple[str, ...],
    elsewhere: tuple[str, ...],
) -> dict[str, Any]:
    """Options such as `worlds=arithmetic,logic` and `seeds=5` as fields of `plan`; one that there is not is an error."""
    unknown = [key for key in options if key not in (*lists, *plain, *elsewhere)]
    if unknown:
        takes = ", ".join((*lists, *plain, *elsewhere))
        raise ValueError(f"bench {name} takes no option {unknown[0]!r}; it takes {takes}")
    owner = f"bench {name}"
    check_values(owner, plan, {key: options[key] for key in plain if key in options})
    check_values(owner, _elsewhere, {key: options[key] for key in elsewhere if key in options})
    kept = {key: value for key, value in options.items() if key not in elsewhere}
    return {key: names_of(value) if key in lists else value for key, value in kept.items()}


def _elsewhere(docs: str, workers: int) -> None:
    """The kinds of the options that are no part of a plan."""


def show_rest(console: Console, lacking: Mapping[str, str], unmeasured: Mapping[str, str], page: Path) -> None:
    """What was left out and why, and where the report is."""
    facts(console, {
        **{f"{name} does not apply": why for name, why in lacking.items()},
        "not measured": ", ".join(unmeasured),
        "report": page.with_name("report.json"),
        "page": page,
    })  # fmt: skip
