"""One benchmark run of the command: the cases, the judge, and what is written into the run's folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from footfall.benchmarks.compare import RESAMPLES_FILE, write_kept
from footfall.benchmarks.runner import Benchmark, Tuned, measured
from footfall.benchmarks.scores import Scores
from footfall.commands._judges import JudgeInRun, asks, offers, open_judge
from footfall.commands._output import note
from footfall.commands._parts import make_part, settings
from footfall.commands._running import open_run
from footfall.commands._sources import skipping, world_rows, world_source
from footfall.metrics.diagnostics import diagnose
from footfall.metrics.sanity import Oracle
from footfall.reports._blocks import write_page
from footfall.reports.bench_page import BenchView, bench_page
from footfall.store import write_json
from footfall.types import Judge, Judgement

if TYPE_CHECKING:
    from footfall.commands.bench import BenchConfig

__all__ = ["ORACLE", "Done", "make_benchmark", "make_judge", "measure_in_run"]

ORACLE = "oracle"
"""The judge that is made from the benchmark's own truth."""


class Done(NamedTuple):
    """A finished run."""

    view: BenchView
    result: dict[str, Any]
    folder: Path


def make_benchmark(config: BenchConfig) -> Benchmark:
    """The benchmark with its data; nothing is judged yet."""
    asked: dict[str, Any] = {}
    if config.data is not None:
        world = world_source(config.data, "test")
        if world is not None and config.name != "steps":
            raise ValueError(f"{config.name} has its own problems; a world is measured by `footfall bench steps`")
        asked["data"] = config.data if world is None else world_rows(world, config.policy, config.run.seed)
    if config.format is not None:
        asked["format"] = config.format
    asked |= settings(config.option)
    with skipping(config.reading) as bad:
        made: Benchmark = make_part("benchmark", config.name, asked if bad is None else {**asked, "bad": bad})
    return made


def make_judge(config: BenchConfig) -> Judge | Scores | None:
    """The judge or the scores file; `None` for the oracle, which needs the cases."""
    if config.scores is not None:
        if config.judge.judge is not None:
            raise ValueError("--scores are those of a judge elsewhere: pass either --scores or --judge")
        return Scores.read(config.scores, config.allow_constant)
    if config.judge.judge == ORACLE:
        if config.judge.set:
            raise ValueError("the oracle says what the benchmark knows; it takes no --set")
        return None
    drawing = (config.policy, config.sampling, config.run.seed)
    asked, offered = asks(*drawing), offers(*drawing)
    if (config.data or "").startswith("world:"):
        # The policy is there to write the world's traces; a judge may have a use for it too.
        return open_judge(config.judge, {}, {**offered, **asked})
    return open_judge(config.judge, asked, offered)


def measure_in_run(config: BenchConfig, benchmark: Benchmark, judge: Judge | Scores | None) -> Done:
    """Judge, measure, and write report.json, report.html and the resampled figures."""
    known = Oracle(benchmark.cases) if judge is None else judge
    threshold = config.threshold if config.tune_on is None else Tuned(config.tune_on)
    with open_run("bench", config, for_show=("runs",)) as run:
        kept = known if isinstance(known, Scores) else JudgeInRun(run, known, config.chunk)
        found = measured(benchmark, kept, threshold, seed=config.run.seed)
        if isinstance(known, Scores):
            _warn_of_scale(known.name, found.judgements, found.report.threshold)
        diagnostics = diagnose(found.cases, found.judgements, found.report.threshold)
        view = BenchView(found.report, diagnostics, benchmark.published)
        result = {
            **found.report.to_dict(),
            "published": {model: dict(rows) for model, rows in benchmark.published.items()},
            "diagnostics": None if diagnostics is None else diagnostics.to_dict(),
        }
        write_kept(run.folder / RESAMPLES_FILE, found)
        write_page(run.folder / "report.html", bench_page(view))
        write_json(run.folder / "report.json", result)
        run.finish(result)
        return Done(view, result, run.folder)


def _warn_of_scale(name: str, judgements: Iterable[Judgement], threshold: float) -> None:
    """Scores in percent, or logits, are all on one side of a threshold for probabilities: no figure would tell."""
    values = [value for said in judgements for value in (*said.values, said.value) if value is not None]
    outside = [value for value in values if not 0 <= value <= 1]
    if outside and 0 < threshold < 1:
        note(
            f"{name}: {len(outside)} of {len(values)} scores lie outside [0, 1], the furthest is {max(outside, key=abs):g}, "
            f"and the threshold is {threshold:g}; bring them to one scale, or pass --threshold"
        )
