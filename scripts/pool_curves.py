"""Every aggregation and vote on stored candidates, N = 1 … 32: 7B solutions with the step scores of published PRMs.

    python -m scripts.pool_curves --data DATA/best_of_n --out docs/pool_curves.json

At each N the accuracy is expected over random subsets of N of the 32 candidates (for best-of-N exactly, for votes over
`--drawn` of them), with a 95% bootstrap interval over problems; of all 32 also the lead of choices and weighted votes over the
majority, problem by problem. The JSON has all of it; printed is a table for each pool.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from footfall.benchmarks.best_of_n import Pool, read_pools
from footfall.metrics.intervals import Floats, Interval, bootstrap_mean, paired_difference
from footfall.metrics.preferences import best_of, sizes_up_to, subsets, vote_of
from footfall.search.votes import AGGREGATIONS, SIGNED, aggregate, frequency, hybrid, pass_at_k

PAIRS = (
    ("math500_500x32", "qwen_prm_math500", "MATH-500, Qwen2.5-Math-PRM-7B"),
    ("gsm8k_500x32", "qwen_prm_gsm8k", "GSM8K, Qwen2.5-Math-PRM-7B"),
    ("gsm8k_500x32", "math_shepherd_gsm8k", "GSM8K, Math-Shepherd-Mistral-7B-PRM"),
)
FOLDS = tuple(how for how in AGGREGATIONS if how not in SIGNED)
"""Aggregations that a vote can be weighted by."""
Scores = list["float | None"]
Rule = Callable[[int, int], float]
"""Accuracy on problem p with n candidates."""
Accuracies = dict[str, dict[int, Floats]]
"""By rule and N, on each problem; what has none is NaN."""
Curves = dict[str, dict[str, list[float]]]
LED = ("best of N", "weighted vote")
"""Families of rules that are held against the majority problem by problem."""
LEADS = "− majority"


class Scored(NamedTuple):
    """A problem's candidates and, by aggregation, their scores."""

    pool: Pool
    scores: dict[str, Scores]


