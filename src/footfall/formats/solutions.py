"""Solutions that are one text: cut into steps by a segmenter, with a count of what was done.

Unless a segmenter is named, a text that numbers its steps "Step 1:" to "Step n:" is cut there, any other at its blank lines.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from footfall.registry import create
from footfall.segment import Segmenter, marked_steps, split_steps, step_markers

BLANK_LINE = "\n\n"
_MARKERS, _BLANK_LINES, _WHOLE = "at 'Step k:' markers", "at blank lines", "whole"


class Solution(NamedTuple):
    """The steps of a text, and what stands between them."""

    steps: tuple[str, ...]
    separator: str = BLANK_LINE


class Solutions:
    """Cuts texts into steps by the segmenter of this name, and remembers how many were cut in which way."""

    def __init__(self, segmenter: str | None = None) -> None:
        self.segmenter = segmenter
        self._cut: Segmenter | None = None if segmenter is None else create("segmenter", segmenter)
        self._marked = step_markers()
        self.counts: Counter[str] = Counter()
        """Texts by the way that they were cut."""

    def __call__(self, text: str) -> Solution:
        """The steps of a text; a `ValueError` if the segmenter needs more than the text."""
        if self._cut is not None:
            made, way = _cut_by(self._cut, text), f"by {self.segmenter}"
        elif marked_steps(text):
            made, way = _cut_by(self._marked, text), _MARKERS
        else:
            made, way = Solution(split_solution(text)), _BLANK_LINES
        self.counts[way if len(made.steps) > 1 else _WHOLE] += 1
        return made

    def told(self) -> str:
        """What was done, in one line; empty if no solution was a text."""
        ways = [f"{way}: {_some(count, 'trace')}" for way, count in self.counts.items() if way != _WHOLE]
        said = [f"split {', '.join(ways)}"] if ways else []
        if whole := self.counts[_WHOLE]:
            other = "another --segment" if self.segmenter else "--segment lines or sentences"
            said.append(f"{_some(whole, 'text')} not split: {other} may cut more finely")
        return "; ".join(said)


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def split_solution(text: str) -> tuple[str, ...]:
    """A solution cut at its blank lines."""
    return tuple(part for part in re.split(r"\n[ \t\r]*\n\s*", text.strip()) if part)


def _cut_by(segmenter: Segmenter, text: str) -> Solution:
    steps = tuple(step.text for step in split_steps(text, segmenter))
    gaps: Counter[str] = Counter()
    at = 0
    for step in steps:
        start = text.index(step, at)
        if at:
            gaps[_plain_gap(text[at:start])] += 1
        at = start + len(step)
    return Solution(steps, gaps.most_common(1)[0][0] if gaps else BLANK_LINE)


def _plain_gap(gap: str) -> str:
    """A blank line, a line break, a space or nothing."""
    breaks = gap.count("\n")
    return BLANK_LINE if breaks > 1 else "\n" if breaks else " " if gap else ""
