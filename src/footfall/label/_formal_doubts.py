"""Why an equation that is false as it was read may be right as it was meant. It is then left without a label.

Of a problem: it may be about another arithmetic (modulo, a base, the clock). Of a step: it may round, suppose, ask or reject
what it says. Of an equation: a rounded decimal, a whole quotient, a number of a list, a sum that runs on (`2 + 3 = 5 + 4`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from footfall.label._formal_before import SENTENCE

__all__ = ["ambiguous", "another_arithmetic", "not_claimed", "rounded"]

_ANOTHER = re.compile(
    r"\bmod(?:ul\w+)?\b|\\[pb]?mod\b|≡|\\equiv\b|\bcongruen\w*|\bremainders?\b|\bquotients?\b|\bbase[- ](?:\d+|\w+)\b|\d_\{?\d"
    r"|\b(?:binary|octal|hexadecimal|clocks?|noon|midnight|roman)\b|o['’]clock|\d\s*[ap]\.?m\b|\d:\d\d\b|\boperation\b(?!s)"
    r"|\\(?:circ|oplus|otimes|odot|star|diamond|ast|bullet|dagger)\b|[⊕⊗⊙∘⋆★◇]|\blong division\b",
    re.IGNORECASE,
)  # fmt: skip
_ROUNDING = re.compile(
    r"\bround\w*|\bapprox\w*|≈|\\approx|\bnearest\b|\bestimat\w*|\broughly\b|\bnearly\b|\balmost\b|\btruncat\w*"
    r"|\b(?:about|around)\s+[$€£]?\d",
    re.IGNORECASE,
)  # fmt: skip
_REJECTED = re.compile(
    r"\b(?:wrong(?:ly)?|incorrect(?:ly)?|false|mistaken?(?:ly)?|mistakes?|errors?|contradict\w*|impossible|absurd|invalid|wait|oops"
    r"|actually|not (?:equal|true|right|correct|possible|valid|work)|n['’]t (?:equal|true|right|correct|work|hold|match)"
    r"|not (?:hold|match|satisf\w+)|rather than|instead of)\b",
    re.IGNORECASE,
)  # fmt: skip
_SUPPOSED = re.compile(
    r"\b(?:not|never|cannot|if|suppose|supposing|assum\w+|would|unless|whether|unlike|no longer|try|trying|guess\w*|say)\b"
    r"|n['’]t\b|\?",
    re.IGNORECASE,
)
_AMBIGUOUS = re.compile(
    r"\(\s*\d+\s*\)\s*[\d(]|\d\s+\(|/\s*\d+(?:\.\d+)?\s*\(|(?:^|=)\s*-\s*\d+\s*\^|\^[^-+*/=]*\^|(?<![\d.])[1-9]\d{0,2}\.\d{3}(?!\d)"
)
"""A number of a list or a product, what is divided by, what is raised, a point between thousands or before decimals."""
_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*")
_LIST_ITEM = re.compile(r"\s*\d+\s+-\s+(?=[\d(])")
_FIRST = re.compile(r"\s*(\d+(?:\.\d+)?)\s*[-+*/]")
_DECIMAL = re.compile(r"(?<![\d.])(\d*\.(\d{2,}))(?![\d.])")
_WHOLE = re.compile(r"\s*-?\d+\s*")

Value = Callable[[str], "Fraction | None"]


def another_arithmetic(text: str) -> str | None:
    """What in a problem or a step says that numbers may not be added and multiplied as usual."""
    found = _ANOTHER.search(text)
    return found and f"may be meant in another arithmetic ({found[0].strip()!r})"


def not_claimed(text: str, start: int, end: int) -> str | None:
    """Why the equation that stands at these places in a step may not be claimed to hold exactly."""
    found = _ROUNDING.search(text) or _REJECTED.search(text)
    if found:
        return f"may be rounded or rejected ({found[0]!r})"
    before, after = SENTENCE.split(text[:start])[-1], _to_sentence_end(text[end:])
    found = _SUPPOSED.search(before) or _SUPPOSED.search(after)
    return found and f"may only be supposed ({found[0]!r})"


def _to_sentence_end(text: str) -> str:
    stop = SENTENCE.search(text + "\n")
    return text[: stop.start() + 1] if stop else text


def ambiguous(left: str, right: str, value: Value) -> str | None:
    """How else a false equation between numbers can be read."""
    if _AMBIGUOUS.search(left) or _AMBIGUOUS.search(right):
        return "can be read in two ways"
    item = _LIST_ITEM.match(left)
    if item and value(left[item.end() :]) == value(right):
        return "may begin with the number of a list"
    apart = _RANGE.fullmatch(left)
    if apart and int(apart[1]) < int(apart[2]) and (value(right) or 0) > 0:
        return "may be a range"
    above, bar, below = left.rpartition("/")
    if bar and value(f"({above})/{below}") == value(right) is not None:
        return "may have lost a fraction bar"
    first = _FIRST.match(right)
    if first and value(left) == Fraction(first[1]):
        return "goes on computing after the equals sign"
    return None


def rounded(left: str, right: str, value: Value) -> bool:
    """Whether the sides may differ by rounding: a whole number in place of a quotient, or decimals that were cut before."""
    values = value(left), value(right)
    if values[0] is None or values[1] is None:
        return False
    away = abs(values[0] - values[1])
    for side, exact in ((left, values[1]), (right, values[0])):
        if _WHOLE.fullmatch(side) and exact.denominator > 1 and away < 1:
            return True
    return away <= _slack(left, value) + _slack(right, value)


def _slack(side: str, value: Value) -> Fraction:
    """How far the value may be off if every decimal of two places and more was rounded at its last."""
    total, exact = Fraction(0), value(side)
    for match in _DECIMAL.finditer(side):
        half = Fraction(1, 2 * 10 ** len(match[2]))
        moved = [value(f"{side[: match.start()]}({match[1]} {sign} {half}){side[match.end() :]}") for sign in "+-"]
        total += max((abs(other - exact) for other in moved if other is not None and exact is not None), default=half)
    return total