def read_scored(data: Path, pool_name: str, scores_name: str) -> list[Scored]:
    """Pools joined with the step scores by problem and candidate index; a candidate without scores is an error."""
    with gzip.open(data / "step_scores" / f"{scores_name}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    values = {(row["problem_id"], row["candidate_index"]): row["step_scores"] for row in rows}
    scored = []
    for pool in read_pools(data / f"{pool_name}.jsonl.gz"):
        steps = [values[case.trajectory.problem.id, k] for k, case in enumerate(pool.cases)]
        scored.append(Scored(pool, {how: [aggregate(row, how) for row in steps] for how in FOLDS}))
    return scored


def rules(given: Sequence[Scored], drawn: int, seed: int) -> dict[str, Rule]:
    """All ways to choose, by name."""

    def voted(p: int, n: int, weights: Scores) -> float:
        pool = given[p].pool
        inside_SM = subsets(len(pool.cases), n, drawn, seed)
        return vote_of(inside_SM, pool.answers, weights, pool.correct)

    def mixed(p: int, n: int, how: str, choose: Callable[..., Any]) -> float:
        pool, scores = given[p].pool, given[p].scores[how]
        names = [None if g is None else f"answer {g}" for g in pool.answers]
        right = []
        for inside in subsets(len(pool.cases), n, drawn, seed):
            members = np.flatnonzero(inside).tolist()
            winner = choose([names[i] for i in members], [scores[i] for i in members], domain="text").winner
            right.append(winner is not None and pool.correct[members[winner]])
        return float(np.mean(right))

    def one(p: int, n: int) -> float:
        return sum(given[p].pool.correct) / len(given[p].pool.correct)

    found: dict[str, Rule] = {"one sample": one}
    found["majority"] = lambda p, n: voted(p, n, [1.0] * len(given[p].pool.cases))
    for how in FOLDS:
        found[f"best of N, {how}"] = lambda p, n, how=how: best_of(given[p].scores[how], given[p].pool.correct, n)  # type: ignore[misc]
    for how in FOLDS:
        found[f"weighted vote, {how}"] = lambda p, n, how=how: voted(p, n, given[p].scores[how])  # type: ignore[misc]
    for how in FOLDS:
        found[f"hybrid vote, {how}"] = lambda p, n, how=how: mixed(p, n, how, hybrid)  # type: ignore[misc]
    for how in FOLDS:
        found[f"frequency vote, {how}"] = lambda p, n, how=how: mixed(p, n, how, frequency)  # type: ignore[misc]
    found["any right"] = lambda p, n: pass_at_k(len(given[p].pool.cases), sum(given[p].pool.correct), n)
    return found


def accuracies(given: Sequence[Scored], drawn: int, seed: int, families: tuple[str, ...] = ("",)) -> Accuracies:
    """Of the rules whose names begin like one of these."""
    ns = sizes_up_to(min(len(scored.pool.cases) for scored in given))
    found = {}
    for name, rule in rules(given, drawn, seed).items():
        if name.startswith(families):
            found[name] = {n: np.asarray([rule(p, n) for p in range(len(given))]) for n in ns}
            sys.stderr.write(f"{name}: {[round(float(np.nanmean(each)), 4) for each in found[name].values()]}\n")
    return found


def curves(found: Accuracies, seed: int) -> Curves:
    """rule -> N -> accuracy with its interval."""
    return {
        name: {str(n): _rounded(bootstrap_mean(each[np.isfinite(each)], seed)) for n, each in by_n.items()}
        for name, by_n in found.items()
    }


def leads(found: Accuracies, seed: int) -> dict[str, list[float]]:
    """rule -> accuracy less that of the majority on the same problems, with all candidates, of choices and weighted votes."""
    most = max(found["majority"])
    return {
        name: _rounded(_paired(by_n[most], found["majority"][most], seed))
        for name, by_n in found.items() if name.startswith(LED)
    }  # fmt: skip


def _paired(first: Floats, second: Floats, seed: int) -> Interval:
    known = np.isfinite(first) & np.isfinite(second)
    return paired_difference(first[known], second[known], seed)


def _rounded(found: Interval) -> list[float]:
    return [round(x, 4) for x in (found.value, found.low, found.high)]


def table(shown: dict[str, dict[str, list[float]]]) -> str:
    """Percentages by rule and N, with their intervals."""
    ns = list(next(iter(shown.values())))
    lines = [f"| accuracy in percent | {' | '.join(f'N = {n}' for n in ns)} |", f"|---|{'---:|' * len(ns)}"]
    for name, by_n in shown.items():
        figures = [[100 * figure for figure in by_n[n]] for n in ns]
        lines.append(
            f"| {name} | {' | '.join(f'{value:.1f} [{low:.1f}, {high:.1f}]' for value, low, high in figures)} |"
        )
    return "\n".join(lines) + "\n"


def tables(report: Mapping[str, Any]) -> str:
    """All pools, each under its name."""
    return "\n".join(f"**{title}**\n\n{table(shown)}" for title, shown in report["pools"].items())


def main(given: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder best_of_n")
    parser.add_argument("--out", type=Path, help="JSON with all figures")
    parser.add_argument("--drawn", type=int, default=32, help="subsets a vote is averaged over")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="problems of each pool, to try the script out")
    args = parser.parse_args(given)
    report: dict[str, Any] = {"drawn": args.drawn, "seed": args.seed, "pools": {}, LEADS: {}}
    pools: dict[str, list[Pool]] = {}
    for pool_name, scores_name, title in PAIRS:
        scored = read_scored(args.data, pool_name, scores_name)[: args.limit]
        # Equal answers are found once a pool, whoever scored it.
        known = pools.setdefault(pool_name, [each.pool for each in scored])
        scored = [Scored(pool, each.scores) for pool, each in zip(known, scored, strict=True)]
        found = accuracies(scored, args.drawn, args.seed)
        report["pools"][title], report[LEADS][title] = curves(found, args.seed), leads(found, args.seed)
    sys.stdout.write(tables(report))
    if args.out is not None:
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    main()
