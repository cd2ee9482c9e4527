"""`footfall bench`: how good a judge is, on the field's benchmarks or on rows whose truth is known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from footfall.commands._options import JudgeOptions, PolicyOptions, ReadOptions, RunOptions, SamplingOptions
from footfall.commands._output import emit
from footfall.registry import load

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

    Every benchmark that has a folder of its name in DATA, on one page; then judges side by side:
        footfall bench all --data DATA/ --judge runs/train-…/model
        footfall bench compare runs/bench-… runs/bench-…

    Every labelling method at several budgets on worlds whose truth is known, by cost and quality:
        footfall bench labels --option worlds=arithmetic,logic seeds=5 traces=100

    Every search method, accuracy against tokens, with judges of known quality:
        footfall bench search --option worlds=arithmetic judges=exact,noisy seeds=3 problems=20

    A report names threshold and its policy, protocol, data revision, judge and cost; it is in the run's report.json and
    report.html.
    """

    name: Positional[str]
    """A name of `footfall list benchmark`, all, compare, labels, or search."""
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
    run: RunOptions = field(default_factory=RunOptions)


def main(config: BenchConfig) -> int:
    """Measure and report."""
    if config.threshold is not None and config.tune_on is not None:
        raise ValueError("--threshold fixes a threshold and --tune-on chooses one: pass one of them")
    if isinstance(config.threshold, float) and not math.isfinite(config.threshold):
        raise ValueError(f"--threshold {config.threshold}: a finite number is needed")
    if config.reading.skip_bad and config.name != "steps":
        raise ValueError(
            "--skip-bad is for `footfall bench steps`: figures on another benchmark are of all its records"
        )
    if config.name == "compare":
        from footfall.commands._bench_compare import run_compare

        return run_compare(config)
    if config.runs:
        raise ValueError(f"{config.runs[0]}: only `footfall bench compare` takes runs; data is named by --data")
    if config.name == "all":
        from footfall.commands._bench_all import run_all

        return run_all(config)
    if config.name == "labels":
        from footfall.commands._bench_labels import run_labels

        return run_labels(config)
    if config.name == "search":
        from footfall.commands._bench_search import run_search

        return run_search(config)
    return _run_one(config)


def _run_one(config: BenchConfig) -> int:
    from footfall.commands._bench_run import make_benchmark, make_judge, measure_in_run
    from footfall.commands._bench_show import show_one

    load("benchmark", config.name)
    benchmark = make_benchmark(config)
    view, result, folder = measure_in_run(config, benchmark, make_judge(config))
    emit(result, config.run.json, lambda console: show_one(console, view, folder))
    return 0
