"""What a user can ask of `footfall bench`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from footfall.commands._options import JudgeOptions, PolicyOptions, ReadOptions, RunOptions, SamplingOptions, given


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


def refuse_unused(config: BenchConfig, said: str) -> None:
    """An option of measuring one judge that was given where it means nothing is an error that begins with `said`."""
    named = [name for name in ("data", "format", "scores", "threshold", "tune_on") if getattr(config, name) is not None]
    named += [name for group in (config.judge, config.policy, config.sampling) for name in given(group)]
    if named:
        raise ValueError(f"{said} --{named[0].replace('_', '-')}")
