"""Units behind a number: whether letters are one, and one name for those that say the same.

`10cm` is ten of a unit and `10xy` a product: letters of which there are fewer than four are a unit only if they are a known
one, or a word of three that stands apart (`6 men`).
"""

from __future__ import annotations

import re

_SAME = {
    "meter": "m metre meters metres", "centimeter": "cm centimetre centimeters centimetres",
    "millimeter": "mm millimetre millimeters millimetres", "kilometer": "km kilometre kilometers kilometres",
    "inch": "in inches", "foot": "ft feet", "yard": "yd yds yards", "mile": "mi miles",
    "gram": "g grams", "kilogram": "kg kgs kilograms", "milligram": "mg milligrams", "pound": "lb lbs pounds",
    "ounce": "oz ounces", "liter": "l litre liters litres", "milliliter": "ml millilitre milliliters millilitres",
    "second": "s sec secs seconds", "minute": "min mins minutes", "hour": "h hr hrs hours",
    "degree": "deg degrees", "dollar": "usd dollars", "euro": "eur euros", "mph": "mi/h",
}  # fmt: skip
_NAME = {spelling: name for name, spellings in _SAME.items() for spelling in spellings.split()}
_SHORT = frozenset(
    "th st nd rd am pm dm nm km kw mw kj mj hz khz mhz ghz pa kpa ev kev mev kv mv ma kb mb gb tb gm qt pt gal au ly pc mol "  # noqa: SIM905
    "erg rad rpm mph kph kmh bps sq cu cc gbp cad aud".split()
)
"""Of two and three letters, beside those in `_NAME`."""
_WORDS = re.compile(
    r"\b(?:and|or|to|from|with|is|not|plus|minus|times|over|by|of|mod|half|halves|thirds?|quarters?|dozen|score|hundred|"
    r"thousand|million|billion|trillion|pi|sqrt|sin|cos|tan|log|ln|exp|inf|infinity|squared|cubed|factorial|pairs?)\b",
    re.IGNORECASE,
)
"""What is no unit: `5 million` is not 5."""
_DEGREES = re.compile(r"\^\{?\\circ\}?|°")
_POWER = re.compile(r"\s*\^\s*\{?([23])\}?")
_SUPERSCRIPT = {"²": "^2", "³": "^3"}
_OF_AREA = (re.compile(r"\b(?:square|sq\.?) (\S+)"), re.compile(r"\b(?:cubic|cu\.?) (\S+)"))

_POWERS = r"(?:\s*\^\s*\{?[23]\}?|[²³])?"
PATTERN = rf"""(?P<unit>
    (?:\ [mgshlL]{_POWERS}|[A-Za-z][A-Za-z .]+{_POWERS})
    (?:\s*/\s*(?:[mgshlL]|[A-Za-z]{{2,}}){_POWERS}(?![A-Za-z]))?
    |\^\{{?\\circ\}}?|°)"""
"""As it stands behind a number; for `re.VERBOSE`. `5 m` are metres, `5m` is a product."""
_LONGEST = 200


def read_unit(written: str, apart: bool) -> str | None:
    """One name for what stands behind a number, or `apart` from it; empty if nothing does, `None` if that is no unit."""
    plain = _DEGREES.sub("degrees", written).strip(" .").lower()
    for sign, power in _SUPERSCRIPT.items():
        plain = plain.replace(sign, power)
    plain = re.sub(r" ?/ ?", "/", _POWER.sub(r"^\1", plain)).replace(" per ", "/")
    for number, area in enumerate(_OF_AREA, start=2):
        plain = area.sub(rf"\1^{number}", plain)
    words = re.split(r"[ /]", plain) if plain else []
    if len(words) > 2 + plain.count("/") or _WORDS.search(plain):
        return None
    if words and not any(_is_unit(re.sub(r"[.^23]", "", word), apart) for word in words):
        return None
    return re.sub(r"[a-z.]+", lambda word: _named(word[0]), plain).replace("mile/hour", "mph")


_BEHIND = re.compile(
    rf"(.*(?:[\d}})]|\\[A-Za-z]+))\s+(?:(?P<letter>[mgshlL]{_POWERS})|(?P<word>[A-Za-z]{{2}}[A-Za-z. ]*{_POWERS}))",
    re.DOTALL,
)
_COMMAND = re.compile(r"\\[A-Za-z]+")


def split_unit(text: str) -> tuple[str, str]:
    """An expression and the unit behind it: `12\\sqrt{13} feet`. A single letter is a variable if there are others."""
    found = _BEHIND.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or (found["letter"] and re.search("[A-Za-z]", _COMMAND.sub("", found[1]))):
        return text, ""
    unit = read_unit(found["letter"] or found["word"], apart=False)
    return (found[1], unit) if unit else (text, "")


def _is_unit(word: str, apart: bool) -> bool:
    return len(word) > 3 or word in _SHORT or word in _NAME or (apart and len(word) == 3)


def _named(word: str) -> str:
    """The plural of a word is the same unit."""
    word = word.strip(".")
    many = word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
    return _NAME.get(word, many)
