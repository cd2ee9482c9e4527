"""What judging a trace takes at most, from the traces that a judge has read so far.

No trace is thought to take less than the costliest so far. One that is longer in any way (characters, words, steps, signs that
are no letters) than all before takes as many times as much as it is longer:

    tokens(t) <= most · max(1, max_m size_m(t) / longest_m)

which is never too little for a judge that reads a prompt of any length and so much a word, a character or a step. A judge
that keeps a cache takes less; and once long traces were read, others as long are no longer overrated.

What a judge writes says nothing of what it will write next, so it is not learned: a judge that writes has to say how much at
most (`Writes`), or its traces go one by one. If it also reads, then every beginning of the trace at worst, and with it what
it has written so far:

    tokens(t) <= written · (2 + steps(t)) + read · max(1, steps(t) / most steps) · max(1, max_m size_m(t) / longest_m)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from footfall.types import Cost, Trajectory

__all__ = ["Readings", "Writes"]

_SIGN = re.compile(r"[\d_]|[^\w\s]")


@runtime_checkable
class Writes(Protocol):
    """A judge that writes, and knows how much at most."""

    def most(self, steps: int | None) -> Cost | None:
        """Generated tokens and calls for a trace of so many steps (`None`: of any number); `None` if there is no limit."""
        ...


@dataclass(slots=True)
class Readings:
    """One judge's readings for one problem."""

    tokens: int = 0
    calls: int = 0
    """The most for one trace."""
    count: int = 0
    written: int = 0
    read: int = 0
    """Of the tokens: the most that were generated, and the most that were scored."""
    _longest: tuple[int, ...] = (0, 0, 0, 0)

    def learn(self, trace: Trajectory, cost: Cost) -> None:
        """Take note of what a trace took."""
        self.count += 1
        self.tokens = max(self.tokens, cost.generated_tokens + cost.scored_tokens)
        self.calls = max(self.calls, cost.calls)
        self.written, self.read = max(self.written, cost.generated_tokens), max(self.read, cost.scored_tokens)
        self._longest = tuple(map(max, self._longest, _sizes(trace)))

    def worst(self, trace: Trajectory, new: int = 0) -> tuple[float, float]:
        """The tokens and the calls that it may take, with so many new tokens to come, by what others took."""
        if not self.tokens and self.calls <= 1:
            return 0.0, self.calls
        steps, size = self._times(trace)
        return self.tokens * size + new if self.tokens else 0.0, self.calls * steps if self.calls > 1 else self.calls

    def certain(self, trace: Trajectory, new: int, most: Cost | None) -> tuple[float, float] | None:
        """The same, whatever it writes: it says itself how much at most. `None` if it does not say."""
        if most is None:
            return None if self.written else self.worst(trace, new)
        steps, size = self._times(trace)
        again = most.generated_tokens * (1 + len(trace.steps)) + new * most.calls if self.read else 0
        return most.generated_tokens + self.read * steps * size + again, most.calls

    def _times(self, trace: Trajectory) -> tuple[float, float]:
        """How many times as many steps as any before it has, and how many times as long it is; 1 at least."""
        times = [size / max(1, longest) for size, longest in zip(_sizes(trace), self._longest, strict=True)]
        return max(1.0, times[0]), max(1.0, *times)


def _sizes(trace: Trajectory) -> tuple[int, ...]:
    """Steps, characters, words, and signs that are no letters: of these a text may have few or many for its length."""
    text = "\n".join(step.text for step in trace.steps)
    return len(trace.steps), len(text), len(text.split()), len(_SIGN.findall(text))
