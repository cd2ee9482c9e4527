"""`footfall search`: a policy and a judge together answer problems."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from footfall.commands._judges import judge_name, offers, open_judge
from footfall.commands._options import JudgeOptions, PolicyOptions, RunOptions, SamplingOptions
from footfall.commands._output import emit, facts, figures, spent
from footfall.commands._parts import make_part, open_policy, separator_of
from footfall.commands._running import open_run
from footfall.commands._sources import read_source
from footfall.policy.protocol import Policy
from footfall.registry import load
from footfall.search.aggregate import Aggregation
from footfall.types import Judge, Problem, Searcher, SearchResult, content_key

__all__ = ["SearchConfig", "main"]


@dataclass(frozen=True)
class SearchConfig:
    """Answer problems with more computation: draw N solutions, let a judge value them, choose one answer.

    PRM-weighted vote over 16 samples on held-out problems of the arithmetic world, then the majority vote beside it:
        footfall search --problems world:arithmetic:100 --judge runs/train-…/model --n 16
        footfall search --problems world:arithmetic:100 --method majority --n 16

    Any judge can guide the search; with the truth as judge it shows how far choosing can go:
        footfall search --problems world:arithmetic:100 --method best-of-n --judge truth-arithmetic --aggregate last

    The run directory holds every candidate with its judgement in results.parquet.
    """

    problems: str
    """A file of problems, or world:arithmetic:N[:SPLIT], of the split test unless another is named."""
    method: str = "weighted-vote"
    """A name of `footfall list searcher`."""
    n: int = 16
    """Candidates a problem."""
    aggregate: Aggregation = "min"
    """How a candidate's step values become its score."""
    chunk: int = 16
    """Problems between two savings."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    policy: PolicyOptions = field(default_factory=lambda: PolicyOptions(policy="embedded"))
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    run: RunOptions = field(default_factory=RunOptions)


def main(config: SearchConfig) -> int:
    """Search, keep all candidates and report."""
    from footfall.formats import write_parquet

    judged = _is_judged(config)
    problems = read_source(config.problems, config.run.seed, "test")
    policy = open_policy(config.policy)
    judge = _judge(config, policy) if judged else None
    searcher = _searcher(config, policy, judge)
    with open_run("search", config) as run:
        made_by = content_key(config.method, policy.name, judge.name if judge else None, config.n, config.aggregate)
        results = run.map(
            "results", problems, searcher.solve, key=_problem_key, kind="search-result", chunk=config.chunk,
            made_by=made_by, forgetful=(policy, judge),
        )  # fmt: skip
        file = run.folder / "results.parquet"
        write_parquet(file, results, "search-result")
        result = {
            "method": config.method, "n": config.n, "aggregate": config.aggregate, "policy": policy.name,
            "judge": judge.name if judge else None, **_summary(results, config.run.seed), "file": str(file),
            "cost": run.cost.to_dict(), "seconds": run.seconds(),
        }  # fmt: skip
        run.finish(result)
        emit(result, config.run.json, lambda console: _show(console, result, spent(run.cost, run.seconds())))
    return 0


def _is_judged(config: SearchConfig) -> bool:
    """Whether there is a judge: a method that can do without (a majority vote) has one only if it is named."""
    wanted = inspect.signature(load("searcher", config.method)).parameters.get("judge")
    needed = wanted is not None and wanted.default is wanted.empty
    return bool(judge_name(config.judge)) if needed else config.judge.judge is not None


def _judge(config: SearchConfig, policy: Policy) -> Judge:
    offered = {**offers(config.policy, config.sampling, config.run.seed), "policy": policy}
    return open_judge(config.judge, {}, offered)


def _searcher(config: SearchConfig, policy: Policy, judge: Judge | None) -> Searcher:
    asked = {"policy": policy, "n": config.n}
    offered = {
        "aggregation": config.aggregate,
        "params": config.sampling.params(config.run.seed),
        "separator": separator_of(config.policy),
        "seed": config.run.seed,
        **({} if judge is None else {"judge": judge}),
    }
    made: Searcher = make_part("searcher", config.method, asked, offered)
    return made


def _problem_key(problem: Problem) -> str:
    return content_key(problem.id, problem.text, problem.answer)


def _summary(results: Sequence[SearchResult], seed: int) -> dict[str, Any]:
    """Accuracies over the problems that have a reference answer and did not fail."""
    from footfall.bench.intervals import bootstrap_mean

    verdicts = {r.problem.id: _verdicts(r) for r in results if r.problem.answer is not None}
    decided = [v for v in verdicts.values() if v["chosen"] is not None]
    accuracy = {}
    for name in ("single", "chosen", "oracle") if decided else ():
        mean = bootstrap_mean([float(v[name] or 0) for v in decided], seed)
        accuracy[name] = {"value": mean.value, "ci95": [mean.low, mean.high]}
    return {
        "problems": len(results),
        "decided": len(decided),
        "accuracy": accuracy,
        "failed": {r.problem.id: r.failure for r in results if r.failure is not None},
    }


def _verdicts(result: SearchResult) -> dict[str, float | None]:
    """How right the choice, one sample and the best sample are. A problem that the policy or the judge failed on is
    not a wrong answer; one to which no sample gave an answer is."""
    drawn = [t for t, _ in result.candidates if "error" not in t.meta]
    right = [bool(t.correct) for t in drawn]
    unanswered = bool(drawn) and all(t.answer is None for t in drawn)
    chosen = None if result.chosen is None else float(bool(result.chosen.correct))
    single = sum(right) / len(right) if right else None
    return {"chosen": 0.0 if unanswered else chosen, "single": single, "oracle": float(any(right))}


def _show(console: Console, result: dict[str, Any], cost: str) -> None:
    names = {
        "single": "one sample",
        "chosen": f"{result['method']} of {result['n']}",
        "oracle": "oracle (best possible)",
    }
    rows = [
        [names[name], f"{a['value']:.1%}", f"[{a['ci95'][0]:.1%}, {a['ci95'][1]:.1%}]"]
        for name, a in result["accuracy"].items()
    ]
    if rows:
        figures(console, [["", "right", "95% interval"], *rows])
    facts(console, {
        "problems": f"{result['problems']}, accuracy over {result['decided']}",
        "failed": "".join(f"\n  {name}: {why}" for name, why in list(result["failed"].items())[:10]),
        "judge": result["judge"],
        "aggregate": result["aggregate"],
        "cost": cost,
        "file": result["file"],
    })  # fmt: skip
