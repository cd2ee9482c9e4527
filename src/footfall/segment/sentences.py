"""A step is a sentence. Rules, not a model: they are meant for reasoning traces and say what they do not decide.

A sentence ends at `.`, `!` or `?` (with closing quotes and brackets) before white space, at `。！？` anywhere, and at a blank
line. It does not end at the point
- of a number (3.14: no white space follows) or of a list's number at the start of a line ("2. Then …");
- before a lower-case letter, so "etc. and" goes on, and so does a sentence that would begin with a variable's name;
- of an abbreviation: titles and "e.g." always, "Eq.", "Fig.", "No." only before a number;
- inside display mathematics or fenced code.
A single capital letter ends a sentence: in such traces "… meets A. Then …" is far more common than an initial.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, blocks, cut

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
