"""What benchmarks that compare responses share: scores of whole responses, comparisons, credit, means with weights.

    strict    1 if every right response scores above every wrong one, else 0: a tie is wrong
    tied      m / k if m of the k responses that share the highest score are right
    swapped   a pairwise judge asked in both orders: 1 if it names the preferred one twice, 0 if never, else 1/2

The members of one comparison share `split` and `group`; the weight of a comparison is that of its first member. One with
a member that has no score is left out, and the figure `unscored` says what share; the runner leaves out those of which a
scores file does not hold all members, and counts them.

Pools: the accuracy of a choice among N of M candidates is expected over all subsets of size N in the pool's order.

    best of N   Σ_r correct_r C(M−1−r, N−1) / Σ_r C(M−1−r, N−1),  r = 0, 1, … from the highest score down
    votes       mean over all subsets if there are at most `limit` of them, else over `limit` that are drawn by a seed
    pass@N      1 − C(M−c, N) / C(M, N)

At N = M each is exactly what the whole pool gives. Of equals the first wins, as in `footfall.search.votes`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from footfall.metrics.cases import Case, Measure, Row, Rows, by_group
from footfall.metrics.intervals import Floats
from footfall.metrics.steps import ratio
from footfall.search.votes import Aggregation, aggregate
from footfall.types import Judgement, Problem, Step, Trajectory, content_key

Score = Callable[[Judgement], "float | None"]
Credit = Callable[[Sequence[float], Sequence[float]], float]
"""Scores of the right and of the wrong responses of one comparison -> a number from 0 to 1."""

LAST_STEP_RULE = "value of the last step, or the judge's own value where it gives no step value"


def response_score(judgement: Judgement, how: Aggregation | str = "min") -> float | None:
    """The judge's own value of the whole response if it has one, else its step values folded by `how`."""
    return judgement.value if judgement.value is not None else aggregate(judgement.values, how)


def score_rule(how: Aggregation | str) -> str:
    """`response_score` in words, for a protocol."""
    return f"judge's own value of the response, else {how} of its step values (cut at blank lines)"


def last_step_score(judgement: Judgement) -> float | None:
    """The value of the last step, whatever the others have; the judge's own value if that step has none."""
    last = judgement.values[-1] if judgement.values else None
    return judgement.value if last is None else last


def strict_credit(right: Sequence[float], wrong: Sequence[float]) -> float:
    """1 if every right response scores strictly above every wrong one; a tie is wrong."""
    return float(min(right) > max(wrong))


def tie_credit(right: Sequence[float], wrong: Sequence[float]) -> float:
    """The chance to pick a right one at random among the responses with the highest score: m / k."""
    highest = max(*right, *wrong)
    among_right = sum(score == highest for score in right)
    return among_right / (among_right + sum(score == highest for score in wrong))


def swapped_score(preferred_first: str, preferred_second: str) -> float:
    """Two answers ("1", "2", "tie", anything else) of a pairwise judge: preferred shown first, then shown second.

    1 for ("1", "2"), 0 for ("2", "1"), else 1/2: a tie, the same place twice (position bias), or no readable answer.
    """
    return {("1", "2"): 1.0, ("2", "1"): 0.0}.get((preferred_first, preferred_second), 0.5)


Responses = Mapping[str, Sequence[Step]]
"""The steps of responses by what the data calls each: `chosen`, `rejected-2`."""


def comparison(split: str, problem: Problem, right: Responses, wrong: Responses, *, group: str = "") -> list[Case]:
    """The responses to one problem as cases: no step truth, outcome truth 1 (right, chosen) or 0."""
    cases = []
    for which, steps in {**right, **wrong}.items():
        name = f"{problem.id}#{which}"
        truth = Judgement(name, (None,) * len(steps), "reference", float(which in right))
        cases.append(Case(split, Trajectory(name, problem, tuple(steps)), truth, group or problem.id))
    return cases


@dataclass(frozen=True)
class Compared:
    """The comparisons among some cases."""

    splits: npt.NDArray[np.str_]
    firsts: npt.NDArray[np.int64]
    """Index of each comparison's first member, whose weight is its own."""
    credits: Floats
    """NaN: a member has no score."""


def compare(
    cases: Sequence[Case], judgements: Sequence[Judgement], score: Score, credit: Credit = strict_credit
) -> Compared:
    """Each comparison with its credit."""
    members = by_group(cases)
    credits = []
    for inside in members.values():
        right = [score(judgements[i]) for i in inside if cases[i].truth.value == 1.0]
        wrong = [score(judgements[i]) for i in inside if cases[i].truth.value != 1.0]
        credits.append(_credit(right, wrong, credit))
    return Compared(
        np.asarray([split for split, _ in members]),
        np.asarray([inside[0] for inside in members.values()], dtype=np.int64),
        np.asarray(credits, dtype=np.float64),
    )


def _credit(right: Sequence[float | None], wrong: Sequence[float | None], credit: Credit) -> float:
    scored_right, scored_wrong = [s for s in right if s is not None], [s for s in wrong if s is not None]
    if len(scored_right) < len(right) or len(scored_wrong) < len(wrong):
        return float("nan")
    return credit(scored_right, scored_wrong)


def accuracy(credits: Floats, weights_RG: Floats, name: str = "accuracy") -> Row:
    """Σ w c / Σ w over the comparisons with a credit, and the share of those without, if there are any."""
    scored = np.isfinite(credits)
    row = {name: ratio(weights_RG[:, scored] @ credits[scored], weights_RG[:, scored].sum(axis=1))}
    if not scored.all():
        row["unscored"] = ratio(weights_RG[:, ~scored].sum(axis=1), weights_RG.sum(axis=1))
    return row


