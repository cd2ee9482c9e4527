"""Steps by the text alone: its layout, its sentences, its thoughts.

Layout: a step is a line, a paragraph, or begins at a line that numbers it. Only `\\n` breaks a line (with or without `\\r`);
white space alone is a blank line. Numbers are "Step 3:", "### Step 3", "**Step 3.**", "3." or "3)". If the text has "Step k"
lines, only they count, and a list inside a step stays in it. Numbers must go up by one from whatever the first is, so that a
line that happens to begin with "42. " cuts nothing. Text before the first number is a step.

Step markers: "Step 1: …" to "Step n: …" at the start of lines or, with a colon, anywhere in them. They count only if they are
numbered 1, 2, …, n in order and n is at least 2, so that a mention of "Step 1:" in a sentence cuts nothing.

Sentences: rules, not a model: they are meant for reasoning traces and say what they do not decide. A sentence ends at `.`,
`!` or `?` (with closing quotes and brackets) before white space, at `。！？` anywhere, and at a blank line. It does not end at
the point
- of a number (3.14: no white space follows) or of a list's number at the start of a line ("2. Then …");
- before a lower-case letter, so "etc. and" goes on, and so does a sentence that would begin with a variable's name;
- of an abbreviation: titles and "e.g." always, "Eq.", "Fig.", "No." only before a number;
- inside display mathematics or fenced code.
A single capital letter ends a sentence: in such traces "… meets A. Then …" is far more common than an initial.

Thoughts of a long chain of thought: one goes on until the writer turns ("Wait", "Alternatively", "Let me check"). A turn counts
only where a sentence or a line begins, and not inside display mathematics or fenced code. With think tags only what is
between them is thought; the answer after them is one step. A text that begins inside a section (the opening tag was part of
the prompt), has no closing tag (it was cut off) or has no tags at all is read accordingly.

A segmenter gives spans that touch each other and cover the text, so that nothing is lost in cutting.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from footfall.registry import register
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


_STEP = r"(?:#{1,6}[^\S\n]+)?[*_]{0,3}step[^\S\n]+(\d{1,6})[^\S\n]*"
_STEP_HEADS = (
    re.compile(rf"^[^\S\n]*{_STEP}(?:[*_]{{0,3}}[:.)—–-]|[*_]{{1,3}}[^\S\n]*$|$)", re.MULTILINE | re.IGNORECASE),
    re.compile(rf"(?<!\S){_STEP}[*_]{{0,3}}:", re.IGNORECASE),
)
"""At the start of lines; and anywhere."""


@register("segmenter", "step-markers")
def step_markers() -> Segmenter:
    """Each "Step k:" begins a step, in a line of its own or not; all is one step if they are not numbered 1 to n."""

    def segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        return cut(text, marked_steps(text))

    return segment


def marked_steps(text: str) -> list[int]:
    """Where the steps of a text begin that numbers them "Step 1:" to "Step n:"; empty if it does not do so clearly."""
    whole = blocks(text)
    for head in _STEP_HEADS:
        found = {match.start(): int(match[1]) for match in head.finditer(text)}
        places = list(outside(found, whole))
        if len(places) > 1 and [found[place] for place in places] == list(range(1, len(places) + 1)):
            return places
    return []


_CLOSING = r"[\"'”’»)\]*_]*"
_END = re.compile(
    rf"(?<![.!?…])(?P<mark>[.!?…]+){_CLOSING}(?P<gap>\s+)(?=(?P<next>\S))|[。！？]+[”’」』）]*\s*|\n(?:[^\S\n]*\n)+"
)
_LIST_NUMBER = re.compile(r"\n[^\S\n]*(?:\d{1,3}|[A-Za-z])$")
_LAST_WORD = re.compile(r"[A-Za-z.]+$")
_ALWAYS = frozenset("e.g i.e cf vs viz mr mrs ms dr prof approx resp w.r.t s.t w.l.o.g".split())  # noqa: SIM905
_BEFORE_A_NUMBER = frozenset("no nos eq eqs eqn fig figs sec ch thm lem prop def ex tab p pp vol".split())  # noqa: SIM905
_LONGEST_WORD = 12


@register("segmenter", "sentences")
def sentences() -> Segmenter:
    """Each sentence is a step; decimals, abbreviations, list numbers and display mathematics do not end one."""
    return _segment


def _segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
    places = (match.end() for match in _END.finditer(text) if _ends_sentence(text, match))
    return cut(text, places, blocks(text))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    mark = match["mark"]
    if mark is None or mark[-1] in "!?" or _holds_blank_line(match["gap"]):
        return True
    if match["next"].islower():
        return False
    start = max(0, match.start() - _LONGEST_WORD)
    before = ("" if start else "\n") + text[start : match.start()]
    if mark == "." and _LIST_NUMBER.search(before):
        return False
    word = _LAST_WORD.search(before)
    known = word[0].lower() if word else ""
    return known not in _ALWAYS and not (known in _BEFORE_A_NUMBER and match["next"] in "0123456789(")


def _holds_blank_line(gap: str) -> bool:
    return gap.count("\n") > 1


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
    for at in outside((match.start("turn") for match in turn.finditer(thought)), blocks(thought)):
        if thought[:at].removeprefix(opening).strip():
            yield section.start + at


def _far_enough(edges: Sequence[int], turns: Sequence[int], min_length: int) -> Iterator[int]:
    """The edges of sections, and those turns that lie `min_length` characters behind the cut before them."""
    last = 0
    fixed = set(edges)
    for place in sorted({*edges, *turns}):
        if place in fixed or place - last >= min_length:
            last = place
            yield place
