"""What a judge writes at most: a search's budget can be hard only if somebody knows."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

__all__ = ["UNKNOWN", "Bound", "Bounded"]


class Bound(NamedTuple):
    """The most that judging one trace takes."""

    tokens: float
    """Generated."""
    calls: float
    choices: int = 0
    """Of the calls: those that are counted by what they read, the question and all that was written."""


UNKNOWN = Bound(math.inf, math.inf)


class Bounded(Protocol):
    """A judge that knows what it writes at most. One that only reads needs no bound."""

    def at_most(self, steps: int | None) -> Bound | None:
        """For a trace of so many steps (`None`: of any number); `None` if there is no limit."""
        ...
