"""`footfall sample`: problems in, graded traces out."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from footfall.commands._options import (
    PolicyOptions,
    RayOptions,
    ReadOptions,
    RunOptions,
    SamplingOptions,
    StoreOptions,
)
from footfall.commands._output import NOTHING, emit, facts, next_command, spent
from footfall.commands._parts import Opener, check_drawing, found_in_words, separator_of
from footfall.commands._running import open_run, ray_workers, tried_again
from footfall.commands._sources import read_many_problems
from footfall.drive.rollout_store import StoredPolicy
from footfall.formats import Mapped, write_parquet
from footfall.policy.protocol import Policy, Run, finished, sample_runs
from footfall.registry import serving
from footfall.reports.pages import limited_in_words
from footfall.store import Run as Store
from footfall.store import Task
from footfall.types import Trajectory, content_key, problem_rest


@dataclass(frozen=True)
class SampleConfig:
    """Sample traces: a policy writes N solutions to each problem, and their answers are graded.

    Try it, with the model that ships with the package and problems of the arithmetic world:
        footfall sample --problems world:arithmetic:64 --n 8

    Your own problems, and a model that vLLM or another OpenAI-compatible server runs:
        footfall sample --problems problems.jsonl --policy http --url http://localhost:8000/v1 --mode chat

    The run directory holds the graded traces in trajectories.parquet; `footfall label` reads it. Traces whose call failed are
    counted, and the same command line again asks for just these.
    """

    problems: str
    """A file of problems ({"problem": …, "answer": …} a line, GSM8K, MATH, …) or world:arithmetic:N[:SPLIT], of the
    split train unless another is named."""
    n: int = 8
    """Traces a problem."""
    chunk: int = 16
    """Problems between two savings."""
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    store: StoreOptions = field(default_factory=StoreOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)
    ray: RayOptions = field(default_factory=RayOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: SampleConfig) -> int:
    """Sample, grade and report."""
    config = replace(config, policy=config.policy.resolved(serving("policy")))
    if config.n < 1:
        raise ValueError(f"--n {config.n}: at least one trace a problem is needed")
    check_drawing(config.policy, config.sampling)
    problems = read_many_problems(config.problems, config.run.seed, "train", config.reading)
    separator = separator_of(config.policy)
    prefixes = Mapped(lambda problem: Trajectory(problem.id, problem, separator=separator), problems.rows)
    store = config.store.folder()
    opener = Opener(store)
    policy = opener(config.policy)
    with (
        ray_workers(config.ray, partial(_task, config, store and store.absolute())) as workers,
        open_run("sample", config, workers=workers) as run,
    ):
        drawn = _drawn(run, policy, prefixes, config)
        file = run.folder / "trajectories.parquet"
        write_parquet(file, (t for t in drawn if "error" not in t.meta), "trajectory")
        result = {**_summary(drawn, len(prefixes), config.run.seed), **problems.limited, "policy": policy.name,
                  "file": str(file), "cost": run.cost.to_dict(), "seconds": run.seconds()}  # fmt: skip
        run.finish(result)
        result = {**result, "store": opener.found(workers)}
        run.log("store", found=result["store"])
        emit(result, config.run.json, lambda console: _show(console, result, config, spent(run.cost, run.seconds())))
    return 0 if _any_written(result) else NOTHING


def _any_written(result: Mapping[str, Any]) -> bool:
    return bool(sum(result["failed"].values()) < result["traces"])


def _task(config: SampleConfig, store: Path | None) -> Task:
    """What a worker does with a chunk of problems."""
    opener = Opener(store)
    return replace(_drawing(opener(config.policy), config), counts=opener.counts)


def _drawing(policy: Policy, config: SampleConfig) -> Task:
    """What a run does with a chunk of problems, in this process or in a worker."""
    params = config.sampling.params(config.run.seed)

    def work(part: Sequence[Run]) -> list[Trajectory]:
        rows = zip(part, sample_runs(policy, part, params), strict=True)
        drawn = [finished(own.prefix, completion, policy.name) for own, row in rows for completion in row]
        return [replace(t, cost=replace(t.cost, seconds=0.0)) for t in drawn]  # times stand in the log alone

    return Task(work, "trajectory", (policy,))


def _drawn(run: Store, policy: Policy, prefixes: Sequence[Trajectory], config: SampleConfig) -> Sequence[Trajectory]:
    """All traces. Those whose call failed in an earlier start are asked for again."""
    n, task = config.n, _drawing(policy, config)

    def key(asked: Run) -> str:
        rest = problem_rest(asked.prefix.problem)
        plain = (asked.prefix.key, asked.prefix.problem.answer, *([rest] if rest else []))
        return content_key(*plain, *(() if asked.n == n else (asked.first,)))

    def asked(stage: str, runs: Sequence[Run], chunk: int, per_item: int) -> Sequence[Trajectory]:
        return run.kept(
            stage, runs, len(runs), task, per_item, key=key, chunk=chunk, made_by=policy.name,
            shared=(lambda own: own.prefix.key) if isinstance(policy, StoredPolicy) else None,
        )  # fmt: skip

    def ask(stage: str, places: Sequence[int]) -> Sequence[Trajectory]:
        runs = Mapped(lambda place: Run(prefixes[place // n], 1, place % n), places)
        return asked(stage, runs, config.chunk * n, 1)

    drawn = asked("traces", Mapped(lambda prefix: Run(prefix, n), prefixes), config.chunk, n)
    return tried_again(run, drawn, lambda trace: "error" in trace.meta, ask)


def _summary(drawn: Iterable[Trajectory], problems: int, seed: int) -> dict[str, Any]:
    """The traces of a problem, whose id no other has, lie together."""
    from footfall.metrics.intervals import share_right

    rates = array("d")
    failed: Counter[str] = Counter()
    traces = steps = cut = 0
    for _, own in groupby(drawn, key=lambda t: t.problem.id):
        graded = right = 0
        for t in own:
            traces, steps, cut = traces + 1, steps + len(t.steps), cut + (t.meta.get("finish") == "length")
            if t.correct is not None:
                graded, right = graded + 1, right + t.correct
            if "error" in t.meta:
                failed[str(t.meta["error"])] += 1
        if graded:
            rates.append(right / graded)
    accuracy = share_right(rates, seed) if rates else None
    return {
        "problems": problems,
        "traces": traces,
        "steps": steps,
        "accuracy": accuracy and {"value": accuracy.value, "ci95": [accuracy.low, accuracy.high]},
        "cut": cut,
        "failed": dict(failed),
    }


def _show(console: Console, result: dict[str, Any], config: SampleConfig, cost: str) -> None:
    accuracy = result["accuracy"]
    shown = accuracy and f"{accuracy['value']:.1%} [{accuracy['ci95'][0]:.1%}, {accuracy['ci95'][1]:.1%}] of traces"
    problems = limited_in_words(result, "problems") or f"{result['problems']} problems"
    unknown = "the problems have no reference answers"
    if not _any_written(result):
        unknown = f"all {result['traces']} calls failed, the first one: {next(iter(result['failed']))}"
    facts(console, {
        "traces": f"{result['traces']} for {problems}, {result['steps']} steps",
        "right": shown or f"not known: {unknown}",
        "cut": f"{result['cut']} at --max-tokens {config.sampling.max_tokens}" if result["cut"] else None,
        "failed": _failed(result["failed"]),
        "cost": cost,
        "store": found_in_words(result["store"]),
        "file": result["file"],
    })  # fmt: skip
    if _any_written(result):
        next_command(
            console, "label", "--method", serving("labeller"), "--data", Path(result["file"]), *config.policy.flags()
        )


def _failed(reasons: Mapping[str, int]) -> str:
    told = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
    return f"{told}; the same command line tries again" if told else ""
