"""Memos of bounded size: what was worked out lately is kept, so that asking again is cheap and memory does not grow."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["KEPT", "keep"]

K = TypeVar("K")
V = TypeVar("V")

KEPT = 1 << 14
"""Entries of one memo. A search on one problem meets a few thousand prefixes."""


def keep(memo: dict[K, V], key: K, value: V, most: int = KEPT) -> V:
    """Put a new entry into a memo of at most so many; the one that was put in first makes room. Returns the value."""
    while len(memo) >= most:
        del memo[next(iter(memo))]
    memo[key] = value
    return value
