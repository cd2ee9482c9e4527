"""The equations that a text states, made plain: LaTeX, marks of units, chains, and what stands before and after them.

A text in which an `=` belongs to no equation that can be read states nothing that can be held against it: `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from footfall.label._formal_after import following
from footfall.label._formal_before import Reading, reading
from footfall.label._formal_doubts import not_claimed
from footfall.label._formal_units import bare, clash, counted_after, marked, units_in

__all__ = ["Stated", "Unreadable", "computes", "equations_in", "letters_in", "names_in"]

_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "²": "^2"})
_WRITTEN = (
    (r"<<[^<>]*>>", ""), (r"\\\$", "$"), (r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}", r" \1 "),
    (r"\\\\(?![A-Za-z])|\\[\[\]]|\$\$", "\n"), (r"\$([^$\n]*[^$\s])\$(?!\d)", r"‖\1‖"),
    (r"\\[()]|(?<=[\w)}.!\]])\$", "‖"), (r"&", " "), (r"\n\s*(?==)", " "),
    (r"\\(?:left|right|q?quad|displaystyle)\b|\\[,;! ]", " "), (r"\\(?:implies|Rightarrow|therefore|to)\b", "→"),
    (r"(?<![\d.])(\d+)\s*\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}", r"(\1+\2/\3)⟨¼⟩"),
    (r"(?<![\d./])(\d+)\s(\d+)/(\d+)(?![\d./])", r"(\1+\2/\3)⟨¼⟩"),
    (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))"), (r"\\(?:times|cdot)\b", "*"), (r"\\div\b", "/"),
    (r"(?<=\d)\{?,\}?(?=\d{3}(?!\d))", ""), (r"(?<=\d) [xX] (?=\$?\d)", "*"), (r"(?<=\d) ?[xX] ?(?=\$?\d)", "⟨×⟩*"),
    (r"(\d+(?:\.\d+)?|\.\d+)\s*%", r"(\1/100)"),
)  # fmt: skip
"""How a text is made plain. `‖` ends a formula, a line ends a sentence; `⟨¼⟩` and `⟨×⟩` mark what may be a product, or none."""
_UNKNOWN = re.compile(r"(?<![A-Za-z'’])[A-Za-z](?![A-Za-z])")
_LETTER = (
    r"(?<![A-Za-z'’])(?:[b-hj-zB-HJ-Z](?![A-Za-z])|[AaIi](?=[^\S\n]*[-+*/^=])"
    r"|(?:(?<=[\d(+*/^=-])|(?<=[(+*/^=-] ))[AaIi](?![A-Za-z'’]|[^\S\n]+[A-Za-z]{2}))"
)
"""An unknown. A, a, I and i are words too: they are unknowns beside an operation or an `=`, unless a word follows."""
_WORD = re.compile(r"\b[AaI][^\S\n]+(?=[A-Za-z]{2})")
_PIECE = rf"(?:\d+(?:\.\d+)?|\.\d+|{_LETTER}|[-+*/^()=]|⟨[^⟨⟩]*⟩)"
_SPAN = re.compile(rf"{_PIECE}(?:[^\S\n]*{_PIECE})*")
_RUN_TOGETHER = re.compile(r"\d\s+[\d.]")
_JOINT = re.compile(r"\s*,?\s*(?:or|and|,)\s*", re.IGNORECASE)
_VALUE = re.compile(r"\s*([A-Za-z])\s*=\s*[-()\d./\s]+")


class Unreadable(Exception):
    """An `=` that is in no equation which can be read."""


class Stated(NamedTuple):
    """An equation of a text."""

    equation: str
    doubt: str | None = None
    """Why it may be meant otherwise if it is false as it stands."""
    one_sided: bool = False
    """Whether one side alone says what is counted."""
    names: str | None = None
    """The unknown that names what the rest of its chain computes: `B = 3 + 4`, of `B = 3 + 4 = 7`."""


class _Link(NamedTuple):
    """Two sides of a chain, and whether the first stands there as the name of something (`5 pairs = 5 * 2`)."""

    left: str
    right: str
    names: bool


def equations_in(text: str) -> list[Stated]:
    """The equations that a text states; alternatives (`x = 2 or x = 3`) are one, a chain `a = b = c` is two."""
    plain = _plain(text)
    spans = [span for span in _SPAN.finditer(plain) if "=" in span[0]]
    found: list[Stated] = []
    before, end = "", 0
    for k, span in enumerate(spans):
        between = plain[end : span.start()]
        before, end = before + between, span.end()
        sides = bare(span[0]).split("=")
        after, until = plain[end:].replace("‖", " "), spans[k + 1].start() - end if k + 1 < len(spans) else None
        how = _reading(before.replace("‖", " "), bare(span[0]), after, until)
        if how == "lost" or not all(side.strip() for side in sides) or _RUN_TOGETHER.search(bare(span[0])):
            raise Unreadable(f"cannot be formalised: {bare(span[0]).strip()!r}")
        if any("i" in names_in([side]) and side.strip() != "i" for side in sides):
            raise Unreadable(f"cannot be formalised: i in {bare(span[0]).strip()!r} may be the imaginary unit")
        joint = _JOINT.fullmatch(between) if found else None
        if joint and len(sides) == 2 and _alternatives(found[-1].equation, bare(span[0]), joint[0]):
            found[-1] = Stated(f"{found[-1].equation} or {bare(span[0]).strip()}")
        else:
            doubt = "may lack a number beside it" if how == "doubtful" else not_claimed(plain, span.start(), end)
            stated = _stated(span[0].split("="), counted_after(after), doubt)
            cut = following(after, until) == "lost"  # then nobody knows all that is named
            found += [each._replace(names=None) if cut else each for each in stated]
    if sum(stated.equation.count("=") for stated in found) != plain.count("="):
        raise Unreadable("an equation cannot be formalised")
    return found


def _plain(text: str) -> str:
    plain = text.translate(_SIGNS)
    for pattern, replacement in _WRITTEN:
        plain = re.sub(pattern, replacement, plain)
    return marked(plain)


def _reading(before: str, span: str, after: str, until: int | None) -> Reading:
    """The worse of what both neighbours leave of an equation; unknowns have a grammar of their own: "20% of 50" is lost."""
    if names_in([span]):
        return "complete" if following(after, until) == "complete" else "doubtful"
    found = {reading(before, span), following(after, until)}
    return "lost" if "lost" in found else "doubtful" if "doubtful" in found else "complete"


def _stated(sides: Sequence[str], counted: set[str], doubt: str | None) -> list[Stated]:
    """The equations of a chain of marked sides, with what their units say; the last side counts what follows it."""
    found = []
    for left, right, names in _links(sides):
        units = [units_in(left), units_in(right) | (counted if right is sides[-1] else set())]
        if clash(units[0] | units[1]) and re.search(r"[\d)⟩]\s*[-+]", f"{left} {right}"):
            raise Unreadable(f"{bare(left).strip()!r} adds different measures")
        why = doubt
        if names or len(units[0] | units[1]) > 1:
            why = "counts different things"
        elif "⟨¼⟩" in left + right or "⟨×⟩" in left + right:
            why = "may be a product or not"
        equation = f"{bare(left).strip()} = {bare(right).strip()}"
        name = bare(left).strip() if len(sides) > 2 and _is_name(left) else None
        found.append(Stated(equation, why, bool(units[0]) != bool(units[1]), name))
    return found


def _links(sides: Sequence[str]) -> list[_Link]:
    """The equations of a chain, side by side; two plain numbers are held against a side that computes: `2 + 2 = 4 = 5`.

    An unknown that is a side by itself stands beside the chain of the others: `3 + 4 = B = 7` is `B = 7` and `3 + 4 = 7`.
    """
    named = [k for k, side in enumerate(sides) if _is_name(side)]
    others = [side for side in sides if not _is_name(side)]
    if named and len(others) > 1:
        beside = [next((side for side in sides[k:] if not _is_name(side)), others[-1]) for k in named]
        return [_Link(sides[k], other, False) for k, other in zip(named, beside, strict=True)] + _links(others)
    anchor = next((k for k, side in enumerate(sides) if computes(bare(side))), None)
    links = []
    for k, (left, right) in enumerate(pairwise(sides)):
        counts = bool(units_in(left)) and not computes(bare(left))
        if anchor is None or names_in([bare(side) for side in sides]) or computes(bare(left)) or computes(bare(right)):
            links.append(_Link(left, right, counts))
        else:
            links.append(_Link(sides[anchor], right if k > anchor else left, counts))
    return links


def computes(text: str) -> bool:
    """Whether there is an operation on a number."""
    return re.search(r"\d\s*\)*\s*[-+*/^(]", text) is not None


def _alternatives(first: str, second: str, joint: str) -> bool:
    """Whether two equations are one choice: joined by "or", or two values of the same unknown."""
    values = [_VALUE.fullmatch(text) for text in (first.rpartition(" or ")[2], second)]
    return "or" in joint.lower() or (all(values) and len({match[1] for match in values if match}) == 1)


def _is_name(side: str) -> bool:
    return _UNKNOWN.fullmatch(bare(side).strip()) is not None


def names_in(equations: Sequence[str]) -> set[str]:
    """The unknowns of equations that were read."""
    return {name for equation in equations for name in _UNKNOWN.findall(equation)}


def letters_in(text: str) -> set[str]:
    """All that may be an unknown in a text: letters that stand alone and are no words."""
    return set(_UNKNOWN.findall(_WORD.sub(" ", text)))
