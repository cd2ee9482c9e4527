"""Accuracy against N from candidates that were drawn once: at n, the FIRST n of each problem's candidates are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.search.aggregate import aggregate
from footfall.search.votes import best, group, leader, oracle, tally
from footfall.types import SearchResult

CURVE_RULES = ("single", "majority", "best", "weighted", "oracle")
"""`single` is the mean accuracy of one sample, `oracle` whether any of them is right."""


class Curve(NamedTuple):
    """`correct[rule][k, p]`: how right the rule is on problem p with `ns[k]` candidates (0 or 1; `single`: a share).

    Rows of two rules stand for the same problems and the same samples, so differences are paired.
    """

    ns: tuple[int, ...]
    correct: Mapping[str, npt.NDArray[np.float64]]

    def accuracy(self, rule: str) -> npt.NDArray[np.float64]:
        """The mean over problems at each n."""
        means: npt.NDArray[np.float64] = self.correct[rule].mean(axis=1)
        return means


def curve(
    results: Sequence[SearchResult],
    ns: Sequence[int],
    rules: Sequence[str] = CURVE_RULES,
    aggregation: str | None = None,
) -> Curve:
    """Accuracy per problem at each n and rule. `aggregation` rescores from the stored step values; else as searched."""
    unknown = sorted(set(rules) - set(CURVE_RULES))
    if unknown:
        raise ValueError(f"no rule is called {unknown[0]!r}; there are {', '.join(CURVE_RULES)}")
    if not results:
        raise ValueError("a curve needs at least one result")
    columns = [_problem_column(result, ns, rules, aggregation) for result in results]
    return Curve(tuple(ns), {rule: np.array([column[rule] for column in columns]).T for rule in rules})


def _problem_column(
    result: SearchResult, ns: Sequence[int], rules: Sequence[str], aggregation: str | None
) -> dict[str, list[float]]:
    have = len(result.candidates)
    if min(ns) < 1 or max(ns) > have:
        raise ValueError(f"problem {result.problem.id!r} has {have} candidates; n from {min(ns)} to {max(ns)} is asked")
    if result.problem.answer is None:
        raise ValueError(f"problem {result.problem.id!r} has no reference answer, so its accuracy is not known")
    scores = list(result.scores)
    if aggregation is not None:
        scores = [None if j is None else aggregate(j.values, aggregation) for _, j in result.candidates]
    pool = _Pool(
        [bool(t.correct) for t, _ in result.candidates],
        group([t.answer for t, _ in result.candidates], result.problem.domain),
        scores,
    )
    return {rule: [_correct(rule, pool.first(n)) for n in ns] for rule in rules}


class _Pool(NamedTuple):
    """One problem's candidates: verdicts, groups of equal answers, scores."""

    correct: list[bool]
    groups: list[int | None]
    scores: list[float | None]

    def first(self, n: int) -> _Pool:
        return _Pool(self.correct[:n], self.groups[:n], self.scores[:n])


def _correct(rule: str, pool: _Pool) -> float:
    if rule == "single":
        return sum(pool.correct) / len(pool.correct)
    if rule == "oracle":
        return float(oracle(pool.correct))
    if rule == "best":
        winner = best([s if g is not None else None for s, g in zip(pool.scores, pool.groups, strict=True)])
    else:
        winner = leader(tally(pool.groups, pool.scores if rule == "weighted" else [1.0] * len(pool.groups)))
    return 0.0 if winner is None else float(pool.correct[winner])
