"""Steps by the layout of a text: a step is a line, a paragraph, or begins at a line that numbers it.

Only `\\n` breaks a line (with or without `\\r`); white space alone is a blank line. Numbers are "Step 3:", "### Step 3",
"**Step 3.**", "3." or "3)". If the text has "Step k" lines, only they count, and a list inside a step stays in it. Numbers
must go up by one from whatever the first is, so that a line that happens to begin with "42. " cuts nothing. Text before the
first number is a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, blocks, cut

_LINE_END = re.compile(r"\n(?:[^\S\n]*\n)*")
_PARAGRAPH_END = re.compile(r"\n(?:[^\S\n]*\n)+")
_STEP_LINE = re.compile(r"^[^\S\n]*(?:#{1,6}[^\S\n]+)?[*_]{0,3}step[^\S\n]+(\d{1,6})\b", re.MULTILINE | re.IGNORECASE)
_NUMBER_LINE = re.compile(r"^[*_]{0,3}(\d{1,6})[.)][*_]{0,3}[^\S\n]", re.MULTILINE)


@register("segmenter", "lines")
def lines(keep_blocks: bool = False) -> Segmenter:
    """Each line is a step; blank lines belong to the line before them.

    `keep_blocks` keeps display mathematics and fenced code of several lines in one step.
    """
    return _cut_after(_LINE_END, keep_blocks)


@register("segmenter", "blank-lines")
def blank_lines(keep_blocks: bool = True) -> Segmenter:
    """Each paragraph is a step; a blank line inside `$$…$$`, an environment or fenced code does not end it.

    With `keep_blocks=False` every blank line cuts, as generation that stops at two line breaks does.
    """
    return _cut_after(_PARAGRAPH_END, keep_blocks)


def _cut_after(end: re.Pattern[str], keep_blocks: bool) -> Segmenter:
    def segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        return cut(text, (match.end() for match in end.finditer(text)), blocks(text) if keep_blocks else ())

    return segment


@register("segmenter", "numbered")
def numbered() -> Segmenter:
    """Each numbered step ("Step 3:", "3.", "3)" at the start of a line) is a step."""
    return _by_number


def _by_number(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
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
