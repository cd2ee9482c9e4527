"""`footfall label`: traces in, judged steps out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.console import Console

from footfall.commands._judges import JudgeInRun, asks, make_judge, offers
from footfall.commands._options import PolicyOptions, RunOptions, SamplingOptions
from footfall.commands._output import emit, facts, next_command, spent
from footfall.commands._parts import settings
from footfall.commands._running import open_run
from footfall.types import Judge, Judged

__all__ = ["LabelConfig", "main"]


@dataclass(frozen=True)
class LabelConfig:
    """Label the steps of traces: an expensive judge makes the data that a PRM is trained on.

    Monte Carlo labels (Math-Shepherd): complete each prefix 8 times and count the right answers.
        footfall label --data runs/sample-…/trajectories.parquet --policy embedded --rollouts 8

    Stop at each trace's first error, and spend no more rollouts on a step than its interval needs:
        footfall label --data traces.jsonl --policy embedded --until first-error --rollouts 32 --half-width 0.15

    The truth itself, where the problems are of the arithmetic world:
        footfall label --data runs/sample-…/trajectories.parquet --method truth-arithmetic

    The run directory holds the rows in judged.parquet; `footfall train` reads it. A step that could not be judged has
    no label, and the summary says why.
    """

    data: str
    """Traces in any supported format (`footfall list format`) or Parquet; - is standard input."""
    method: str = "monte-carlo"
    """A judge: a name of `footfall list labeller`, or the folder of a trained PRM."""
    format: str = "auto"
    """The format of the data; auto knows it by the first record."""
    rollouts: int | None = None
    """Completions of each prefix; monte-carlo's own is 8."""
    estimate: Literal["soft", "hard"] | None = None
    """soft: the share of right answers; hard: 1 if there was any; monte-carlo's own is soft."""
    until: Literal["all", "first-error"] | None = None
    """first-error leaves the steps after the first worthless one without a label; monte-carlo's own is all."""
    half_width: float | None = None
    """Stop a step's rollouts once its 95% interval is this narrow on either side."""
    set: tuple[str, ...] = ()
    """Further settings of the method, e.g. --set consequent=0.5."""
    chunk: int = 16
    """Traces between two savings."""
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: LabelConfig) -> int:
    """Judge, keep the rows and report."""
    from footfall.formats import read, write_parquet

    trajectories = [row.trajectory for row in read(config.data, config.format)]
    if not trajectories:
        raise ValueError(f"{config.data}: there is no trace in it")
    judge = _judge(config)
    with open_run("label", config) as run:
        said = JudgeInRun(run, judge, config.chunk).judge(trajectories)
        rows = [Judged(t, judgement) for t, judgement in zip(trajectories, said, strict=True)]
        file = run.folder / "judged.parquet"
        write_parquet(file, rows, "judged")
        result = {**_summary(rows), "judge": judge.name, "file": str(file), "cost": run.cost.to_dict(),
                  "seconds": run.seconds()}  # fmt: skip
        run.finish(result)
        emit(result, config.run.json, lambda console: _show(console, result, spent(run.cost, run.seconds())))
    return 0


def _judge(config: LabelConfig) -> Judge:
    """The method with the options that were given; one that it does not take is an error."""
    own = ("rollouts", "estimate", "until", "half_width")
    asked = {name: getattr(config, name) for name in own if getattr(config, name) is not None}
    drawing = (config.policy, config.sampling, config.run.seed)
    return make_judge(config.method, {**asked, **asks(*drawing), **settings(config.set)}, offers(*drawing))


def _summary(rows: Sequence[Judged]) -> dict[str, Any]:
    said = [judgement for _, judgement in rows if judgement is not None]
    values = [value for judgement in said for value in judgement.values]
    known = [value for value in values if value is not None]
    reasons = Counter(
        (j.failures[k] if j.failures else None) or "no reason given"
        for j in said for k, value in enumerate(j.values) if value is None
    )  # fmt: skip
    return {
        "traces": len(rows),
        "steps": len(values),
        "labelled": len(known),
        "unlabelled": dict(reasons.most_common()),
        "mean_label": sum(known) / len(known) if known else None,
    }


def _show(console: Console, result: dict[str, Any], cost: str) -> None:
    mean = result["mean_label"]
    facts(console, {
        "judge": result["judge"],
        "labelled": f"{result['labelled']} of {result['steps']} steps in {result['traces']} traces"
        + (f", mean label {mean:.3f}" if mean is not None else ""),
        "unlabelled": "; ".join(f"{count}: {reason}" for reason, count in result["unlabelled"].items()),
        "cost": cost,
        "file": result["file"],
    })  # fmt: skip
    next_command(console, "train", "--data", result["file"])
