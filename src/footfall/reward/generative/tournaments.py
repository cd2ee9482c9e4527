"""Comparisons of two made into one score each: Elo, win rates and knockouts. Pure functions for any judge of pairs.

    expected score   E_i = 1 / (1 + 10^((R_j − R_i) / 400))
    after a match    R_i += K (S_i − E_i),  S_i = 1 for a win, ½ for a draw, 0 for a loss      (K = 32, all start at 1000)

A round-robin of n takes n (n − 1) / 2 matches. A knockout takes n − 1 in ⌈log2 n⌉ rounds, with byes for odd numbers; a
judge without noise whose preferences are transitive has the same champion in any bracket. Only differences of ratings mean
something, and their sum stays what it was. A match that nobody could judge is not played.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from footfall.types import content_key


class Match(NamedTuple):
    """Who met, and the first one's score: 1 won, 0 lost, ½ drawn; `None` if nobody could say."""

    first: int
    second: int
    score: float | None


def expected(rating: float, other: float) -> float:
    """The score that Elo expects of one rating against another."""
    return 1 / (1 + 10 ** ((other - rating) / 400))


def elo(n: int, matches: Sequence[Match], k: float = 32.0, start: float = 1000.0) -> list[float]:
    """Ratings after the matches, one by one in their order."""
    ratings = [start] * n
    for first, second, score in matches:
        if score is not None:
            gain = k * (score - expected(ratings[first], ratings[second]))
            ratings[first] += gain
            ratings[second] -= gain
    return ratings


def mean_elo(n: int, matches: Sequence[Match], k: float = 32.0, start: float = 1000.0, orders: int = 8) -> list[float]:
    """Elo's mean over shuffled orders of the matches: who met whom first should not matter."""
    rows = [
        elo(n, sorted(matches, key=lambda m: content_key("order", order, m.first, m.second)), k, start)
        for order in range(orders)
    ]
    return [sum(column) / orders for column in zip(*rows, strict=True)]


def win_rates(n: int, matches: Sequence[Match]) -> list[float | None]:
    """Each one's mean score; `None` for one without a match that was judged."""
    scores: list[list[float]] = [[] for _ in range(n)]
    for first, second, score in matches:
        if score is not None:
            scores[first].append(score)
            scores[second].append(1 - score)
    return [sum(row) / len(row) if row else None for row in scores]


def round_robin(n: int) -> list[tuple[int, int]]:
    """Everyone against everyone once."""
    return list(combinations(range(n), 2))


def bracket(entrants: Sequence[int], seed: int = 0, round_: int = 0) -> tuple[list[tuple[int, int]], list[int]]:
    """The pairs of a knockout's round, drawn by seed, and who has a bye."""
    drawn = sorted(entrants, key=lambda i: content_key("bracket", seed, round_, i))
    even = len(drawn) - len(drawn) % 2
    return list(zip(drawn[:even:2], drawn[1:even:2], strict=True)), drawn[even:]


def both_orders(first: float | None, swapped: float | None) -> float | None:
    """A pair asked in both orders: a win counts only if the judge stays with it, otherwise it is a draw.

    Both are the score of the same one, shown first and shown second. Without an opinion in one order the other decides.
    """
    if first is None or swapped is None:
        return swapped if first is None else first
    return first if first == swapped else 0.5


def vote(scores: Sequence[float | None]) -> float | None:
    """Voting@k: 1 or 0 by the majority of the samples that state a winner, ½ if they are tied, `None` if none does."""
    said = [score for score in scores if score is not None]
    if not said:
        return None
    mean = sum(said) / len(said)
    return 0.5 if mean == 0.5 else float(mean > 0.5)
