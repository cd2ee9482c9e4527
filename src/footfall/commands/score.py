"""`footfall score`: traces in, a value for each step out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from tyro.conf import Positional

from footfall.commands._judges import JudgeInRun, asks, judge_name, judging, offers, open_judge
from footfall.commands._options import (
    JudgeOptions,
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
)
from footfall.commands._output import emit, facts, note, spent
from footfall.commands._reasons import counted
from footfall.commands._running import open_run, ray_workers, run_folder
from footfall.commands._sources import read_many
from footfall.commands.show import JUDGE_GIVEN, print_trace
from footfall.formats import Mapped, write
from footfall.hashing import checksum
from footfall.judging import traits
from footfall.reports.pages import Named, limited_in_words
from footfall.search.votes import Aggregation, aggregate
from footfall.store import Run, Task
from footfall.terminal import telling
from footfall.types import Cost, Judge, Judged, Judgement, Trajectory, content_key_of

_THRESHOLD = 0.5
"""Of a judge that declares none."""
_FOR_SHOW = ("aggregate", "threshold", "show", "to", "chunk")
"""Options that do not decide what the judge says."""
_NOT_OURS = "--to {} is already there, and this run did not write it; pass --fresh to write over it"


@dataclass(frozen=True)
class ScoreConfig:
    """Score traces step by step, with a trained PRM or any other judge.

    A trace of your own is one line of JSON:
        echo '{"problem": "2 + 3 * 4 = ?", "steps": ["3 * 4 = 12", "2 + 12 = 15"]}' | footfall score

    With the PRM that `footfall train` wrote, all values to a file:
        footfall score traces.jsonl --judge runs/train-…/model --to scored.jsonl

    With any registered judge (`footfall list labeller`):
        footfall score traces.jsonl --judge monte-carlo --policy embedded --set rollouts=16

    Without --judge, the PRM of `footfall demo` is used if runs/demo is here. Judgements are kept in a run directory, so
    that scoring a large file can be stopped and goes on with the same command line.
    """

    data: Positional[str] = "-"
    """Traces in any supported format (`footfall list format`) or Parquet; - is standard input."""
    format: str = "auto"
    """The format of the data; auto knows it by the first record."""
    aggregate: Aggregation = "min"
    """How a trace's step values become one."""
    threshold: float | None = None
    """A step valued below is an error; the first one is marked. None: the judge's own where it declares one, else 0.5."""
    show: int = 20
    """Traces to print; --json and --to give all."""
    to: Path | None = None
    """Also write the judged traces to this file: .parquet, or .jsonl with every field."""
    chunk: int = 64
    """Traces between two savings."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: ScoreConfig) -> int:
    """Judge, print, and write where asked."""
    _check_file(config)
    judge_name(config.judge)  # an error about the judge should not wait for the data
    if config.data == "-" and sys.stdin.isatty():
        note("reading traces from standard input; end with Ctrl-D")
    given = read_many(config.data, config.format, config.reading)
    if not given.rows:
        raise ValueError(f"{config.data}: there is no trace in it")
    judge = _judge(config)
    own = traits(judge).threshold
    asked = [(config.threshold, "given"), (own, "the judge's own"), (_THRESHOLD, "usual")]
    threshold, policy = next((value, whose) for value, whose in asked if value is not None)
    with (
        ray_workers(config.ray, partial(_task, config)) as workers,
        open_run("score", config, {"chunk": config.chunk}, for_show=_FOR_SHOW, workers=workers) as run,
    ):
        claim = _claim_file(config, run, given.rows)
        said = JudgeInRun(run, judge, config.chunk).kept(given.rows)
        judged = Mapped(Judged, given.rows, said)
        _write(config.to, judged, judge_name(config.judge))
        if config.to is not None:
            run.log("to", **claim, checksum=checksum(config.to))
        result = {
            "judge": judge.name,
            "judge_given": judge_name(config.judge),
            "aggregate": config.aggregate,
            "threshold": threshold,
            "threshold_policy": policy,
            **given.limited,
            "rows": Mapped(partial(_row, config.aggregate, threshold), said),
            "unjudged": counted(
                (said.failure(k), trace.problem)
                for trace, said in judged for k, value in enumerate(said.values if said else ()) if said and value is None
            ),
            "cost": Cost.total(each.cost for each in said).to_dict(),
        }  # fmt: skip
        run.finish(result)
    emit(result, config.run.json, lambda console: _show(console, config, judged, result))
    return 0


def _judge(config: ScoreConfig) -> Judge:
    drawing = (config.policy, config.sampling, config.run.seed)
    return open_judge(config.judge, asks(*drawing), offers(*drawing))


def _task(config: ScoreConfig) -> Task:
    """What a worker does with a chunk of traces."""
    return judging(_judge(config))


def _check_file(config: ScoreConfig) -> None:
    """Before any work is done."""
    folder, file = run_folder("score", config, _FOR_SHOW), config.to
    if file is None:
        return
    if not file.name.endswith((".parquet", ".jsonl", ".jsonl.gz")):
        raise ValueError(f"--to {file}: a file that ends in .jsonl, .jsonl.gz or .parquet is expected")
    if config.data != "-" and file.resolve() == Path(config.data).resolve():
        raise ValueError(f"--to {file} is the data that are scored; name another file")
    if file.exists() and not folder.exists() and not config.run.fresh:
        raise ValueError(_NOT_OURS.format(file))


def _claim_file(config: ScoreConfig, run: Run, trajectories: Sequence[Trajectory]) -> dict[str, str]:
    """Note that this run writes --to; a file that is there already must be what an earlier start wrote of these traces: there,
    or elsewhere, from where it was moved or copied with the run."""
    if config.to is None:
        return {}
    claim = {"file": str(config.to.absolute()), "traces": content_key_of([t.id, t.key] for t in trajectories)}
    if config.to.exists() and not run.fresh:
        wrote = [event for event in run.logged("to") if event.get("traces") == claim["traces"]]
        if all(event.get("file") != claim["file"] for event in wrote):
            sums = {event["checksum"] for event in wrote if "checksum" in event}
            if not sums or checksum(config.to) not in sums:
                raise ValueError(_NOT_OURS.format(config.to))
    run.log("to", **claim)
    return claim


def _write(file: Path | None, judged: Sequence[Judged], given: str) -> None:
    """The scored traces; where the judge's name is one by content, with the name that the user typed."""

    def named(trace: Trajectory, said: Judgement | None) -> Judged:
        if said is not None and said.judge != given:
            trace = replace(trace, meta={**trace.meta, JUDGE_GIVEN: given})
        return Judged(trace, said)

    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = telling("written", (named(*row) for row in judged), len(judged))
        write(file, rows, "parquet" if file.suffix == ".parquet" else "jsonl")


