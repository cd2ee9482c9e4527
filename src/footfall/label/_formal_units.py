"""What is counted on either side of an equation: unit words and currency signs, kept as marks beside their numbers.

    "5 apples + 3 apples = 9 apples"        one unit: the numbers decide
    "2 hours + 30 minutes = 150 minutes"    two: the numbers do not
    "30 + 30 = 1 hour"                      one side only, and sixty of one are one of the other: they may not

A unit that no number of the other kind stands beside changes nothing.
"""

from __future__ import annotations

import re

from footfall.label._formal_before import OPERATORS

__all__ = ["bare", "clash", "counted_after", "marked", "units_in"]

_GAP = r"[^\S\n]"
_NO_UNIT = rf"(?!{OPERATORS}\b)[a-zA-Z]{{2,}}"
_UNIT = re.compile(rf"(?<=\d){_GAP}+({_NO_UNIT}(?:{_GAP}+{_NO_UNIT})?){_GAP}*(?=[-+*/=)])", re.IGNORECASE)
_MARK = re.compile(r"⟨([^⟨⟩]*)⟩")
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound"}
_NEXT = re.compile(rf"{_GAP}*([A-Za-z]{{2,}})\b")
_NO_COUNT = re.compile(
    r"and|or|so|then|which|that|in|for|per|each|every|is|are|was|were|to|from|with|because|since|after|before|now|on|at|of|if|but"
    r"|as|by|when|where|while|this|these|he|she|it|they|we|you|the|an|total|altogether|more|less|left|again|too|also|will|can|has",
    re.IGNORECASE,
)  # fmt: skip
_ALIASES = {
    "hr": "hour", "min": "minute", "sec": "second", "wk": "week", "yr": "year", "ft": "foot", "feet": "foot", "in": "inch",
    "yd": "yard", "mi": "mile", "lb": "pound", "oz": "ounce", "penny": "cent", "buck": "dollar", "metre": "meter",
    "kilometre": "kilometer", "centimetre": "centimeter", "millimetre": "millimeter", "litre": "liter", "km": "kilometer",
    "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "gram": "g", "mg": "milligram", "ml": "milliliter",
}  # fmt: skip
_KINDS = (
    frozenset(("second", "minute", "hour", "day", "week", "fortnight", "month", "year", "decade", "century")),
    frozenset(("dollar", "cent", "dime", "nickel", "quarter", "euro")),
    frozenset(("millimeter", "centimeter", "meter", "kilometer", "inch", "foot", "yard", "mile")),
    frozenset(("milligram", "g", "kilogram", "ounce", "pound", "ton", "tonne")),
    frozenset(("milliliter", "liter", "teaspoon", "tablespoon", "cup", "pint", "quart", "gallon")),
)
"""Measures of one kind are not added as they stand."""


def marked(text: str) -> str:
    """The text with each unit before an operation, and each currency sign, as a mark: `5 ⟨apple⟩ + 3 ⟨apple⟩`."""
    text = re.sub(r"[$€£]", lambda match: f"⟨{_CURRENCIES[match[0]]}⟩", text)
    return _UNIT.sub(lambda match: f" ⟨{_singular(match[1].split()[-1])}⟩ ", text)


def bare(text: str) -> str:
    """The text without its marks."""
    return _MARK.sub(" ", text)


def units_in(text: str) -> set[str]:
    """The units of a marked text."""
    return {mark for mark in _MARK.findall(text) if mark.isalpha()}


def counted_after(text: str) -> set[str]:
    """What the number right before this text counts, if a word says so."""
    word = _NEXT.match(text)
    return set() if word is None or _NO_COUNT.fullmatch(word[1]) else {_singular(word[1])}


def clash(units: set[str]) -> bool:
    """Whether two of the units measure the same kind of thing: hours and minutes, dollars and cents."""
    return any(len(units & kind) > 1 for kind in _KINDS)


def _singular(word: str) -> str:
    word = word.lower()
    for ending, instead in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1 and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    return _ALIASES.get(word, word)