def pooled_row(compared: Compared, weights_RN: Floats, splits: Sequence[str] | None = None) -> Row:
    """Accuracy over all comparisons of these splits (of all), each counting the same."""
    inside = np.isin(compared.splits, compared.splits if splits is None else list(splits))
    return accuracy(compared.credits[inside], weights_RN[:, compared.firsts[inside]])


def mean_row(rows: Rows, weights: Mapping[str, float] | None = None, name: str = "accuracy") -> Row:
    """Σ w x / Σ w over the rows that have a value (weights: of each row; plain mean without)."""
    figures = np.asarray([row[name] for row in rows.values()])
    weight = np.asarray([1.0 if weights is None else weights[row] for row in rows])[:, None]
    present = np.isfinite(figures)
    return {name: ratio(np.where(present, figures * weight, 0.0).sum(axis=0), (present * weight).sum(axis=0))}


def measure_by(
    score: Score,
    credit: Credit = strict_credit,
    summary: Callable[[Rows, Compared, Floats], Rows] | None = None,
) -> Measure:
    """A benchmark's `measure`: accuracy of each split, then the rows that `summary` makes of them."""

    def measure(cases: Sequence[Case], judgements: Sequence[Judgement], threshold: float, weights_RN: Floats) -> Rows:
        compared = compare(cases, judgements, score, credit)
        rows = {s: pooled_row(compared, weights_RN, [s]) for s in dict.fromkeys(compared.splits.tolist())}
        return rows if summary is None else {**rows, **summary(rows, compared, weights_RN)}

    return measure


def pooled(rows: Rows, compared: Compared, weights_RN: Floats) -> Rows:
    """A summary of one row: "all" comparisons, each counting the same."""
    return {"all": pooled_row(compared, weights_RN)}


def size_notes(cases: Sequence[Case], published: Mapping[str, int], what: str) -> tuple[str, ...]:
    """A note for data that does not have the published number of comparisons in each split."""
    found = Counter(split for split, _ in {(case.split, case.group) for case in cases})
    odd = [f"{s} {found[s]} of {n}" for s, n in published.items() if found[s] != n]
    return (f"{what} that differ in number from the published data: {', '.join(odd)}",) if odd else ()


Bools = npt.NDArray[np.bool_]


def sizes_up_to(pool: int) -> tuple[int, ...]:
    """1, 2, 4, … and the pool's own size."""
    return tuple(sorted({2**k for k in range(pool.bit_length()) if 2**k <= pool} | {pool}))


def best_of(scores: Sequence[float | None], correct: Sequence[bool], n: int) -> float:
    """The chance that the best-scored of n random candidates is right.

    Candidates without a score cannot be chosen; subsets without any score do not count, NaN if there are no others.
    """
    scored = [(-score, i) for i, score in enumerate(scores) if score is not None]
    ways = [math.comb(len(scores) - 1 - rank, n - 1) for rank in range(len(scored))]
    right = sum(way for way, (_, i) in zip(ways, sorted(scored), strict=True) if correct[i])
    return right / sum(ways) if sum(ways) else math.nan


@lru_cache(maxsize=256)
def subsets(pool: int, n: int, limit: int, seed: int) -> Bools:
    """Which candidates are in each subset: all subsets if there are at most `limit`, else so many random ones."""
    if math.comb(pool, n) <= limit:
        members = np.asarray(list(itertools.combinations(range(pool), n)))
    else:
        rng = np.random.default_rng(int(content_key("pool-subsets", pool, n, seed), 16))
        members = rng.permuted(np.tile(np.arange(pool), (limit, 1)), axis=1)[:, :n]
    inside_SM = np.zeros((len(members), pool), dtype=np.bool_)
    np.put_along_axis(inside_SM, members, True, axis=1)
    return inside_SM


def vote_of(
    inside_SM: Bools, groups: Sequence[int | None], weights: Sequence[float | None], correct: Sequence[bool]
) -> float:
    """Mean accuracy of the (weighted) vote over subsets: the answer with the largest sum of weights.

    A subset in which nobody answers is wrong; one in which somebody answers but nobody has a weight does not count.
    """
    voters = [
        i
        for i, (group, weight) in enumerate(zip(groups, weights, strict=True))
        if group is not None and weight is not None
    ]
    answered = inside_SM[:, [i for i, group in enumerate(groups) if group is not None]].any(axis=1)
    counts = inside_SM[:, voters].any(axis=1) | ~answered
    if not counts.any():
        return math.nan
    right_S = np.zeros(len(inside_SM))
    if voters:
        winner_S = _winners(inside_SM[:, voters], [groups[i] for i in voters], [weights[i] for i in voters])
        right_S = np.where(winner_S >= 0, np.asarray([correct[i] for i in voters])[winner_S], False)
    return float(right_S[counts].mean())


def _winners(inside_SV: Bools, groups: Sequence[int | None], weights: Sequence[float | None]) -> npt.NDArray[np.int64]:
    """The first voter of the winning answer in each subset, -1 where nobody votes."""
    nobody = inside_SV.shape[1]
    best_S = np.full(len(inside_SV), -np.inf)
    winner_S = np.full(len(inside_SV), nobody)
    weight_V = np.asarray(weights, dtype=np.float64)
    for answer in dict.fromkeys(groups):
        members = np.asarray([i for i, group in enumerate(groups) if group == answer])
        inside = inside_SV[:, members]
        there = inside.any(axis=1)
        total = np.where(there, inside @ weight_V[members], -np.inf)
        first = np.where(there, members[inside.argmax(axis=1)], nobody)
        ahead = (total > best_S) | ((total == best_S) & (first < winner_S))
        best_S, winner_S = np.where(ahead, total, best_S), np.where(ahead, first, winner_S)
    return np.where(winner_S == nobody, -1, winner_S)