def _row(way: Aggregation, threshold: float, said: Judgement) -> dict[str, Any]:
    """`failures`, one entry a step, only where a step has no value: why not, as files keep it."""
    why = {"failures": [reason and reason.stored for reason in said.failures]} if any(said.failures) else {}
    return {
        "id": said.trajectory_id,
        "values": list(said.values),
        **why,
        "aggregate": aggregate(said.values, way),
        "first_error": said.first_below(threshold),
    }


def _show(console: Console, config: ScoreConfig, judged: Sequence[Judged], result: dict[str, Any]) -> None:
    for row in judged[: config.show]:
        assert row.judgement is not None
        print_trace(console, row, result["threshold"], 90)
        whole = aggregate(row.judgement.values, config.aggregate)
        console.print(f"     {config.aggregate} {'–' if whole is None else f'{whole:.3f}'}\n")
    facts(console, {
        "traces": (limited_in_words(result, "traces") or f"{len(judged)}")
        + (f", the first {config.show} shown" if len(judged) > config.show else ""),
        "judge": Named(result["judge_given"], result["judge"]),
        "threshold": f"{result['threshold']:.4g} ({result['threshold_policy']})",
        "unjudged": "; ".join(f"{count} steps: {reason}" for reason, count in result["unjudged"].items()) or None,
        "cost": spent(Cost(**result["cost"])),
        "file": config.to,
    })  # fmt: skip
