"""How much memory the engine may use, and what to try when there was less."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """Of the rows that decode together, of the prefix cache, and of one pass that reads prefixes."""

    slot_bytes: int
    cache_bytes: int
    prefill_tokens: int

    def halved(self, slots: int, row: int, length: int) -> Limits:
        """Half of all, where `slots` bytes were in use; but one row of `row` bytes, four prefixes as long as that in the
        cache and one prefix of `length` a pass stay: with less nothing works."""
        return Limits(
            max(row, slots // 2),
            max(min(4 * row, self.cache_bytes), self.cache_bytes // 2),
            max(min(length, self.prefill_tokens), self.prefill_tokens // 2),
        )
