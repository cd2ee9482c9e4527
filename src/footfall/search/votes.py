"""Choosing one of N samples: by score, by vote, by both; and what any choice could reach (cards: best-of-n, unprm).

best       argmax_i S_i                             first index wins a tie
majority   argmax_a |{i : ans_i = a}|               group seen first wins a tie
weighted   argmax_a W(a),  W(a) = Σ_{i: ans_i=a} S_i
hybrid     the majority's answer if its share is large enough, else that of argmax_i S_i
frequency  argmax_a λ f(a) + (1-λ) R(a),  f the share of votes, R(a) ∝ mean (or max) of the group's S, Σ_a R(a) = 1
pass@k     1 - C(n-c, k) / C(n, k) = 1 - Π_{j=n-c+1..n} (1 - k/j)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from footfall.answers import canonical, equal
from footfall.search.aggregate import AGGREGATIONS
from footfall.types import Trajectory

Rule = Literal["best", "majority", "weighted"]
RULES = ("best", "majority", "weighted")
"""How candidates with scores become one winner."""
Reducer = Literal["mean", "max"]
"""How the scores of one answer's samples become one."""


class Vote(NamedTuple):
    """Who won and by how much. Answers are named by the first raw string met in their group."""

    winner: int | None
    """Index of the first sample that gave the winning answer; `None` if nobody voted."""
    weights: dict[str, float]
    dropped: int
    """Samples without an answer: they do not vote."""
    unscored: int = 0
    """Samples with an answer but without a score: they do not vote either."""


def group(answers: Sequence[str | None], domain: str = "math") -> list[int | None]:
    """For each answer the index of the first one that is equal to it; `None` where there is no answer.

    Equal canonical strings are one group; a new string is put beside the first answer of each group so far.
    """
    first_of_form: dict[str, int] = {}
    groups: list[int | None] = []
    for i, answer in enumerate(answers):
        if answer is None:
            groups.append(None)
            continue
        form = canonical(answer, domain)
        if form not in first_of_form:
            first_of_form[form] = _equal_before(answers, dict.fromkeys(first_of_form.values()), answer, domain, i)
        groups.append(first_of_form[form])
    return groups


def _equal_before(
    answers: Sequence[str | None], firsts: dict[int, None], answer: str, domain: str, otherwise: int
) -> int:
    same = (i for i in firsts if (other := answers[i]) is not None and equal(other, answer, domain))
    return next(same, otherwise)


def best(scores: Sequence[float | None]) -> int | None:
    """The index of the highest score, the first of equals; samples without a score cannot win."""
    scored = [(-score, i) for i, score in enumerate(scores) if score is not None]
    return min(scored)[1] if scored else None


def majority(answers: Sequence[str | None], domain: str = "math") -> Vote:
    """Self-consistency: the most frequent answer."""
    return weighted(answers, [1.0] * len(answers), domain)


def weighted(answers: Sequence[str | None], scores: Sequence[float | None], domain: str = "math") -> Vote:
    """The answer whose samples have the largest sum of scores."""
    if len(answers) != len(scores):
        raise ValueError(f"{len(answers)} answers but {len(scores)} scores")
    groups = group(answers, domain)
    totals = tally(groups, scores)
    unscored = sum(first is not None and score is None for first, score in zip(groups, scores, strict=True))
    return Vote(leader(totals), {str(answers[i]): w for i, w in totals.items()}, groups.count(None), unscored)


def hybrid(
    answers: Sequence[str | None],
    scores: Sequence[float | None],
    share: float = 0.5,
    entropy: float | None = None,
    domain: str = "math",
) -> Vote:
    """The majority's answer where the vote is sure, else that of the sample with the highest score.

    Sure: the largest share of the votes is at least `share`; or, if `entropy` is given, −Σ f ln f is at most that.
    `weights` are what decided: shares, or each answer's highest score. Without any score the majority decides.
    """
    counted = majority(answers, domain)
    votes = sum(counted.weights.values())
    shares = {answer: count / votes for answer, count in counted.weights.items()}
    if entropy is None:
        sure = bool(shares) and max(shares.values()) >= share
    else:
        sure = -sum(f * math.log(f) for f in shares.values()) <= entropy
    rewarded = _rewarded(answers, scores, "max", domain)
    if sure or not rewarded.weights:
        return counted._replace(weights=shares, unscored=rewarded.unscored)
    return rewarded


def frequency(
    answers: Sequence[str | None],
    scores: Sequence[float | None],
    mix: float = 0.5,
    reducer: Reducer = "mean",
    domain: str = "math",
) -> Vote:
    """The answer with the largest mix · (share of votes) + (1 − mix) · (share of reward)."""
    if not 0 <= mix <= 1:
        raise ValueError(f"mix is a share of the vote, from 0 to 1, not {mix}")
    rewarded = _rewarded(answers, scores, reducer, domain)
    groups = group(answers, domain)
    counts = tally(groups, [1.0] * len(groups))
    votes, rewards = sum(counts.values()), sum(rewarded.weights.values())
    mixed = {
        first: mix * count / votes + (1 - mix) * rewarded.weights.get(str(answers[first]), 0.0) / (rewards or 1.0)
        for first, count in counts.items()
    }
    return rewarded._replace(winner=leader(mixed), weights={str(answers[i]): weight for i, weight in mixed.items()})


def _rewarded(answers: Sequence[str | None], scores: Sequence[float | None], reducer: Reducer, domain: str) -> Vote:
    """A vote in which an answer weighs as much as the mean or the highest score of its samples."""
    counted = weighted(answers, scores, domain)
    of: dict[int, list[float]] = {}
    for first, score in zip(group(answers, domain), scores, strict=True):
        if first is not None and score is not None:
            of.setdefault(first, []).append(score)
    totals = {first: max(own) if reducer == "max" else math.fsum(own) / len(own) for first, own in of.items()}
    return counted._replace(winner=leader(totals), weights={str(answers[i]): w for i, w in totals.items()})


def tally(groups: Sequence[int | None], scores: Sequence[float | None]) -> dict[int, float]:
    """W(a) for each group; who has no group or no score does not vote."""
    _check_weights(scores)
    totals: dict[int, float] = {}
    for first, score in zip(groups, scores, strict=True):
        if first is not None and score is not None:
            totals[first] = totals.get(first, 0.0) + score
    return totals


def leader(totals: Mapping[int, float]) -> int | None:
    """The group with the largest total, the one seen first of equals."""
    return max(totals, key=lambda first: (totals[first], -first)) if totals else None


def _check_weights(scores: Sequence[float | None]) -> None:
    """Weights must not be negative: a negative one would take votes away from the answer it was given for."""
    for i, score in enumerate(scores):
        if score is not None and score < 0:
            raise ValueError(
                f"sample {i} has the weight {score}: a vote needs weights that are not negative; map logits by a "
                "sigmoid, or scores in [-1, 1] by (s + 1) / 2, before voting"
            )


def oracle(correct: Sequence[bool | None]) -> bool:
    """Whether any sample is right: what a perfect chooser reaches."""
    return any(correct)


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that k of n samples, c of them right, hold a right one; unbiased, in the product form."""
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs 1 <= k <= n and 0 <= c <= n, not n = {n}, c = {c}")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / j for j in range(n - c + 1, n + 1))


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
