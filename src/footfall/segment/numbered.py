"""A step starts at a line that numbers it: "Step 3:", "### Step 3", "**Step 3.**", "3." or "3)".

If the text has "Step k" lines, only they count, and a list inside a step stays in it. Numbers must go up by one from
whatever the first is, so that a line that happens to begin with "42. " cuts nothing. Text before the first number is a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, blocks, cut

__all__ = ["numbered"]

_STEP_LINE = re.compile(r"^[^\S\n]*(?:#{1,6}[^\S\n]+)?[*_]{0,3}step[^\S\n]+(\d{1,6})\b", re.MULTILINE | re.IGNORECASE)
_NUMBER_LINE = re.compile(r"^[*_]{0,3}(\d{1,6})[.)][*_]{0,3}[^\S\n]", re.MULTILINE)


@register("segmenter", "numbered")
def numbered() -> Segmenter:
    """Each numbered step ("Step 3:", "3.", "3)" at the start of a line) is a step."""
    return _segment


def _segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
    whole = blocks(text)
    marker = _STEP_LINE if _STEP_LINE.search(text) else _NUMBER_LINE
    return cut(text, _starts(marker, text), whole)


def _starts(marker: re.Pattern[str], text: str) -> Iterator[int]:
    expected: int | None = None
    for match in marker.finditer(text):
        number = int(match[1])
        if expected is None or number == expected:
            expected = number + 1
            yield match.start()
