"""Markup that cannot be broken by its content: one builder for SVG and HTML that escapes whatever it is given.

Traces are untrusted text. `element` escapes every child and attribute that is not `Markup`, so a step that holds
`<script>` stays a step that holds `<script>`. What comes out is well-formed XML, in a page as well as alone.
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

NAMESPACE = "http://www.w3.org/2000/svg"
FONT_SIZE = 13.0
_EMPTY = frozenset({"br", "circle", "line", "meta", "path", "polygon", "polyline", "rect"})
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})

Attribute = str | int | float | None


class Markup(str):
    """Text that is already markup. Only `element`, and code that joins its results, makes one."""

    __slots__ = ()

    @classmethod
    def join_all(cls, *parts: str) -> Markup:
        """The parts one after another; those that are not markup yet are escaped."""
        return cls("".join(map(escape, parts)))


def escape(text: str) -> Markup:
    """`text` as markup: the five special characters as entities, characters that XML forbids as U+FFFD."""
    return text if isinstance(text, Markup) else Markup(_NOT_XML.sub("\ufffd", text).translate(_ENTITIES))


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """`<tag …>children</tag>`. `stroke_width=2` writes `stroke-width="2"`, `class_` is `class`, `None` is left out."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value if isinstance(value, str) else number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{shown}/>")
    return Markup(f"<{tag}{shown}>{Markup.join_all(*children)}</{tag}>")


def number(value: float) -> str:
    """A coordinate with at most two decimals, the same on every machine: `12.50` is `12.5`, `-0` is `0`."""
    if not math.isfinite(value):
        raise ValueError(f"a coordinate is {value}; check the values before drawing them")
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def finite(value: float, what: str) -> float:
    """`value`, or an error that says what is not a number. `what` reads like `series 'majority', point 3: y`."""
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}; leave out what could not be measured, a chart shows numbers only")
    return value


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """About how wide `text` is in a sans-serif face, on the generous side: no font is known before it is shown."""
    return size * sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.57 for c in text)


def clip(text: str, width: float, size: float = FONT_SIZE) -> str:
    """`text`, cut with an ellipsis to fit `width`."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


@lru_cache
def asset(name: str) -> Markup:
    """A stylesheet of the package, as it is put into a page or a chart."""
    return Markup((Path(__file__).with_name("assets") / name).read_text(encoding="utf-8"))


def canvas(width: float, height: float, label: str, *children: str) -> Markup:
    """A chart that stands alone: viewBox, spoken label, its own style (light and dark) and its own background."""
    return element(
        "svg",
        element("style", asset("chart.css")),
        element("rect", class_="surface", width=width, height=height, rx=8),
        *children,
        xmlns=NAMESPACE,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        class_="ff-chart",
        role="img",
        aria_label=label,
    )
