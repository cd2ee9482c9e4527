"""`footfall bench labels`, `search`, `credit` and `kinds`: what every method costs and is worth, where the truth is known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from rich.console import Console

from footfall.commands._options import RayOptions
from footfall.commands._output import emit, facts, figures
from footfall.commands._parts import settings
from footfall.commands._running import RunConfig, open_run, ray_workers
from footfall.commands._values import check_values, in_range
from footfall.reports.pages import write_page
from footfall.scale import Call
from footfall.store import write_json
from footfall.studies.credit_report import CREDIT, CreditStudy
from footfall.studies.kind_report import KINDS, KindStudy
from footfall.studies.label_report import LABELS
from footfall.studies.report import Study
from footfall.studies.search_report import SEARCH
from footfall.studies.study import KEPT, filled

AnyStudy: TypeAlias = "Study[Any] | CreditStudy | KindStudy"
_STUDIES: dict[str, AnyStudy] = {study.name: study for study in (LABELS, SEARCH, CREDIT, KINDS)}
_ELSEWHERE = ("docs", "workers")
"""Options that are no part of what is measured: where a copy goes, how many processes work."""


class StudyConfig(RunConfig, Protocol):
    """What a study looks at of the configuration of `footfall bench`."""

    @property
    def name(self) -> str: ...
    @property
    def option(self) -> tuple[str, ...]: ...
    @property
    def ray(self) -> RayOptions: ...


def run_study(config: StudyConfig) -> int:
    """Measure, and write report.json, report.html and the charts into the run's folder, and a copy where docs=FOLDER says."""
    study: Any = _STUDIES[config.name]  # each takes the plan and the figures of its own kind
    options = settings(config.option)
    plan = study.plan(**_plan_fields(study, options), first_seed=config.run.seed)
    workers = options.get("workers", min(2, os.cpu_count() or 1))
    if "workers" in options:
        config.ray.refuse("workers=N are processes of this machine; say --ray-workers how many the cluster has")
    kept = tuple(option for option in config.option if option.partition("=")[0] not in _ELSEWHERE)
    with (
        ray_workers(config.ray.patient(), _sites) as cluster,
        open_run(
            f"bench-{study.name}",
            replace(config, option=kept),
            for_show=("runs", "chunk"),
            workers=cluster,
            beside=KEPT,
        ) as run,
    ):
        costs = study.run(plan, run, workers=workers)
        result = costs.to_dict()
        write_json(run.folder / "report.json", result)
        page = write_page(run.folder / "report.html", study.page(costs))
        _write_charts(study.charts(costs), run.folder)
        run.finish(result)
    if "docs" in options:
        write_json(Path(options["docs"]) / f"{study.docs}.json", result)
        _write_charts(study.charts(costs), Path(options["docs"]))
    emit(result, config.run.json, lambda console: _show(console, study, costs, page))
    return 0


def _sites() -> Call:
    """What a worker of a cluster does."""
    return Call(filled)


def _write_charts(charts: Mapping[str, str], folder: Path) -> None:
    for file, drawn in charts.items():
        write_page(folder / file, drawn + "\n")


def _plan_fields(study: AnyStudy, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options such as `worlds=arithmetic,logic` and `seeds=5` as fields of the plan; one that there is not is an error."""
    owner = f"bench {study.name}"
    known = (*study.lists, *study.numbers, *_ELSEWHERE)
    unknown = [key for key in options if key not in known]
    if unknown:
        raise ValueError(f"{owner} takes no option {unknown[0]!r}; it takes {', '.join(known)}")
    check_values(owner, study.plan, {key: options[key] for key in study.numbers if key in options})
    check_values(owner, _elsewhere, {key: options[key] for key in _ELSEWHERE if key in options})
    in_range(options, owner)
    kept = {key: value for key, value in options.items() if key not in _ELSEWHERE}
    fields = {key: _names(value) if key in study.lists else value for key, value in kept.items()}
    empty = [key for key, value in fields.items() if value == ()]
    if empty:
        raise ValueError(f"{empty[0]} of {owner} names nothing; leave the option away for all of them")
    return fields


def _elsewhere(docs: str, workers: int) -> None:
    """The kinds of the options that are no part of a plan."""


def _names(given: object) -> tuple[str, ...]:
    """The names in an option such as `arithmetic,logic`."""
    return tuple(name.strip() for name in str(given).split(",") if name.strip())


def _show(console: Console, study: AnyStudy, costs: Any, page: Path) -> None:
    for part in study.shown(costs):
        if isinstance(part, str):
            console.print(part)
        else:
            figures(console, part)
    facts(console, {**study.left_out(costs), "report": page.with_name("report.json"), "page": page})
