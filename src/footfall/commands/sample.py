"""`footfall sample`: problems in, graded traces out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from footfall.commands._options import PolicyOptions, ReadOptions, RunOptions, SamplingOptions, StoreOptions
from footfall.commands._output import NOTHING, emit, facts, next_command, spent
from footfall.commands._parts import Opener, check_drawing, found_in_words, separator_of
from footfall.commands._running import open_run
from footfall.commands._sources import read_source
from footfall.policy.protocol import Policy, Run, finished, sample_runs
from footfall.registry import serving
from footfall.reports.pages import limited_in_words
from footfall.store import Run as Store
from footfall.types import Trajectory, content_key


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
    run: RunOptions = field(default_factory=RunOptions)


def main(config: SampleConfig) -> int:
    """Sample, grade and report."""
    from footfall.formats import write_parquet

    config = replace(config, policy=config.policy.resolved(serving("policy")))
    if config.n < 1:
        raise ValueError(f"--n {config.n}: at least one trace a problem is needed")
    check_drawing(config.policy, config.sampling)
    problems = read_source(config.problems, config.run.seed, "train", config.reading)
    separator = separator_of(config.policy)
    prefixes = [Trajectory(problem.id, problem, separator=separator) for problem in problems]
    opener = Opener(config.store.folder())
    policy = opener(config.policy)
    with open_run("sample", config) as run:
        drawn = _drawn(run, policy, prefixes, config)
        file = run.folder / "trajectories.parquet"
        write_parquet(file, [t for t in drawn if "error" not in t.meta], "trajectory")
        result = {**_summary(drawn, len(problems), config.run.seed), **problems.limited, "policy": policy.name,
                  "file": str(file), "cost": run.cost.to_dict(), "seconds": run.seconds()}  # fmt: skip
        run.finish(result)
        result = {**result, "store": opener.found()}
        run.log("store", found=result["store"])
        emit(result, config.run.json, lambda console: _show(console, result, config, spent(run.cost, run.seconds())))
    return 0 if _any_written(result) else NOTHING


def _any_written(result: Mapping[str, Any]) -> bool:
    return bool(sum(result["failed"].values()) < result["traces"])


def _drawn(run: Store, policy: Policy, prefixes: Sequence[Trajectory], config: SampleConfig) -> list[Trajectory]:
    """All traces. Those whose call failed in an earlier start are asked for again, once a start, in a stage of their own."""
    n, params, worked = config.n, config.sampling.params(config.run.seed), False

    def work(part: Sequence[Run]) -> list[Trajectory]:
        nonlocal worked
        worked = True
        rows = zip(part, sample_runs(policy, part, params), strict=True)
        drawn = [finished(own.prefix, completion, policy.name) for own, row in rows for completion in row]
        return [replace(t, cost=replace(t.cost, seconds=0.0)) for t in drawn]  # times stand in the log alone

    def key(asked: Run) -> str:
        plain = (asked.prefix.key, asked.prefix.problem.answer)
        return content_key(*plain, *(() if asked.n == n else (asked.first,)))

    found = run.map(
        "traces", [Run(prefix, n) for prefix in prefixes], work, key=key, kind="trajectory", chunk=config.chunk, per_item=n,
        made_by=policy.name, forgetful=(policy,),
    )  # fmt: skip
    stage = 0
    while not worked and (failed := [place for place, t in enumerate(found) if "error" in t.meta]):
        stage += 1
        again = run.map(
            f"retry-{stage}", [Run(prefixes[place // n], 1, place % n) for place in failed], work, key=key, kind="trajectory",
            chunk=config.chunk * n, made_by=policy.name, forgetful=(policy,),
        )  # fmt: skip
        for place, trace in zip(failed, again, strict=True):
            found[place] = trace
    return found


def _summary(drawn: Sequence[Trajectory], problems: int, seed: int) -> dict[str, Any]:
    from footfall.metrics.intervals import bootstrap_mean

    verdicts: dict[str, list[bool]] = {}
    for t in drawn:
        if t.correct is not None:
            verdicts.setdefault(t.problem.id, []).append(t.correct)
    accuracy = bootstrap_mean([sum(v) / len(v) for v in verdicts.values()], seed) if verdicts else None
    return {
        "problems": problems,
        "traces": len(drawn),
        "steps": sum(len(t.steps) for t in drawn),
        "accuracy": accuracy and {"value": accuracy.value, "ci95": [accuracy.low, accuracy.high]},
        "cut": sum(t.meta.get("finish") == "length" for t in drawn),
        "failed": dict(Counter(str(t.meta["error"]) for t in drawn if "error" in t.meta)),
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
