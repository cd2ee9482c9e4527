"""The equations that a text states, made plain: LaTeX, marks of units, chains, and what is counted on either side.

An `=` that belongs to no equation that can be read is told as such: what else the text states may still be wrong, but not all
that it states is known to hold. Whatever a chain begins with, its other sides are equal: "cost of all = 3 * 4 = 13" is wrong.

Units and currency signs are kept as marks beside their numbers:

    "5 apples + 3 apples = 9 apples"        one unit: the numbers decide
    "2 hours + 30 minutes = 150 minutes"    two: the numbers do not
    "30 + 30 = 1 hour"                      one side only, and sixty of one are one of the other: they may not

A unit that no number of the other kind stands beside changes nothing. A problem may also state equations in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from footfall.formal.context import OPERATORS, SENTENCE, Reading, following, not_claimed, reading

_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "²": "^2"})
_WRITTEN = (
    (r"<<[^<>]*>>", ""), (r"\\\$", "$"), (r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}", r" \1 "),
    (r"\\\\(?![A-Za-z])|\\[\[\]]|\$\$", "\n"), (r"\$([^$\n]*[^$\s])\$(?!\d)", r"‖\1‖"),
    (r"\\[()]|(?<=[\w)}.!\]])\$", "‖"), (r"&", " "), (r"\n\s*(?==)", " "),
    (r"(?<![\w*)\]])\*\*(?=[^\s*])([^*\n]*[^*\s]|)\*\*(?![\w*(])", r"\1"),
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
_LONE_WORD = re.compile(r"\b[AaI][^\S\n]+(?=[A-Za-z]{2})")
_PIECE = rf"(?:\d+(?:\.\d+)?|\.\d+|{_LETTER}|[-+*/^()=]|⟨[^⟨⟩]*⟩)"
_SPAN = re.compile(rf"{_PIECE}(?:[^\S\n]*{_PIECE})*")
_RUN_TOGETHER = re.compile(r"\d\s+[\d.]")
_JOINT = re.compile(r"\s*,?\s*(?:or|and|,)\s*", re.IGNORECASE)
_COMPUTED = re.compile(r"[\d+*/^!\\(]")
"""What the name of a quantity ("the cost of all apples") does not hold."""
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


class Equations(NamedTuple):
    """What a text states."""

    stated: list[Stated]
    unread: str | None
    """Why an `=` of the text is in none of them; `None` if all are read."""


def equations_in(text: str) -> Equations:
    """The equations that a text states; alternatives (`x = 2 or x = 3`) are one, a chain `a = b = c` is two."""
    plain = _plain(text)
    spans = [span for span in _SPAN.finditer(plain) if "=" in span[0]]
    read = sum(span[0].count("=") for span in spans) == plain.count("=")
    unread = None if read else "an equation cannot be formalised"
    found: list[Stated] = []
    before, end = "", 0
    for k, span in enumerate(spans):
        between = plain[end : span.start()]
        before, end = before + between, span.end()
        until = spans[k + 1].start() - end if k + 1 < len(spans) else None
        try:
            stated, open_ = _of_span(plain, span, before, until)
        except Unreadable as reason:
            stated, open_ = [], str(reason)
        unread = unread or open_
        joint = _JOINT.fullmatch(between) if found and stated and span[0].count("=") == 1 else None
        if joint and _alternatives(found[-1].equation, bare(span[0]), joint[0]):
            found[-1] = Stated(f"{found[-1].equation} or {bare(span[0]).strip()}")
        else:
            found += stated
    return Equations(found, unread)


def _of_span(plain: str, span: re.Match[str], before: str, until: int | None) -> Equations:
    """The equations of one chain; earlier ones are taken out of the text `before` it, the next begins at `until`."""
    sides, unread = span[0].split("="), None
    after = plain[span.end() :].replace("‖", " ")
    how, behind = _reading(before.replace("‖", " "), bare(span[0]), after, until), following(after, until)
    if (how == "lost" or not bare(sides[0]).strip()) and len(sides) > 2 and not names_in([bare(span[0])]):
        # Whatever stands before the first sign, the sides after it are equal to each other: nothing but a sign is before them.
        if _COMPUTED.search(SENTENCE.split(before + sides[0])[-1]):
            unread = f"cannot be formalised: what is equal to {bare(sides[1]).strip()!r}"
        sides, how = sides[1:], behind
    whole = bare("=".join(sides))
    if how == "lost" or not all(bare(side).strip() for side in sides) or _RUN_TOGETHER.search(whole):
        raise Unreadable(f"cannot be formalised: {bare(span[0]).strip()!r}")
    if any("i" in names_in([side]) and side.strip() != "i" for side in map(bare, sides)):
        raise Unreadable(f"cannot be formalised: i in {whole.strip()!r} may be the imaginary unit")
    doubt = "may lack a number beside it" if how == "doubtful" else not_claimed(plain, span.start(), span.end())
    stated = _stated(sides, counted_after(after), doubt)
    cut = behind == "lost"  # then nobody knows all that is named
    return Equations([each._replace(names=None) if cut else each for each in stated], unread)


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
    return set(_UNKNOWN.findall(_LONE_WORD.sub(" ", text)))


# Units

_GAP = r"[^\S\n]"
_NO_UNIT = rf"(?!{OPERATORS}\b)[a-zA-Z]{{2,}}"
_UNIT = re.compile(
    rf"(?<=\d){_GAP}+({_NO_UNIT}(?:{_GAP}+{_NO_UNIT})?(?:/{_NO_UNIT})?){_GAP}*(?=[-+*=)]|/{_GAP}*\W)", re.IGNORECASE
)
_NOTED = rf"(?:{_NO_UNIT}|a|per)"
_NOTE = re.compile(rf"(?<=[\w)⟩]){_GAP}*\({_NOTED}(?:{_GAP}+{_NOTED}){{0,7}}\)", re.IGNORECASE)
"""What a number is, in brackets: "5 (man) + 4 (wife)"."""
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
    text = _NOTE.sub(" ", re.sub(r"[$€£]", lambda match: f"⟨{_CURRENCIES[match[0]]}⟩", text))
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


# Equations in words

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
_SIGN_WORDS = {"plus": "+", "minus": "-"}


def worded_equations(text: str) -> list[str]:
    """All equations that the text says in one of the forms above, each part of it read once."""
    found: list[tuple[int, str]] = []
    for pattern, equation in _READ:
        for match in pattern.finditer(text):
            words = [_SIGN_WORDS.get(word.lower(), word) for word in match.groups()]
            found.append((match.start(), equation.format(*words)))
        text = pattern.sub(lambda match: " " * len(match[0]), text)
    return [equation for _, equation in sorted(found)]
