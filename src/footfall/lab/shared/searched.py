"""What searches came to, problem by problem: whether the chosen solution is right, and the tokens that it took."""

from __future__ import annotations

from collections.abc import Sequence

from footfall.search.budget import tokens_of
from footfall.search.choosing import Rule, choose
from footfall.types import SearchResult

__all__ = ["right", "tokens"]


def right(results: Sequence[SearchResult], rule: Rule | None = None) -> list[float]:
    """1 for each problem whose chosen solution is right, else 0; no solution is wrong.

    With a `rule` the choice is made anew, among the same candidates by the same scores.
    """
    chosen = [r.chosen if rule is None else choose([t for t, _ in r.candidates], r.scores, rule) for r in results]
    return [float(bool(trace and trace.correct)) for trace in chosen]


def tokens(results: Sequence[SearchResult]) -> list[float]:
    """Tokens written by policies and read or written by judges."""
    return [float(tokens_of(result.cost)) for result in results]
