"""What judging a trace takes at most, from the traces that a judge has read so far.

No trace is thought to take less than the costliest so far. One that is longer in any way (characters, words, steps, signs that
are no letters) than all before takes as many times as much as it is longer, and as many times again as it has more steps, since
a judge may read every beginning of it:

    tokens(t) <= most · max(1, steps(t) / most steps) · max(1, max_m size_m(t) / longest_m)

which is never too little for a judge that reads a prompt of any length and so much a word, a character or a step. A judge
that keeps a cache takes less; and once long traces were read, others as long are no longer overrated.

What a judge writes says nothing of what it will write next, so it is not learned: a judge that writes says how much at most
(`footfall.judging`), or nobody knows. Where it ends in a choice, which is counted by what it reads, each reads at most as
much as all choices about an earlier trace did, and what was written since:

    tokens(t) <= written + choices · (read · max(…) · max(…) + written)

Nor does anybody know of a judge that has neither read nor written so far.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from footfall.judging import UNKNOWN, Bound
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
        if cost.generated_tokens or cost.scored_tokens:
            self._longest = tuple(map(max, self._longest, _sizes(trace)))

    def worst(self, trace: Trajectory, new: int = 0, steps: int | None = 0) -> tuple[float, float]:
        """The tokens and the calls that it may take by what others took, with so many new tokens and steps to come."""
        more, longer = self._times(trace, steps or 0)
        return self.tokens * more * longer + new if self.tokens else 0.0, self.calls * more

    def certain(self, trace: Trajectory, new: int, steps: int | None, bound: Bound | None) -> tuple[float, float]:
        """The same, whatever it writes; without limit if nobody knows.

        Of a trace with any number of steps nobody knows the calls, unless several steps were read in one call before.
        """
        if bound is None and self.tokens and not self.written:
            tokens, calls = self.worst(trace, new, steps)
            known = steps is not None or (self.calls <= 1 and self._longest[0] > 1)
            return tokens, calls if known else math.inf
        if bound is None or (bound.choices and not self.read):
            return UNKNOWN.tokens, UNKNOWN.calls
        if not bound.choices:
            return bound.tokens, bound.calls
        more, longer = self._times(trace, steps or 0)
        return bound.tokens + bound.choices * (self.read * more * longer + bound.tokens + new), bound.calls

    def _times(self, trace: Trajectory, steps: int) -> tuple[float, float]:
        """How many times as many steps as others it has, with those to come, and how many times it is as long; 1 at least."""
        sizes = _sizes(trace)
        more = (sizes[0] + steps) / max(1, self._longest[0])
        times = [size / max(1, longest) for size, longest in zip(sizes, self._longest, strict=True)]
        return max(1.0, more), max(1.0, *times)


def _sizes(trace: Trajectory) -> tuple[int, ...]:
    """Steps, characters, words, and signs that are no letters: of these a text may have few or many for its length."""
    text = "\n".join(step.text for step in trace.steps)
    return len(trace.steps), len(text), len(text.split()), len(_SIGN.findall(text))
