"""How long a unit of work took lately, so that a budget of seconds grants no more at once than is likely to fit.

What a batch will take is known only when it is over. So the first grant of a kind of work is one unit a search; then, from
the last call of that kind,

    units = left / searches / seconds a unit,   at most GROWTH times the largest grant so far, and one at least

since all searches of a round wait for its whole batch. An engine that batches well gets faster a unit from round to round,
and the grant grows with it; the bound on its growth is for a first sample that was short. What was found in a store
says nothing of the time that others take, and is not measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["GROWTH", "Pace"]

GROWTH = 4
_ANY = 1 << 30


@dataclass(slots=True)
class Pace:
    """What calls took, by kind of work: who writes or judges, and how far."""

    clock: Callable[[], float] = time.monotonic
    _seconds: dict[Hashable, float] = field(default_factory=dict)
    """Of a unit, in the last call."""
    _largest: dict[Hashable, int] = field(default_factory=dict)
    """The most units that one search had in a call."""

    @contextmanager
    def timed(
        self, kind: Hashable, owners: Sequence[object], made: Callable[[], int | None] = lambda: None
    ) -> Iterator[None]:
        """Measure a call of one unit for each of `owners`; `made` counts those that had to be made, where it is known."""
        began, before = self.clock(), made()
        yield
        after = made()
        units = len(owners) if before is None or after is None else after - before
        if units:
            self._seconds[kind] = (self.clock() - began) / units
            most = min(units, max(Counter(map(id, owners)).values()))
            self._largest[kind] = max(most, self._largest.get(kind, 0))

    def fits(self, kinds: Sequence[Hashable], seconds: float) -> int:
        """How many units, each of all these kinds, one search may have in the seconds that are its share of a round."""
        if any(kind not in self._seconds for kind in kinds):
            return 1
        each = sum(self._seconds[kind] for kind in kinds)
        grown = GROWTH * min((self._largest[kind] for kind in kinds), default=_ANY)
        return max(1, min(grown, int(min(seconds / each, _ANY)) if each else _ANY))
