"""Equations that a problem states in words: `7 less than 3 times a number x is 11` is 3x - 7 = 11."""

from __future__ import annotations

import re

__all__ = ["worded_equations"]

_N = r"(-?\d+(?:[./]\d+)?)"
_AX = rf"{_N} times (?:a number |the number )?([a-z])\b"
_FORMS = (
    (rf"{_AX},? (plus|minus) {_N} times ([a-z]),? is {_N}", "({0}){1} {2} ({3}){4} = {5}"),
    (rf"{_AX},? (plus|minus) {_N},? is {_N}", "({0}){1} {2} ({3}) = {4}"),
    (rf"sum of {_N} and {_AX} is {_N}", "({1}){2} + ({0}) = {3}"),
    (rf"{_N} more than {_AX} is {_N}", "({1}){2} + ({0}) = {3}"),
    (rf"{_N} less than {_AX} is {_N}", "({1}){2} - ({0}) = {3}"),
    (rf"if {_N} is taken from {_AX}, {_N} is left", "({1}){2} - ({0}) = {3}"),
    (rf"square of a number ([a-z]), (plus|minus) {_N} times (?:the number|[a-z])(?:, is|: the result is) {_N}",
     "{0}^2 {1} ({2}){0} = {3}"),
    (rf"(?:sum of )?two numbers ([a-z]) and ([a-z]) (?:is|add up to) {_N}", "{0} + {1} = {2}"),
)  # fmt: skip
_READ = tuple((re.compile(pattern, re.IGNORECASE), equation) for pattern, equation in _FORMS)
_SIGNS = {"plus": "+", "minus": "-"}


def worded_equations(text: str) -> list[str]:
    """All equations that the text says in one of the forms above, each part of it read once."""
    found: list[tuple[int, str]] = []
    for pattern, equation in _READ:
        for match in pattern.finditer(text):
            words = [_SIGNS.get(word.lower(), word) for word in match.groups()]
            found.append((match.start(), equation.format(*words)))
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return [equation for _, equation in sorted(found)]
