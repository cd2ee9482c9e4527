"""What judging a trace takes at most, from the traces that a judge has read so far.

No trace is thought to take less than the costliest so far. One that is longer in any way (characters, words, steps, signs that
are no letters) than all before takes as many times as much as it is longer:

    tokens(t) <= most · max(1, max_m size_m(t) / longest_m)

which is never too little for a judge that reads a prompt of any length and so much a word, a character or a step. A judge
that keeps a cache takes less; and once long traces were read, others as long are no longer overrated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from footfall.types import Cost, Trajectory

__all__ = ["Readings"]

_SIGN = re.compile(r"[\d_]|[^\w\s]")


@dataclass(slots=True)
class Readings:
    """One judge's readings for one problem."""

    tokens: int = 0
    calls: int = 0
    """The most for one trace."""
    count: int = 0
    _longest: tuple[int, ...] = (0, 0, 0, 0)

    def learn(self, trace: Trajectory, cost: Cost) -> None:
        """Take note of what a trace took."""
        self.count += 1
        self.tokens = max(self.tokens, cost.generated_tokens + cost.scored_tokens)
        self.calls = max(self.calls, cost.calls)
        self._longest = tuple(map(max, self._longest, _sizes(trace)))

    def worst(self, trace: Trajectory) -> tuple[float, float]:
        """The tokens and the calls that it may take."""
        if not self.tokens and self.calls <= 1:
            return 0.0, self.calls
        times = [size / max(1, longest) for size, longest in zip(_sizes(trace), self._longest, strict=True)]
        return self.tokens * max(1.0, *times), self.calls * max(1.0, times[0]) if self.calls > 1 else self.calls


def _sizes(trace: Trajectory) -> tuple[int, ...]:
    """Steps, characters, words, and signs that are no letters: of these a text may have few or many for its length."""
    text = "\n".join(step.text for step in trace.steps)
    return len(trace.steps), len(text), len(text.split()), len(_SIGN.findall(text))
