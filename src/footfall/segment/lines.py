"""A step is a line, or a paragraph. Only `\\n` breaks a line (with or without `\\r`); white space alone is a blank line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, blocks, cut

__all__ = ["blank_lines", "lines"]

_LINE_END = re.compile(r"\n(?:[^\S\n]*\n)*")
_PARAGRAPH_END = re.compile(r"\n(?:[^\S\n]*\n)+")


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
