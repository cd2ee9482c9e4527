"""Keys and values of prefixes seen before, found by their token ids, so that no prefix is read twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Entry", "PrefixCache"]

_BLOCK = 8


@dataclass(frozen=True, eq=False, slots=True)
class Entry:
    """The keys and values [l, 2, h, t, d] of the sequence `ids`; any prefix of it can be read from it."""

    ids: tuple[int, ...]
    data: Tensor

    @property
    def bytes(self) -> int:
        return self.data.numel() * self.data.element_size()


class PrefixCache:
    """Least recently used entries within a byte budget, indexed at every 8th token."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget = budget_bytes
        self.used = 0
        self._entries: OrderedDict[tuple[int, ...], Entry] = OrderedDict()
        self._blocks: dict[tuple[int, ...], Entry] = {}

    def longest(self, ids: Sequence[int]) -> tuple[Entry | None, int]:
        """The entry that shares the longest beginning with `ids` (to the last block), and how much it shares."""
        ids = tuple(ids)
        if ids in self._entries:
            self._entries.move_to_end(ids)
            return self._entries[ids], len(ids)
        found = None
        for end in range(_BLOCK, len(ids) + 1, _BLOCK):
            entry = self._blocks.get(ids[:end])
            if entry is None:
                break
            found = entry
        if found is None:
            return None, 0
        self._entries.move_to_end(found.ids)
        shared = 0
        for ours, theirs in zip(ids, found.ids, strict=False):
            if ours != theirs:
                break
            shared += 1
        return found, shared

    def put(self, entry: Entry) -> None:
        if entry.ids in self._entries or entry.bytes > self.budget:
            return
        self._entries[entry.ids] = entry
        self.used += entry.bytes
        for end in range(_BLOCK, len(entry.ids) + 1, _BLOCK):
            self._blocks[entry.ids[:end]] = entry
        while self.used > self.budget:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        self._entries.clear()
        self._blocks.clear()
        self.used = 0

    def _drop(self, ids: tuple[int, ...]) -> None:
        entry = self._entries.pop(ids)
        self.used -= entry.bytes
        for end in range(_BLOCK, len(ids) + 1, _BLOCK):
            if self._blocks.get(ids[:end]) is entry:
                del self._blocks[ids[:end]]
