"""Plain numbers, read exactly: integers, decimals, fractions, mixed numbers, percent, thousands separators, units.

Most answers are of this kind, and for them no computer algebra is needed: `57,500`, `\\$0.50`, `1/2`, `\\frac{1}{2}`,
`1 1/2`, `50\\%`, `5 apples`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

__all__ = ["Number", "read_number", "same_number"]

LONGEST = 120
"""Characters; nothing longer is read as a plain number."""
TOLERATED_PLACES = 6
"""A decimal of at least this many places stands for every number that rounds to it, as in math-verify."""

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"""(?P<sign>[+-]?)\s*\$?\s*(?:
        (?:(?P<whole>\d+)\s+|(?P<tight>\d+)(?=\\frac))?
        (?:(?P<over>{_UNSIGNED})\s*/\s*(?P<under>{_UNSIGNED})|\\frac\s*{{(?P<top>[+-]?\d+)}}\s*{{(?P<bottom>\d+)}})
        |(?P<plain>{_UNSIGNED})(?P<exponent>[eE][+-]?\d{{1,2}})?
    )\s*(?P<percent>%|percent\b)?\s*(?P<unit>\ [mgshlL]|[A-Za-z][A-Za-z .]+|\^\{{?\\circ\}}?|°)?""",
    re.VERBOSE,
)
_DEGREES = re.compile(r"\^\{?\\circ\}?|°")
_NOT_UNITS = re.compile(
    r"\b(?:and|or|to|from|with|is|not|plus|minus|times|over|by|of|mod|half|halves|thirds?|quarters?|dozen|score|hundred|"
    r"thousand|million|billion|trillion|pi|sqrt|sin|cos|tan|log|ln|exp|inf|infinity|squared|cubed|factorial|pairs?)\b",
    re.IGNORECASE,
)


class Number(NamedTuple):
    """An exact value as it was written: `50%` has the value 1/2, `1.50 m` has two places and the unit `m`."""

    value: Fraction
    percent: bool
    unit: str
    places: int

    def __str__(self) -> str:
        shown = f"{self.value * 100}%" if self.percent else str(self.value)
        return f"{shown} {self.unit}".rstrip()


def read_number(text: str) -> Number | None:
    """The number that `text` is, all of it, or `None`. `text` is stripped of LaTeX dress already."""
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        return None
    unit = _DEGREES.sub("degrees", match["unit"] or "").strip(" .").lower()
    if unit and (len(unit.split()) > 2 or _NOT_UNITS.search(unit)):  # `5 million` is not 5
        return None
    value = _value(match)
    if value is None:
        return None
    plain = match["plain"] or ""
    places = len(plain.partition(".")[2])
    percent = match["percent"] is not None
    return Number(value / 100 if percent else value, percent, unit, places)


def _value(match: re.Match[str]) -> Fraction | None:
    if match["plain"] is not None:
        value = Fraction(match["plain"].replace(",", "") + (match["exponent"] or ""))
    else:
        over, under = (Fraction((a or b).replace(",", "")) for a, b in
                       ((match["over"], match["top"]), (match["under"], match["bottom"])))  # fmt: skip
        whole = match["whole"] or match["tight"]
        if under == 0 or (whole is not None and over < 0):
            return None
        value = over / under + (Fraction(whole) if whole else 0)
    return -value if match["sign"] == "-" else value


def same_number(a: Number, b: Number) -> bool:
    """Equal values with units that do not contradict. `50%` equals both `0.5` and a bare `50`, as in math-verify."""
    if a.unit and b.unit and a.unit != b.unit:
        return False
    if a.percent != b.percent:
        percent, bare = (a, b) if a.percent else (b, a)
        return bare.value in (percent.value, percent.value * 100)
    places = max(a.places, b.places)
    slack = Fraction(1, 2 * 10**places) if places >= TOLERATED_PLACES and not _terminates(a, b) else Fraction(0)
    return abs(a.value - b.value) <= slack


def _terminates(*numbers: Number) -> bool:
    """Whether all have a finite decimal expansion; only then must two decimals agree to the last digit."""
    return all(10 ** number.value.denominator.bit_length() % number.value.denominator == 0 for number in numbers)
