"""`footfall bench`: how good a judge is, on the field's benchmarks or on rows whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from tyro.conf import Positional

from footfall.commands._judges import JudgeInRun, asks, offers, open_judge
from footfall.commands._options import JudgeOptions, PolicyOptions, RunOptions, SamplingOptions
from footfall.commands._output import emit, facts, figures, spent
from footfall.commands._parts import make_part
from footfall.commands._running import open_run
from footfall.commands._sources import world_rows, world_source
from footfall.registry import load
from footfall.store import write_json
from footfall.types import Judge

if TYPE_CHECKING:
    from footfall.bench import Benchmark, Report, Scores

__all__ = ["BenchConfig", "main"]


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

    The report names threshold, protocol, data revision, judge and cost; it is also in the run's report.json.
    """

    name: Positional[str]
    """A name of `footfall list benchmark`."""
    data: str | None = None
    """The benchmark's file or folder; for steps also world:arithmetic:N[:SPLIT], of the split test unless another is
    named."""
    format: str | None = None
    """The format of the data, for benchmarks that take any."""
    scores: Path | None = None
    """Step scores by id, instead of a judge."""
    threshold: float | None = None
    """A step valued below is an error. None: the benchmark's own."""
    tune_on: str | None = None
    """Choose the threshold on this split, which is then not reported."""
    chunk: int = 64
    """Traces between two savings."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: BenchConfig) -> int:
    """Measure and report."""
    from footfall.bench import Scores, Tuned
    from footfall.bench import run as measure

    if config.threshold is not None and config.tune_on is not None:
        raise ValueError("--threshold fixes a threshold and --tune-on chooses one: pass one of them")
    load("benchmark", config.name)
    benchmark = _benchmark(config)
    judge = _judge(config)
    with open_run("bench", config) as run:
        kept = judge if isinstance(judge, Scores) else JudgeInRun(run, judge, config.chunk)
        threshold = config.threshold if config.tune_on is None else Tuned(config.tune_on)
        report = measure(benchmark, kept, threshold, seed=config.run.seed)
        result = report.to_dict()
        write_json(run.folder / "report.json", result)
        run.finish(result)
        emit(result, config.run.json, lambda console: _show(console, report, benchmark.published, run.folder))
    return 0


def _benchmark(config: BenchConfig) -> Benchmark:
    asked: dict[str, Any] = {}
    if config.data is not None:
        world = world_source(config.data, "test")
        if world is not None and config.name != "steps":
            raise ValueError(f"{config.name} has its own problems; a world is measured by `footfall bench steps`")
        asked["data"] = config.data if world is None else world_rows(world, config.policy, config.run.seed)
    if config.format is not None:
        asked["format"] = config.format
    made: Benchmark = make_part("benchmark", config.name, asked)
    return made


def _judge(config: BenchConfig) -> Judge | Scores:
    from footfall.bench import Scores

    if config.scores is not None:
        if config.judge.judge is not None:
            raise ValueError("--scores are those of a judge elsewhere: pass either --scores or --judge")
        return Scores.read(config.scores)
    drawing = (config.policy, config.sampling, config.run.seed)
    asked, offered = asks(*drawing), offers(*drawing)
    if (config.data or "").startswith("world:"):
        # The policy is there to write the world's traces; a judge may have a use for it too.
        return open_judge(config.judge, {}, {**offered, **asked})
    return open_judge(config.judge, asked, offered)


def _show(console: Console, report: Report, published: Mapping[str, Mapping[str, float]], folder: Path) -> None:
    console.print(f"{report.benchmark}, {report.used} traces, figures in percent with 95% intervals")
    figures(console, report.table())
    splits = [row.name for row in report.splits if any(row.name in theirs for theirs in published.values())]
    if splits:
        console.print("published F1")
        rows = [
            [model, *(f"{theirs[s]:.1f}" if s in theirs else "" for s in splits)] for model, theirs in published.items()
        ]
        figures(console, [["", *splits], *rows])
    facts(console, {
        "judge": report.judge,
        "threshold": f"{report.threshold:.4g} ({report.threshold_policy})",
        "protocol": report.protocol,
        "data": report.revision,
        "not scored": f"{report.left_out} traces" if report.left_out else None,
        "unjudged": f"{report.unjudged_steps} steps" if report.unjudged_steps else None,
        "cost": spent(report.cost),
        "report": folder / "report.json",
    })  # fmt: skip
