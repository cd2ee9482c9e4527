"""SVG that its content cannot break: one builder that escapes whatever it is given, and where things go in a chart.

Traces are untrusted text. `element` escapes every child and attribute that is not `Markup`, so a step that holds
`<script>` stays a step that holds `<script>`. What comes out is well-formed XML, in a page as well as alone. Below it: scales,
round ticks, axes, legends and labels that do not overlap.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from markupsafe import Markup

NAMESPACE = "http://www.w3.org/2000/svg"
FONT_SIZE = 13.0
_EMPTY = frozenset({"circle", "line", "path", "polygon", "rect"})
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})

Attribute = str | int | float | None


def escape(text: str) -> Markup:
    """`text` as markup: the five special characters as entities, characters that XML forbids as U+FFFD."""
    return text if isinstance(text, Markup) else Markup(_NOT_XML.sub("\ufffd", text).translate(_ENTITIES))


def join(*parts: str) -> Markup:
    """The parts one after another; those that are not markup yet are escaped."""
    return Markup("".join(map(escape, parts)))


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """`<tag …>children</tag>`. `stroke_width=2` writes `stroke-width="2"`, `class_` is `class`, `None` is left out."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value if isinstance(value, str) else number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{shown}/>")
    return Markup(f"<{tag}{shown}>{join(*children)}</{tag}>")


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


def check_numbers(item: object, names: Sequence[str], where: str) -> dict[str, float]:
    """The fields that are given; one that is not finite is an error."""
    given = {name: getattr(item, name) for name in names}
    return {name: finite(value, f"{where}: {name}") for name, value in given.items() if value is not None}


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
def stylesheet(name: str) -> Markup:
    """A stylesheet of the package, as it is put into a page or a chart."""
    return Markup((Path(__file__).with_name("templates") / name).read_text(encoding="utf-8"))


