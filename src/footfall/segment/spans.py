"""What a segmenter is: text to spans that touch each other and cover the text, so that nothing is lost in cutting."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from footfall.types import Step


class Span(NamedTuple):
    """Characters `start` to `end` (not included): one step with the separator that closes it."""

    start: int
    end: int


class Token(NamedTuple):
    """A token's place in the text and its logprob under the writer, for segmenters that cut where the writer wavered."""

    start: int
    end: int
    logprob: float | None = None
    entropy: float | None = None
    """Of the distribution that the token was drawn from, in nats."""


class Segmenter(Protocol):
    """Cuts a text. `"".join(text[a:b] for a, b in spans) == text`, and no span is empty."""

    def __call__(self, text: str, tokens: Sequence[Token] = ()) -> list[Span]: ...


def split_steps(
    text: str, segmenter: Segmenter, tokens: Sequence[Token] = (), keep_empty: bool = False
) -> tuple[Step, ...]:
    """The steps of a text: no blank lines before, no white space after, indentation kept.

    Spans of white space alone give no step unless `keep_empty`.
    """
    spans = segmenter(text, tokens)
    _check(text, spans)
    texts = [_BLANK_LINES.sub("", text[start:end]).rstrip() for start, end in spans]
    return tuple(Step(step) for step in texts if step or keep_empty)


_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


def _check(text: str, spans: Sequence[Span]) -> None:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    for k, (end, start) in enumerate(zip(ends, starts, strict=True)):
        if end != start:
            raise ValueError(
                f"the segmenter does not cover the text: step {k} ends at {end}, step {k + 1} starts at {start}"
            )


def token_spans(tokens: Sequence[Token], spans: Sequence[Span]) -> list[Span]:
    """For each step the tokens `start` to `end` (not included) that begin in it; together they are all the tokens.

    A token across a boundary, as only a cut by characters leaves one, belongs to the step that it begins in.
    """
    ends = [bisect_left(tokens, span.end, key=_start) for span in spans[:-1]] + [len(tokens)] * bool(spans)
    return [Span(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _start(token: Token) -> int:
    return token.start


def cut(text: str, places: Iterable[int], uncut: Sequence[Span] = ()) -> list[Span]:
    """The spans between the places, leaving out those inside an `uncut` span and any that would leave a blank step.

    White space in front of the first step and behind the last belongs to them.
    """
    spans: list[Span] = []
    start, last = 0, len(text.rstrip())
    for place in outside(sorted(places), uncut):
        if place < last and text[start:place].strip():
            spans.append(Span(start, place))
            start = place
    return [*spans, Span(start, len(text))] if text else []


def outside(places: Iterable[int], uncut: Iterable[Span]) -> Iterator[int]:
    """The places, in order, that lie inside none of the spans, in order."""
    inner = iter(uncut)
    block = next(inner, None)
    for place in places:
        while block is not None and block.end <= place:
            block = next(inner, None)
        if block is None or block.start >= place:
            yield place


_OPENER = re.compile(r"\$\$|(?<!\\)\\\[|```|\\begin\{([^{}\n]{1,40})\}")
_CLOSERS = {"$$": "$$", "\\[": "\\]", "```": "```"}


def blocks(text: str) -> list[Span]:
    """Display mathematics (`$$…$$`, `\\[…\\]`, environments) and fenced code. One that is never closed is no block."""
    found: list[Span] = []
    never_closed: set[str] = set()
    opener = _OPENER.search(text)
    while opener is not None:
        closer = _CLOSERS.get(opener[0], f"\\end{{{opener[1]}}}")
        at = -1 if closer in never_closed else text.find(closer, opener.end())
        if at < 0:
            never_closed.add(closer)
            opener = _OPENER.search(text, opener.end())
        else:
            found.append(Span(opener.start(), at + len(closer)))
            opener = _OPENER.search(text, at + len(closer))
    return found
