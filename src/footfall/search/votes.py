"""From step values to a choice: one score a trace, one of N traces by score or vote, and accuracy against N.

How step values become a score is named in every result that uses it. One of N samples is then chosen (cards: best-of-n, unprm):

best       argmax_i S_i                             first index wins a tie
majority   argmax_a |{i : ans_i = a}|               group seen first wins a tie
weighted   argmax_a W(a),  W(a) = Σ_{i: ans_i=a} S_i
hybrid     the majority's answer if its share is large enough, else that of argmax_i S_i
frequency  argmax_a λ f(a) + (1-λ) R(a),  f the share of votes, R(a) ∝ mean (or max) of the group's S, Σ_a R(a) = 1
pass@k     1 - C(n-c, k) / C(n, k) = 1 - Π_{j=n-c+1..n} (1 - k/j)

A curve over N is made from candidates that were drawn once: at n, the FIRST n of each problem's candidates are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.answers import canonical, equal
from footfall.types import SearchResult, Trajectory

Aggregation = Literal["min", "prod", "mean", "last", "max", "sum", "length-aware", "log-prod", "log-odds", "class"]
Neutral = Literal["positive", "negative"]
"""What a step that is neither right nor wrong counts as."""
LEAST = 1e-10
"""What a step of less is worth where logarithms are paid, as the card sprm-metastone has it for its geometric mean."""


def _log_product(values: Sequence[float]) -> float:
    """Σ log v, −∞ with a zero: a long trace must not underflow on the way. Needs values that are not negative."""
    for i, value in enumerate(values):
        if value < 0:
            raise ValueError(
                f"step {i + 1} has the value {value}: a product needs values in [0, 1]; map logits by a sigmoid and "
                "scores in [-1, 1] by (v + 1) / 2 first, or use min, mean or last"
            )
    return -math.inf if 0.0 in values else math.fsum(math.log(value) for value in values)


def length_aware(values: Sequence[float], power: float = 1.0) -> float:
    """exp(Σ log v / n^power): a product that does not favour short traces.

    With `power` 1 the geometric mean (cards: sprm-metastone, reinforce-step), with 0 the product, between them less of it.
    """
    return math.exp(_log_product(values) / len(values) ** power)


def log_product(values: Sequence[float]) -> float:
    """Σ log v: ranks as the product does, and is below 0. A step of value 0 is refused: −∞ is no reward."""
    whole = _log_product(values)
    if whole == -math.inf:
        raise ValueError(f"step {list(values).index(0.0) + 1} has the value 0, which has no logarithm: use prod or min")
    return whole


def mean_log_odds(values: Sequence[float]) -> float:
    """σ(mean log v / (1 − v)): a chance again (card: dreamprm). Sure steps weigh more than in the mean.

    A chance of 0 or 1 has no odds and counts as one of 1e-10 less.
    """
    odds = []
    for i, value in enumerate(values):
        if not 0 <= value <= 1:
            raise ValueError(
                f"step {i + 1} has the value {value}: odds are those of probabilities; map logits by a sigmoid and scores in "
                "[-1, 1] by (v + 1) / 2 first"
            )
        chance = min(max(value, LEAST), 1 - LEAST)
        odds.append(math.log(chance) - math.log1p(-chance))
    return 1 / (1 + math.exp(-_mean(odds)))


def classes(
    positive: Sequence[float | None], neutral: Sequence[float | None] | None = None
) -> tuple[float | None, ...]:
    """Each step's likeliest class as a number: +1 right, 0 neutral, −1 wrong; 0 if the likeliest are equally likely.

    Of a PRM with three classes from two columns of their probabilities; without `neutral`, from P(right) alone.
    """
    found: list[float | None] = []
    for i, (right, between) in enumerate(zip(positive, neutral or [0.0] * len(positive), strict=True)):
        if right is None or between is None:
            found.append(None)
            continue
        wrong = 1 - right - between
        if not (right >= 0 and between >= 0 and wrong >= -1e-6):
            said = f"the value {right}" if neutral is None else f"{right} for right and {between} for neutral"
            raise ValueError(
                f"step {i + 1} has {said}: a class is taken from probabilities; map logits by a sigmoid and scores in "
                "[-1, 1] by (v + 1) / 2 first"
            )
        found.append(float(right > max(between, wrong)) - float(wrong > max(right, between)))
    return tuple(found)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "prod": lambda values: math.exp(_log_product(values)),
    "mean": _mean,
    "last": lambda values: values[-1],
    "max": max,
    "sum": math.fsum,
    "length-aware": length_aware,
    "log-prod": log_product,
    "log-odds": mean_log_odds,
    "class": lambda values: _mean([value for value in classes(values) if value is not None]),
}
"""By name; `max` is for diagnosis, `sum` is for values that are increments."""
SIGNED = ("log-prod", "class")
"""Aggregations of probabilities that are negative: they rank and reward, and weigh no vote."""


def aggregate(values: Sequence[float | None], how: Aggregation | str = "min") -> float | None:
    """The step values aggregated into one score; `None` if there are none or one of them was not judged.

    A candidate that cannot be scored is not a zero: the caller leaves it out and says so.
    """
    if how not in AGGREGATIONS:
        raise ValueError(f"no aggregation is called {how!r}; there are {', '.join(AGGREGATIONS)}")
    judged = [value for value in values if value is not None]
    if not values or len(judged) < len(values):
        return None
    return AGGREGATIONS[how](judged)


def reward_of(values: Sequence[float | None], how: Aggregation | str = "min") -> float | None:
    """As `aggregate`, of what is paid: by `log-prod` a step of value 0 counts as `LEAST`, for −∞ is no reward."""
    if how == "log-prod":
        values = [LEAST if value is not None and 0 <= value < LEAST else value for value in values]
    return aggregate(values, how)


def chances_ok(
    positive: Sequence[float | None], neutral: Sequence[float | None], counts_as: Neutral = "positive"
) -> tuple[float | None, ...]:
    """P(step ok) of a PRM with three classes (card: prm800k): p_pos + p_neu, or p_pos alone; then `aggregate` them.

    A judgement of such a PRM has both columns among its aspects.
    """
    if counts_as not in ("positive", "negative"):
        raise ValueError(f'a neutral step counts as "positive" or "negative", not {counts_as!r}')
    if counts_as == "negative":
        return tuple(positive)
    both = zip(positive, neutral, strict=True)
    return tuple(None if pos is None or neu is None else pos + neu for pos, neu in both)


def mean_of_readings(scores: Sequence[float | None], missing: float = 0.5) -> float:
    """One score from several readings of a trace by a generative judge (card: multi-rm); one without a verdict is even."""
    if not scores:
        raise ValueError("a trace that was never read has no score")
    return math.fsum(missing if score is None else score for score in scores) / len(scores)


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
    rewarded, groups = _rewarded(answers, scores, "max", domain), group(answers, domain)
    first = best([score if at is not None else None for score, at in zip(scores, groups, strict=True)])
    if sure or first is None:
        return counted._replace(weights=shares, unscored=rewarded.unscored)
    return rewarded._replace(winner=groups[first])


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
    if rule == "weighted" and aggregation in SIGNED:
        raise ValueError(f"scores by {aggregation} can be negative, and these weigh no vote: use prod, mean or min")


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
    results: Iterable[SearchResult],
    ns: Sequence[int],
    rules: Sequence[str] = CURVE_RULES,
    aggregation: str | None = None,
) -> Curve:
    """Accuracy per problem at each n and rule. `aggregation` rescores from the stored step values; else as searched."""
    unknown = sorted(set(rules) - set(CURVE_RULES))
    if unknown:
        raise ValueError(f"no rule is called {unknown[0]!r}; there are {', '.join(CURVE_RULES)}")
    columns = [_problem_column(result, ns, rules, aggregation) for result in results]
    if not columns:
        raise ValueError("a curve needs at least one result")
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
