"""What stands after an equation between numbers, and whether some of it belongs to the right side.

    complete   "3 * 4 = 12 apples"             nothing does
    doubtful   "7 / 2 = 3 boxes with 1 over"   a number after it may: a false equation may not be meant as it stands
    lost       "7 / 2 = 3 remainder 1"         something does: "6:00", "0.0011_2", "1 dozen", "5AD", "3,5", "12 \\cos C"

The mirror of what stands before it.
"""

from __future__ import annotations

import re

from footfall.label._formal_before import NUMBERS, OPERATORS, SENTENCE, Reading

__all__ = ["following"]

_GLUED = re.compile(r"[^\s.,:;?!)\]}\"”*]|[.,:;/'’][\w\\.]")
_ROUNDED = re.compile(r"\s*(?:≈|≃|~|\\approx|\\sim|…|\.\.)")
_GOES_ON = re.compile(r"[^\S\n]*(?:\\|[-+*/^<>=≤≥≡±√|\[{\d]|[^\W\dAaI_](?!\w)|[AaI](?![^\S\n]+[A-Za-z]{2}|\w))")
_MONTHS = (
    r"january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_BELONGS = re.compile(
    rf"[^\S\n,]*,?\s*(?:with|and|plus|leaving|having)?\s*(?:an?|the)?\s*(?:{OPERATORS}|remainder|rem|remaining|left\s?over|mod"
    rf"|a\.?m|p\.?m|o['’]clock|{_MONTHS})\b",
    re.IGNORECASE,
)  # fmt: skip
_PLAIN = re.compile(r"[^\S\n]*(?:(?:more|less|fewer|left)\b(?!\s*over)|over\s+(?:the|a)\b)", re.IGNORECASE)
_NUMBER = re.compile(rf"\d|\b(?:{NUMBERS}|remainder|left\s?over|remaining|over|rest)\b", re.IGNORECASE)


def following(after: str, until: int | None) -> Reading:
    """How the text after an equation leaves its right side; another equation may begin at `until`."""
    if _ROUNDED.match(after):
        return "doubtful"
    if _GLUED.match(after) or _GOES_ON.match(after[:until]):
        return "lost"
    clause = SENTENCE.split(after[:until])[0]
    if _BELONGS.match(clause) and not _PLAIN.match(clause):
        return "lost"
    return "doubtful" if after[:1] == "!" or _NUMBER.search(clause) else "complete"
