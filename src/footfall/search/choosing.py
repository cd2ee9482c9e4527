"""The end that all searches share: candidates with scores, a rule, one winner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from footfall.search.aggregate import AGGREGATIONS
from footfall.search.votes import best, majority, weighted
from footfall.types import Trajectory

__all__ = ["RULES", "Rule", "check_rule", "choose", "chosen_index"]

Rule = Literal["best", "majority", "weighted"]
RULES = ("best", "majority", "weighted")


def choose(candidates: Sequence[Trajectory], scores: Sequence[float | None], rule: Rule) -> Trajectory | None:
    """The candidate that the rule takes. Best-of-N passes over samples without an answer while others have one."""
    winner = chosen_index(candidates, scores, rule)
    return None if winner is None else candidates[winner]


def chosen_index(candidates: Sequence[Trajectory], scores: Sequence[float | None], rule: Rule) -> int | None:
    """Where that candidate stands."""
    answers = [t.answer for t in candidates]
    if rule == "best":
        answered = [s if t.answer is not None else None for t, s in zip(candidates, scores, strict=True)]
        winner = best(answered)
        return best(scores) if winner is None else winner
    domain = candidates[0].problem.domain if candidates else "math"
    return (majority(answers, domain) if rule == "majority" else weighted(answers, scores, domain)).winner


def check_rule(rule: str, aggregation: str) -> None:
    """Refuse what is neither a rule nor an aggregation, by name."""
    if rule not in RULES:
        raise ValueError(f"no rule is called {rule!r}; there are {', '.join(RULES)}")
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"no aggregation is called {aggregation!r}; there are {', '.join(AGGREGATIONS)}")
