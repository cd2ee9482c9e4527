"""Accuracy of a choice among N of M candidates, expected over all subsets of size N in the pool's order.

    best of N   Σ_r correct_r C(M−1−r, N−1) / Σ_r C(M−1−r, N−1),  r = 0, 1, … from the highest score down
    votes       mean over all subsets if there are at most `limit` of them, else over `limit` that are drawn by a seed
    pass@N      1 − C(M−c, N) / C(M, N)

At N = M each is exactly what the whole pool gives. Of equals the first wins, as in `footfall.search.votes`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from footfall.types import content_key

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