def canvas(width: float, height: float, label: str, *children: str) -> Markup:
    """A chart that stands alone: viewBox, spoken label, its own style (light and dark) and its own background."""
    return element(
        "svg",
        element("style", stylesheet("chart.css")),
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


Format = Literal["percent", "number"]
SLOTS = 6
"""Colours in the palette; series beyond it reuse a colour with another marker."""
_SHAPES = 5


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle in which the data are drawn."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `[lo, hi]` to pixels, evenly or by the power of two."""

    lo: float
    hi: float
    start: float
    end: float
    log2: bool = False
    whole: bool = False
    """Ticks at whole numbers only, for epochs and counts."""

    def __post_init__(self) -> None:
        if not self.lo < self.hi:
            raise ValueError(f"an axis from {self.lo} to {self.hi} is empty; its range needs lo < hi")

    def __call__(self, value: float) -> float:
        lo, hi, at = (math.log2(v) if self.log2 else v for v in (self.lo, self.hi, value))
        return self.start + (at - lo) / (hi - lo) * (self.end - self.start)

    def ticks(self, apart: float) -> list[float]:
        """Round values at least `apart` pixels from each other."""
        room = max(2, int(abs(self.end - self.start) / apart))
        if not self.log2:
            tried = (ticks(self.lo, self.hi, most, least=1 if self.whole else 0) for most in range(room, room + 4))
            return next((at for at in tried if len(at) > 1), ticks(self.lo, self.hi, room))
        powers = range(math.ceil(math.log2(self.lo) - 1e-9), math.floor(math.log2(self.hi) + 1e-9) + 1)
        kept = [p for p in powers if p >= 0 or not self.whole]
        return [2.0**p for p in kept[:: max(1, math.ceil(len(kept) / room))]]


def ticks(lo: float, hi: float, most: int, least: float = 0) -> list[float]:
    """At most about `most` multiples of 1, 2 or 5 times a power of ten within `[lo, hi]`."""
    rough = max((hi - lo) / max(most, 1), least)
    base = 10.0 ** math.floor(math.log10(rough))
    step = next((base * m for m in (1, 2, 5) if base * m >= rough * (1 - 1e-9)), base * 10)
    first, last = math.ceil(lo / step - 1e-9), math.floor(hi / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def span(values: Sequence[float], form: Format = "number", zero: bool = False) -> tuple[float, float]:
    """A range that holds all values with a little air; never empty, and within 0 to 1 for percentages that are."""
    lo, hi = min(values), max(values)
    inside = form == "percent" and lo >= 0 and hi <= 1
    if zero:
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    # Values that differ by rounding only are equal: an axis of fifteen decimals would say nothing.
    equal = hi - lo <= 1e-9 * max(abs(lo), abs(hi))
    air = (0.05 if form == "percent" else max(abs(hi) * 0.1, 0.5)) if equal else 0.06 * (hi - lo)
    low, high = (lo if zero and lo == 0 else lo - air), (hi if zero and hi == 0 > lo else hi + air)
    return (max(low, 0.0), min(high, 1.0)) if inside else (low, high)


def shown(value: float, form: Format, step: float = 0.001) -> str:
    """A number as text with the decimals that `step` needs; percentages of a fraction by default with one."""
    scale, sign = (100, "%") if form == "percent" else (1, "")
    decimals = max(0, math.ceil(-math.log10(step * scale) - 1e-9))
    text = f"{value * scale:,.{decimals}f}"
    return (text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")) + sign


def heading(title: str, subtitle: str, width: float, keys: Sequence[tuple[int, str]] = ()) -> tuple[Markup, float]:
    """Title, subtitle and (with keys) a legend at the top, and the height they take."""
    lines, y = [], 14.0 if title or subtitle else 0.0
    for text, style, size, height in ((title, "title", 17, 26), (subtitle, "muted", 13, 22)):
        if text:
            y += height
            lines.append(element("text", clip(text, width - 32, size), class_=style, x=16, y=y - 8))
    if not keys:
        return join(*lines), y
    named, used = _legend(keys, 16, y, width - 32)
    return join(*lines, named), y + used


def _labelled(scale: Scale, form: Format) -> list[tuple[float, str]]:
    at = scale.ticks(apart=38)
    step = at[1] - at[0] if len(at) > 1 else 0.01
    return [(value, shown(value, form, step)) for value in at]


def left_room(scale: Scale, form: Format) -> float:
    """How far from the edge a plot starts, so that the values of its left axis fit."""
    return max([48.0, *(20 + text_width(text, 12) for _, text in _labelled(scale, form))])


def left_axis(scale: Scale, frame: Frame, label: str, form: Format) -> Markup:
    """Horizontal grid lines with their values, and the axis' name above them, level, where it can be read."""
    at = _labelled(scale, form)
    parts = [element("text", label, class_="muted small", x=16, y=frame.top - 14)] if label else []
    for value, text in at:
        y = scale(value)
        parts.append(element("line", class_="grid", x1=frame.left, x2=frame.right, y1=y, y2=y))
        parts.append(element("text", text, class_="muted small", x=frame.left - 8, y=y + 4, text_anchor="end"))
    return join(*parts)


def bottom_axis(scale: Scale, frame: Frame, label: str, form: Format, grid: bool = False) -> Markup:
    """The base line with ticks (or a grid of vertical lines), values below it and the axis' name below those."""
    crowded = frame.right - frame.left < 300 and scale.hi >= 1000
    at = scale.ticks(apart=64 if grid else 56 if not scale.log2 else 40 if crowded else 28)
    base = element("line", class_="axis", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom)
    style, top, bottom = ("grid", frame.top, frame.bottom) if grid else ("axis", frame.bottom, frame.bottom + 4)
    parts = [] if grid else [base]
    for value in at:
        x = scale(value)
        parts.append(element("line", class_=style, x1=x, x2=x, y1=top, y2=bottom))
        step = min(value, 1.0) if scale.log2 else (at[1] - at[0] if len(at) > 1 else 0.01)
        text = shown(value, form, step)
        parts.append(element("text", text, class_="muted small", x=x, y=frame.bottom + 18, text_anchor="middle"))
    middle = (frame.left + frame.right) / 2
    parts.append(element("text", label, class_="muted small", x=middle, y=frame.bottom + 38, text_anchor="middle"))
    return join(*parts)


def marker(slot: int, x: float, y: float, size: float = 4.0) -> Markup:
    """A mark whose shape tells the series as well as its colour does."""
    shape = slot % _SHAPES
    if shape in (0, 4):
        return element(
            "circle", class_="mark" if shape == 0 else "hollow", cx=x, cy=y, r=size if shape == 0 else size - 0.5
        )
    corners = {
        1: ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        2: ((0, -1.2), (1.15, 0.85), (-1.15, 0.85)),
        3: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[shape]
    points = " ".join(f"{number(x + dx * size)},{number(y + dy * size)}" for dx, dy in corners)
    return element("polygon", class_="mark", points=points)


def _legend(names: Sequence[tuple[int, str]], left: float, top: float, width: float) -> tuple[Markup, float]:
    """Marks with names, flowing over as many rows as they need, and the height they take."""
    parts, x, y = [], left, top + 6
    for slot, name in names:
        text = clip(name, width - 20)
        needed = 18 + text_width(text) + 14
        if x > left and x + needed > left + width + 14:
            x, y = left, y + 22
        parts.append(element("g", marker(slot, x + 5, y + 8), class_=f"c{slot % SLOTS}"))
        parts.append(element("text", text, x=x + 16, y=y + 12.5))
        x += needed
    return join(*parts), y + 22 - top


def spread(wanted: Sequence[float], gap: float, lo: float, hi: float) -> list[float]:
    """Positions at least `gap` apart, in the order of `wanted`, moved as little as possible (least squares).

    With `z_i = p_i - i * gap` the condition is that z does not decrease: isotonic regression by pooling neighbours.
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    pools: list[tuple[float, int]] = []
    for rank, i in enumerate(order):
        mean, size = wanted[i] - rank * gap, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    top = max(lo, hi - gap * (len(flat) - 1))
    placed = [0.0] * len(flat)
    for rank, i in enumerate(order):
        placed[i] = min(max(flat[rank], lo), top) + rank * gap
    return placed
