"""`footfall bench all`: every benchmark whose data is there, in one run folder and on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from footfall.benchmarks.scores import Scores
from footfall.commands._bench_run import ORACLE, Done, make_benchmark, make_judge, measure_in_run
from footfall.commands._bench_show import show_suite
from footfall.commands._output import emit, note
from footfall.commands._running import open_run
from footfall.registry import parts
from footfall.reports._blocks import write_page
from footfall.reports.bench_page import suite_page
from footfall.store import write_json
from footfall.types import Judge

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["find_data", "run_all"]

_ALSO_CALLED = {"mr-math": "reasoneval"}
"""Benchmarks whose authors ship them in a folder of another name."""


def run_all(config: BenchConfig) -> int:
    """Measure on each benchmark; 1 if one of them failed."""
    for option in ("scores", "format", "tune_on"):
        if getattr(config, option) is not None:
            raise ValueError(f"--{option.replace('_', '-')} is for one benchmark; `bench all` takes --judge and --data")
    if config.data is None or not Path(config.data).is_dir():
        raise ValueError("bench all needs --data DIR, a folder with one folder a benchmark, e.g. DIR/processbench/")
    found = {name: find_data(Path(config.data), name) for name in parts("benchmark")}
    if not any(found.values()):
        raise ValueError(f"{config.data} has no data of a benchmark; it should hold folders named {', '.join(found)}")
    judge = make_judge(config)
    failed: dict[str, str] = {}
    with open_run("bench-all", config, for_show=("runs",)) as run:
        done = []
        for name, data in found.items():
            if data is not None:
                one = replace(config, name=name, data=str(data), run=replace(config.run, out=run.folder / name))
                finished = _tried(one, judge, failed)
                done += [] if finished is None else [finished]
        not_run = {name: f"there is no {name}/ in {config.data}" for name, data in found.items() if data is None}
        views = [one.view for one in done]
        result: dict[str, Any] = {
            "judge": _name(judge),
            "benchmarks": {one.view.report.benchmark: one.result for one in done},
            "failed": failed,
            "not_run": not_run,
        }
        page = write_page(run.folder / "report.html", suite_page(_name(judge), views, failed, not_run))
        write_json(run.folder / "report.json", result)
        run.finish(result)
        emit(result, config.run.json, lambda console: show_suite(console, views, failed, not_run, page))
    return 1 if failed else 0


def find_data(folder: Path, name: str) -> Path | None:
    """The folder (or file) of a benchmark in `folder`: its name with - or _, in any case; folders go first."""
    there = sorted(folder.iterdir(), key=lambda path: (not path.is_dir(), path.name))
    names = {_plain(name), _plain(_ALSO_CALLED.get(name, name))}
    return next((path for path in there if _plain(path.name.partition(".")[0]) in names), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _tried(config: BenchConfig, judge: Judge | Scores | None, failed: dict[str, str]) -> Done | None:
    """A finished run, or `None` with the reason in `failed`."""
    note(f"bench all: {config.name}, {config.data}")
    try:
        return measure_in_run(config, make_benchmark(config), judge)
    except Exception as error:  # noqa: BLE001 - bad data of one benchmark must not cost the others; it is shown and counted
        failed[config.name] = " ".join(str(error.args[0] if isinstance(error, KeyError) else error).split()) or repr(
            error
        )
        note(f"bench all: {config.name} failed: {failed[config.name]}")
        return None


def _name(judge: Judge | Scores | None) -> str:
    return ORACLE if judge is None else judge.name
