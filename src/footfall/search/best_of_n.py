"""Best-of-N and votes: draw N whole solutions, score each by a judge, and choose (card: best-of-n).

The baseline of all search. Every sampled candidate is kept in the result with its judgement, so that another rule, another
aggregation or a smaller N costs no new sample (`footfall.search.curve`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from footfall.policy.drawing import draw_traces
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.search.aggregate import AGGREGATIONS, Aggregation, aggregate
from footfall.search.votes import best, majority, weighted
from footfall.types import Cost, Judge, Judged, Problem, SearchResult, Trajectory

__all__ = ["BestOfN", "Rule", "best_of_n", "choose", "majority_vote", "weighted_vote"]

Rule = Literal["best", "majority", "weighted"]
_RULES = ("best", "majority", "weighted")


@dataclass(frozen=True)
class BestOfN:
    """Samples `n` solutions a problem and returns one answer; `majority` alone needs no judge."""

    policy: Policy
    judge: Judge | None = None
    n: int = 8
    rule: Rule = "weighted"
    aggregation: Aggregation = "last"
    params: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.8, max_tokens=2048))
    separator: str = "\n\n"
    """What the policy puts after each step."""

    def __post_init__(self) -> None:
        if self.rule not in _RULES:
            raise ValueError(f"no rule is called {self.rule!r}; there are {', '.join(_RULES)}")
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"no aggregation is called {self.aggregation!r}; there are {', '.join(AGGREGATIONS)}")
        if self.judge is None and self.rule != "majority":
            raise ValueError(f"the rule {self.rule!r} needs a judge; only 'majority' does without")
        if self.n < 1:
            raise ValueError(f"n = {self.n}: at least one sample is needed")

    def solve(self, problems: Sequence[Problem]) -> list[SearchResult]:
        """One result a problem, in order; the judge reads the candidates of all problems in one batch."""
        drawn = self._draw(problems)
        judged = iter(self._judge([t for candidates in drawn for t in candidates]))
        return [
            self._result(problem, [next(judged) for _ in candidates])
            for problem, candidates in zip(problems, drawn, strict=True)
        ]

    def _draw(self, problems: Sequence[Problem]) -> list[list[Trajectory]]:
        prefixes = [Trajectory(problem.id, problem, separator=self.separator) for problem in problems]
        return draw_traces(self.policy, prefixes, self.n, self.params)

    def _judge(self, candidates: Sequence[Trajectory]) -> list[Judged]:
        readable = [t for t in candidates if "error" not in t.meta and t.steps]
        said = self.judge.judge(readable) if self.judge is not None else []
        if self.judge is not None and len(said) != len(readable):
            raise ValueError(f"judge {self.judge.name!r} gave {len(said)} judgements for {len(readable)} trajectories")
        of = {id(t): judgement.check(t) for t, judgement in zip(readable, said, strict=False)}
        return [Judged(t, of.get(id(t))) for t in candidates]

    def _result(self, problem: Problem, candidates: list[Judged]) -> SearchResult:
        scores = tuple(None if j is None else aggregate(j.values, self.aggregation) for _, j in candidates)
        chosen = choose([t for t, _ in candidates], scores, self.rule)
        costs = [t.cost for t, _ in candidates] + [j.cost for _, j in candidates if j is not None]
        return SearchResult(
            problem=problem,
            answer=None if chosen is None else chosen.answer,
            chosen=chosen,
            candidates=tuple(candidates),
            scores=scores,
            failure=_failure(candidates, scores) if chosen is None or chosen.answer is None else None,
            cost=Cost.total(costs),
        )


def choose(candidates: Sequence[Trajectory], scores: Sequence[float | None], rule: Rule) -> Trajectory | None:
    """The candidate that the rule takes. Best-of-N passes over samples without an answer while others have one."""
    answers = [t.answer for t in candidates]
    if rule == "best":
        answered = [s if t.answer is not None else None for t, s in zip(candidates, scores, strict=True)]
        winner = best(answered)
        winner = best(scores) if winner is None else winner
    else:
        domain = candidates[0].problem.domain if candidates else "math"
        vote = majority(answers, domain) if rule == "majority" else weighted(answers, scores, domain)
        winner = vote.winner
    return None if winner is None else candidates[winner]


def _failure(candidates: Sequence[Judged], scores: Sequence[float | None]) -> str:
    """Why there is no answer, with the first reason that the policy or the judge gave."""
    errors = [str(t.meta["error"]) for t, _ in candidates if "error" in t.meta]
    refused = [reason for _, j in candidates if j is not None for reason in j.failures if reason]
    unanswered = sum(t.answer is None for t, _ in candidates) - len(errors)
    counts = (
        f"{len(errors)} of {len(candidates)} samples failed, {unanswered} gave no answer, "
        f"{sum(s is None for s in scores) - len(errors)} could not be scored"
    )
    return "; ".join([counts, *(errors + refused)[:1]])


@register("searcher", "best-of-n")
def best_of_n(policy: Policy, judge: Judge, n: int = 8, aggregation: Aggregation = "last",
              params: SamplingParams | None = None, separator: str = "\n\n") -> BestOfN:  # fmt: skip
    """Best-of-N: the sample that the judge scores highest."""
    return _made("best", policy, judge, n, aggregation, params, separator)


@register("searcher", "weighted-vote")
def weighted_vote(policy: Policy, judge: Judge, n: int = 8, aggregation: Aggregation = "last",
                  params: SamplingParams | None = None, separator: str = "\n\n") -> BestOfN:  # fmt: skip
    """Weighted vote: the answer whose samples have the largest sum of scores."""
    return _made("weighted", policy, judge, n, aggregation, params, separator)


@register("searcher", "majority")
def majority_vote(policy: Policy, judge: Judge | None = None, n: int = 8, aggregation: Aggregation = "last",
                  params: SamplingParams | None = None, separator: str = "\n\n") -> BestOfN:  # fmt: skip
    """Majority vote (self-consistency): the most frequent answer; a judge is not needed."""
    return _made("majority", policy, judge, n, aggregation, params, separator)


def _made(rule: Rule, policy: Policy, judge: Judge | None, n: int, aggregation: Aggregation,
          params: SamplingParams | None, separator: str) -> BestOfN:  # fmt: skip
    made = BestOfN(policy, judge, n, rule, aggregation, separator=separator)
    return made if params is None else replace(made, params=params)
