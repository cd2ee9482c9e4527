"""`footfall bench`: how good a judge is, on the field's benchmarks or on rows whose truth is known; what methods cost.

One benchmark, all whose data is there, or finished runs side by side; studies of methods are `footfall.commands._bench_study`.
"""

from __future__ import annotations

import errno
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich.console import Console
from tyro.conf import Positional

from footfall.benchmarks.compare import RESAMPLES_FILE, Comparison, compare, read_kept, write_kept
from footfall.benchmarks.records import source_of
from footfall.benchmarks.runner import Benchmark, Tuned, know_nothing, limited, measured, percent
from footfall.benchmarks.scores import Scores
from footfall.commands._judges import JudgeInRun, asks, judge_name, judging, learned_by_heart, offers, open_judge
from footfall.commands._options import (
    JudgeOptions,
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
    given,
)
from footfall.commands._output import emit, facts, figures, note, spent
from footfall.commands._parts import make_part, with_settings
from footfall.commands._running import open_run, ray_workers
from footfall.commands._sources import here, read_traces, world_rows, world_source
from footfall.metrics.cases import Oracle
from footfall.metrics.diagnostics import diagnose
from footfall.registry import load, parts
from footfall.reports.bench_page import BenchView, bench_page, comparison_page, comparison_tables, suite_page
from footfall.reports.pages import Named, write_page
from footfall.scale import RayWorkers, is_address
from footfall.store import Task, write_json
from footfall.types import Judge, Judged, Judgement

_ANY_FILE = "it is for `footfall bench steps`, which reads any file"
STUDIES = ("labels", "search", "credit", "kinds")
"""Of methods, where the truth is known."""
MORE = ("all", "compare", *STUDIES)
"""What `footfall bench` takes beside the name of a benchmark."""
_NO_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors that no other benchmark would be spared."""
_RAY = tuple(f.name for f in fields(RayOptions))
ORACLE = "oracle"
"""The judge that is made from the benchmark's own truth."""


