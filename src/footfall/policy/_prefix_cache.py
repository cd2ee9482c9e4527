"""Keys and values of prefixes seen before, found by their token ids, so that no prefix is read twice."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from footfall.beginnings import beginning_keys

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
        self._blocks: dict[int, Entry] = {}

    def longest(self, ids: Sequence[int]) -> tuple[Entry | None, int]:
        """The entry that shares the longest beginning with `ids` (to the last block), and how much it shares."""
        ids = tuple(ids)
        if ids in self._entries:
            self._entries.move_to_end(ids)
            return self._entries[ids], len(ids)
        found, known = None, 0
        for key in _keys(ids):
            entry = self._blocks.get(key)
            if entry is None:
                break
            found, known = entry, known + _BLOCK
        if found is None:
            return None, 0
        self._entries.move_to_end(found.ids)
        shared = known if found.ids[:known] == ids[:known] else 0
        for ours, theirs in zip(ids[shared:], found.ids[shared:], strict=False):
            if ours != theirs:
                break
            shared += 1
        return found, shared

    def put(self, entry: Entry) -> None:
        if entry.ids in self._entries or entry.bytes > self.budget:
            return
        self._entries[entry.ids] = entry
        self.used += entry.bytes
        self._blocks.update(dict.fromkeys(_keys(entry.ids), entry))
        while self.used > self.budget:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        self._entries.clear()
        self._blocks.clear()
        self.used = 0

    def _drop(self, ids: tuple[int, ...]) -> None:
        entry = self._entries.pop(ids)
        self.used -= entry.bytes
        for key in _keys(ids):
            if self._blocks.get(key) is entry:
                del self._blocks[key]


def _keys(ids: tuple[int, ...]) -> list[int]:
    """Of the beginnings that end at a block."""
    return beginning_keys(ids, range(_BLOCK, len(ids) + 1, _BLOCK))
