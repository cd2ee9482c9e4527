"""Steps of a long chain of thought: one thought goes on until the writer turns ("Wait", "Alternatively", "Let me check").

A turn counts only where a sentence or a line begins, and not inside display mathematics or fenced code. With think tags
only what is between them is thought; the answer after them is one step. A text that begins inside a section (the
opening tag was part of the prompt), has no closing tag (it was cut off) or has no tags at all is read accordingly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, blocks, cut

PIVOTS = (
    "wait", "but wait", "no, wait", "oh wait", "hmm", "but hmm", "hold on", "alternatively", "actually", "on second thought",
    "let me check", "let me double-check", "let me double check", "let me verify", "let me re-check", "let me recheck",
    "let me reconsider", "let me rethink", "let me try another", "let me try again", "let's try another", "another way",
    "another approach", "等等", "等一下", "不对", "或者", "换个", "让我检查", "让我验证",
)  # fmt: skip
"""How a new thought begins."""

_SENTENCE_START = r"(?:(?<=\n)|\A|(?<=[.!?…:)\]*\"”>])(?=\s)|(?<=[。！？：；]))[^\S\n]*"


class _Tags(NamedTuple):
    opening: str
    closing: str


@register("segmenter", "thoughts")
def thoughts(
    pivots: Sequence[str] = PIVOTS, opening: str = "<think>", closing: str = "</think>", min_length: int = 0
) -> Segmenter:
    """Each thought of a long chain of thought is a step: cut at think tags and before turns such as "Wait".

    A turn cuts only if the thought before it has at least `min_length` characters.
    """
    if not opening or not closing or min_length < 0:
        raise ValueError(f"tags must not be empty nor min_length negative: {opening!r}, {closing!r}, {min_length}")
    tags = _Tags(opening, closing)
    turn = _turn(pivots)

    def segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        sections = _sections(text, tags)
        edges = [start for start, _ in sections]
        turns = [at for section in sections[::2] for at in _turns(turn, text, section, opening)]
        return cut(text, _far_enough(edges, turns, min_length))

    return segment


def _turn(pivots: Sequence[str]) -> re.Pattern[str]:
    # \b ends a Latin word ("Waiting" is no turn); Chinese has no spaces to end one.
    words = (re.escape(word) + (r"\b" if word[-1:].isascii() else "") for word in sorted(pivots, key=len, reverse=True))
    return re.compile(rf"{_SENTENCE_START}(?P<turn>{'|'.join(words) or '(?!)'})", re.IGNORECASE)


def _sections(text: str, tags: _Tags) -> list[Span]:
    """Thought, answer, thought, …: they cover the text, and a section may be empty. A tag belongs to its thought."""
    first = text.find(tags.opening), text.find(tags.closing)
    thinking = first[0] < 0 or 0 <= first[1] < first[0]
    found = [] if thinking else [Span(0, 0)]
    start = at = 0
    while True:
        tag = tags.closing if thinking else tags.opening
        at = text.find(tag, at)
        if at < 0:
            return [*found, Span(start, len(text))]
        end = _behind_space(text, at + len(tag)) if thinking else at
        found.append(Span(start, end))
        at += len(tag)
        start, thinking = end, not thinking


def _behind_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _turns(turn: re.Pattern[str], text: str, section: Span, opening: str) -> Iterator[int]:
    """Where a thought section turns; its tag alone is no thought."""
    thought = text[section.start : section.end]
    uncut = iter(blocks(thought))
    block = next(uncut, None)
    for match in turn.finditer(thought):
        at = match.start("turn")
        while block is not None and block.end <= at:
            block = next(uncut, None)
        inside = block is not None and block.start < at
        if not inside and thought[:at].removeprefix(opening).strip():
            yield section.start + at


def _far_enough(edges: Sequence[int], turns: Sequence[int], min_length: int) -> Iterator[int]:
    """The edges of sections, and those turns that lie `min_length` characters behind the cut before them."""
    last = 0
    fixed = set(edges)
    for place in sorted({*edges, *turns}):
        if place in fixed or place - last >= min_length:
            last = place
            yield place