@dataclass(frozen=True)
class BenchConfig:
    """Measure a judge against known step labels, with 95% intervals.

    ProcessBench, from a folder with its files gsm8k.json, math.json and so on:
        footfall bench processbench --data ProcessBench/ --judge runs/train-…/model

    Any file with step labels, or fresh traces of the arithmetic world whose truth is known:
        footfall bench steps --data judged.parquet --judge runs/train-…/model
        footfall bench steps --data world:arithmetic:200 --policy embedded --judge runs/train-…/model

    Scores made elsewhere, {"id": …, "scores": […]} a line:
        footfall bench processbench --data ProcessBench/ --scores scores.jsonl

    Every benchmark that has a folder of its name in DATA, on one page; then judges side by side:
        footfall bench all --data DATA/ --judge runs/train-…/model
        footfall bench compare runs/bench-… runs/bench-…

    Every labelling method at several budgets on worlds whose truth is known, by cost and quality:
        footfall bench labels --option worlds=arithmetic,logic seeds=5 traces=100

    Every search method, accuracy against tokens, with judges of known quality:
        footfall bench search --option worlds=arithmetic judges=exact,noisy seeds=3 problems=20

    Every credit of reinforcement learning, its gradient against the exact one:
        footfall bench credit --option judges=exact,noisy,hackable seeds=3

    Every kind of PRM (objectives and heads) on the same labels of the same traces; a look at little data:
        footfall bench kinds --option labels=exact sizes=24 seeds=1 pool=4 beam=1

    A report names threshold and its policy, protocol, data revision, judge and cost; it is in the run's report.json and
    report.html.
    """

    name: Positional[str]
    """A name of `footfall list benchmark`, all, compare, labels, search, credit, or kinds."""
    runs: Positional[tuple[Path, ...]] = ()
    """For compare: finished runs of one benchmark; the first is the baseline."""
    data: str | None = None
    """The benchmark's file or folder; for all, a folder with one of them each; for steps a file, a folder whose files are
    the splits, or world:arithmetic:N[:SPLIT], of the split test unless another is named."""
    format: str | None = None
    """The format of the data, for benchmarks that take any."""
    option: tuple[str, ...] = ()
    """The benchmark's own options as name=value, e.g. votes=false or aggregation=prod."""
    scores: Path | None = None
    """Step scores by id, instead of a judge."""
    allow_constant: bool = False
    """Measure a scores file although all its scores are equal."""
    threshold: float | Literal["own"] | None = None
    """A step valued below is an error: a number, or own, which the judge must declare. None: the judge's own where it
    declares one, else the benchmark's."""
    tune_on: str | None = None
    """Choose the threshold on this split, which is then not reported."""
    chunk: int = 64
    """Traces between two savings."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: BenchConfig) -> int:
    """Measure and report."""
    if config.threshold is not None and config.tune_on is not None:
        raise ValueError("--threshold fixes a threshold and --tune-on chooses one: pass one of them")
    if isinstance(config.threshold, float) and not math.isfinite(config.threshold):
        raise ValueError(f"--threshold {config.threshold}: a finite number is needed")
    if config.name not in parts("benchmark") or not source_of(load("benchmark", config.name)).reader:
        besides = () if config.name in (*STUDIES, "compare") else ("limit",)
        why = "it is for benchmarks of data; studies take --option" if not besides else _ANY_FILE
        config.reading.refuse(f"`footfall bench {config.name}`", why, besides)
    if config.runs and config.name != "compare":
        raise ValueError(f"{config.runs[0]}: only `footfall bench compare` takes runs; data is named by --data")
    if config.name in STUDIES:
        from footfall.commands._bench_study import run_study

        _refuse_unused(config, f"bench {config.name} has its own worlds and judges and takes no", ("option", *_RAY))
        return run_study(config)
    return SPECIAL.get(config.name, run_one)(config)


def _refuse_unused(config: BenchConfig, said: str, besides: Sequence[str] = ()) -> None:
    """An option of measuring one judge that was given where it means nothing is an error that begins with `said`."""
    usual = BenchConfig(config.name, config.runs)
    own = ("data", "format", "scores", "threshold", "tune_on", "allow_constant", "option", "chunk")
    named = [name for name in own if getattr(config, name) != getattr(usual, name)]
    named += [name for group in (config.judge, config.policy, config.sampling, config.ray) for name in given(group)]
    for name in named:
        if name not in besides:
            raise ValueError(f"{said} --{name.replace('_', '-')}")


class Done(NamedTuple):
    """A finished run."""

    view: BenchView
    result: dict[str, Any]
    folder: Path


def make_benchmark(config: BenchConfig) -> Benchmark:
    """The benchmark with its data; nothing is judged yet."""
    asked: dict[str, Any] = {}
    world = None if config.data is None else world_source(config.data, "test")
    if config.data is not None:
        if world is not None and not source_of(load("benchmark", config.name)).rows:
            raise ValueError(f"{config.name} has its own problems; a world is measured by `footfall bench steps`")
        asked["data"] = here(config.data) if world is None else world_rows(world, config.policy, config.run.seed)
    if config.format is not None:
        asked["format"] = config.format
    asked = with_settings(asked, config.option)
    if world is not None:
        config.reading.refuse(str(config.data), "a world writes its traces in steps", ("limit",))
    elif source_of(load("benchmark", config.name)).reader:
        options = replace(config.reading, limit=None)
        asked["reader"] = lambda path, format: read_traces(str(path), format, options)
    made: Benchmark = make_part("benchmark", config.name, asked)
    return made if config.reading.limit is None else limited(made, config.reading.limit)


def make_judge(config: BenchConfig) -> Judge | Scores | None:
    """The judge or the scores file; `None` for the oracle, which needs the cases."""
    drawing = (config.policy, config.sampling, config.run.seed)
    asked, offered = asks(*drawing), offers(*drawing)
    if (config.data or "").startswith("world:") and "policy" in asked:
        # The policy is there to write the world's traces; a judge may have a use for it too.
        offered["policy"] = asked.pop("policy")
    if config.scores is not None:
        if config.judge.judge is not None:
            raise ValueError("--scores are those of a judge elsewhere: pass either --scores or --judge")
        config.ray.refuse("--scores are those of a judge elsewhere, and workers have nothing to do")
        _refuse_idle(config, "--scores are those of a judge elsewhere and take no", asked)
        return Scores.read(config.scores, config.allow_constant)
    if config.allow_constant:
        raise ValueError("--allow-constant is about the file of --scores, and none is named")
    if config.judge.judge == ORACLE:
        config.ray.refuse("the oracle says what the benchmark knows, and workers have nothing to do")
        _refuse_idle(config, "the oracle says what the benchmark knows; it takes no", asked)
        return None
    return open_judge(config.judge, asked, offered)


def _refuse_idle(config: BenchConfig, said: str, asked: Mapping[str, Any]) -> None:
    """Whoever is not asked has no use for settings, a policy or a way of drawing."""
    named = [*(["set"] if config.judge.set else []), *(given(config.sampling) if "params" in asked else []), *asked]
    if named:
        raise ValueError(f"{said} --{named[0].replace('_', '-')}")


def _task(config: BenchConfig) -> Task:
    """What a worker does with a chunk of traces."""
    judge = make_judge(config)
    assert judge is not None and not isinstance(judge, Scores)
    return judging(judge)


def measure_in_run(
    config: BenchConfig, benchmark: Benchmark, judge: Judge | Scores | None, workers: RayWorkers | None = None
) -> Done:
    """Judge, measure, and write report.json, report.html and the resampled figures."""
    known = Oracle(benchmark.cases) if judge is None else judge
    threshold = config.threshold if config.tune_on is None else Tuned(config.tune_on)
    if caution := learned_by_heart(known, [Judged(case.trajectory, case.truth) for case in benchmark.cases]):
        benchmark = replace(benchmark, notes=(*benchmark.notes, caution))
    with open_run("bench", config, for_show=("runs",), workers=workers) as run:
        kept = known if isinstance(known, Scores) else JudgeInRun(run, known, config.chunk)
        found = measured(benchmark, kept, threshold, seed=config.run.seed)
        if isinstance(known, Scores):
            _warn_of_scale(known.name, found.judgements, found.report.threshold)
        traces = [
            (case, said)
            for case, said in zip(found.cases, found.judgements, strict=True)
            if case.split not in benchmark.aside
        ]
        cases, judgements = [case for case, _ in traces], [said for _, said in traces]
        diagnostics = diagnose(cases, judgements, found.report.threshold, benchmark.truth_threshold)
        controls = know_nothing(benchmark, found.cases, config.run.seed)
        data = _data(config)
        view = BenchView(
            found.report, diagnostics, benchmark.published, _given(config), controls, traces, data,
            benchmark.truth_threshold,
        )  # fmt: skip
        result = {
            **found.report.to_dict(),
            "judge_given": view.judge.given,
            "know_nothing": {name: report.to_dict()["splits"] for name, report in controls.items()},
            "published": {model: dict(rows) for model, rows in benchmark.published.items()},
            "diagnostics": None if diagnostics is None else diagnostics.to_dict(),
        }
        write_kept(run.folder / RESAMPLES_FILE, found, view.judge.given, data)
        write_page(run.folder / "report.html", bench_page(view))
        write_json(run.folder / "report.json", result)
        run.finish(result)
        return Done(view, result, run.folder)


def _given(config: BenchConfig) -> str:
    """The judge, or the file of its scores, as the user typed it."""
    return judge_name(config.judge) if config.scores is None else str(config.scores)


def _data(config: BenchConfig) -> str:
    """What is measured on as the user typed it, and who wrote the traces of a world."""
    world = world_source(config.data or "", "test")
    return (
        config.data or "" if world is None else f"{config.data} by {config.policy.typed or f'scripted-{world.world}'}"
    )


def _warn_of_scale(name: str, judgements: Iterable[Judgement], threshold: float) -> None:
    """Scores in percent, or logits, are all on one side of a threshold for probabilities: no figure would tell."""
    values = [value for said in judgements for value in (*said.values, said.value) if value is not None]
    outside = [value for value in values if not 0 <= value <= 1]
    if outside and 0 < threshold < 1:
        note(
            f"{name}: {len(outside)} of {len(values)} scores lie outside [0, 1], the furthest is {max(outside, key=abs):g}, "
            f"and the threshold is {threshold:g}; bring them to one scale, or pass --threshold"
        )


def run_one(config: BenchConfig) -> int:
    """One benchmark."""
    load("benchmark", config.name)
    judge = make_judge(config)
    with ray_workers(config.ray, partial(_task, config)) as workers:
        view, result, folder = measure_in_run(config, make_benchmark(config), judge, workers)
    emit(result, config.run.json, lambda console: _show_one(console, view, folder))
    return 0


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
    with (
        ray_workers(config.ray, partial(_task, config)) as workers,
        open_run("bench-all", config, for_show=("runs",), inner=tuple(found)) as run,
    ):
        done = []
        for name, data in found.items():
            if data is not None:
                out = (config.run.out if is_address(config.run.out) else None) or run.folder
                one = replace(config, name=name, data=str(data), run=replace(config.run, out=out / name))
                finished = _tried(one, judge, failed, workers)
                done += [] if finished is None else [finished]
        not_run = {name: f"there is no {name}/ in {config.data}" for name, data in found.items() if data is None}
        views = [one.view for one in done]
        result: dict[str, Any] = {
            "judge": _name(judge),
            "judge_given": _given(config),
            "benchmarks": {one.view.report.benchmark: one.result for one in done},
            "failed": failed,
            "not_run": not_run,
        }
        page = write_page(
            run.folder / "report.html", suite_page(Named(_given(config), _name(judge)), views, failed, not_run)
        )
        write_json(run.folder / "report.json", result)
        run.finish(result)
        emit(result, config.run.json, lambda console: _show_suite(console, views, failed, not_run, page))
    return 1 if failed else 0


def find_data(folder: Path, name: str) -> Path | None:
    """The folder (or file) of a benchmark in `folder`: its name with - or _, in any case; folders go first."""
    there = sorted(folder.iterdir(), key=lambda path: (not path.is_dir(), path.name))
    names = {_plain(name), _plain(source_of(load("benchmark", name)).folder or name)}
    return next((path for path in there if _plain(path.name.partition(".")[0]) in names), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _tried(
    config: BenchConfig, judge: Judge | Scores | None, failed: dict[str, str], workers: RayWorkers | None
) -> Done | None:
    """A finished run, or `None` with the reason in `failed`."""
    note(f"bench all: {config.name}, {config.data}")
    try:
        return measure_in_run(config, make_benchmark(config), judge, workers)
    except Exception as error:  # one benchmark that fails must not cost the others, whatever it raised
        if isinstance(error, OSError) and error.errno in _NO_DISK:
            raise
        failed[config.name] = " ".join(str(error.args[0] if isinstance(error, KeyError) else error).split()) or repr(
            error
        )
        note(f"bench all: {config.name} failed: {failed[config.name]}")
        return None


def _name(judge: Judge | Scores | None) -> str:
    return ORACLE if judge is None else judge.name


def run_compare(config: BenchConfig) -> int:
    """Read the runs, compare, and write one page."""
    _refuse_unused(config, "bench compare takes finished runs and no")
    found = compare([read_kept(folder) for folder in config.runs])
    result = found.to_dict()
    with open_run("bench-compare", config) as run:
        page = write_page(run.folder / "report.html", comparison_page(found))
        write_json(run.folder / "report.json", result)
        run.finish(result)
        emit(result, config.run.json, lambda console: _show_comparison(console, found, page))
    return 0


def _show_one(console: Console, view: BenchView, folder: Path) -> None:
    """The table, published figures and every fact that the numbers depend on."""
    report = view.report
    console.print(f"{report.benchmark}, {report.traces} traces, figures in percent with 95% intervals")
    figures(console, report.table())
    published = view.published
    splits = [row.name for row in report.splits if any(row.name in theirs for theirs in published.values())]
    if splits:
        console.print(f"published {report.objective}")
        rows = [
            [model, *(f"{theirs[s]:.1f}" if s in theirs else "" for s in splits)] for model, theirs in published.items()
        ]
        figures(console, [["", *splits], *rows])
    facts(console, {
        "n": "traces that the intervals draw together, as those of one problem, count once" if _grouped(view) else None,
        "judge": view.judge,
        "beside": _know_nothing(view),
        "threshold": f"{report.threshold:.4g} ({report.threshold_policy})",
        "protocol": report.protocol,
        "data": Named(view.data or report.revision, report.revision),
        "not scored": _named(report.left_out, "traces", report.left_out_ids),
        "unknown": _named(report.unknown, "ids of the scores file", report.unknown_ids),
        "unjudged": f"{report.unjudged_steps} steps" if report.unjudged_steps else None,
        **{f"note {i}": said for i, said in enumerate(report.notes, start=1)},
        "cost": spent(report.cost),
        "report": folder / "report.json",
        "page": folder / "report.html",
    })  # fmt: skip


def _grouped(view: BenchView) -> bool:
    """Whether a split counts fewer than the traces that are in it."""
    traces = Counter(case.split for case, _ in view.traces)
    return any((row.n or 0) < traces[row.name] for row in view.report.splits)


def _know_nothing(view: BenchView) -> str:
    """What judges that know nothing reach on the row that sums up."""
    row, name = view.report.main_row().name, view.report.objective
    found = {judge: figures[0] for judge, other in view.controls.items() if (figures := [
        r.figures[name] for r in other.splits if r.name == row and name in r.figures])}  # fmt: skip
    return ", ".join(f"{judge} {percent(figure)}" for judge, figure in found.items())


def _named(count: int, what: str, ids: Sequence[str]) -> str | None:
    more = ", …" if count > len(ids) else ""
    return f"{count} {what}: {', '.join(ids)}{more}" if count else None


def _show_suite(
    console: Console, views: Sequence[BenchView], failed: Mapping[str, str], not_run: Mapping[str, str], page: Path
) -> None:
    """One line a benchmark, then what failed and what was not run."""
    rows = [["benchmark", "row", "figure", "value", "traces", "threshold"]]
    for report in (view.report for view in views):
        row = report.main_row()
        found = row.figures.get(report.objective)
        threshold = f"{report.threshold:.4g} ({report.threshold_policy})"
        shown = "–" if found is None else percent(found)
        rows.append([report.benchmark, row.name, report.objective, shown, report.traces, threshold])
    if views:
        figures(console, rows)
    facts(console, {f"failed: {name}": why for name, why in failed.items()})
    facts(console, {f"not run: {name}": why for name, why in not_run.items()})
    facts(console, {"page": page})


def _show_comparison(console: Console, comparison: Comparison, page: Path) -> None:
    """Figures side by side, then the differences."""
    first = comparison.runs[0]
    ours, differences = comparison_tables(comparison)
    console.print(f"{first.benchmark}, {first.objective} in percent with 95% intervals")
    figures(console, ours)
    console.print(f"difference from {comparison.names[0]}, paired")
    figures(console, differences)
    facts(console, {
        "data": Named(first.data or first.revision, first.revision),
        "resamples": f"{first.resamples}, seed {first.seed}",
        "page": page,
    })  # fmt: skip


SPECIAL = {"all": run_all, "compare": run_compare}
"""Of several benchmarks or runs, by the word that stands in a benchmark's place."""
