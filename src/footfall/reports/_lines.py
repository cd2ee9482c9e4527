"""Line charts: several series over one axis with their 95% bands, named at the ends of the lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from footfall.reports._axes import (
    SLOTS,
    Format,
    Frame,
    Scale,
    bottom_axis,
    heading,
    left_axis,
    left_room,
    legend,
    marker,
    shown,
    span,
    spread,
)
from footfall.reports.svg import Markup, canvas, element, finite, number, text_width


@dataclass(frozen=True, slots=True)
class Point:
    """One measured value with its 95% interval, where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A named line. `slot` fixes its colour and mark (by default its place among the series)."""

    name: str
    points: Sequence[Point]
    emphasis: bool = False
    dashed: bool = False
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class _Plot:
    frame: Frame
    x: Scale
    y: Scale
    form: Format

    def at(self, point: Point) -> tuple[float, float]:
        return self.x(point.x), self.y(point.y)


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    x_label: str,
    y_label: str,
    title: str = "",
    subtitle: str = "",
    x_scale: Literal["linear", "log2"] = "linear",
    y_format: Format = "percent",
    y_range: tuple[float, float] | None = None,
    width: float = 760,
    height: float = 400,
) -> Markup:
    """Series with bands as one SVG. `label` is what a screen reader says of it."""
    series = [_checked(s, x_scale == "log2") for s in series]
    if not series:
        raise ValueError(f"line chart {label!r} has no series")
    slots = [i if s.slot is None else s.slot for i, s in enumerate(series)]
    names = _end_labels(series, y_format, width)
    top, y = heading(title, subtitle, width)
    if names is None:
        keys, used = legend([(slot, s.name) for slot, s in zip(slots, series, strict=True)], 16, y, width - 32)
        top, y = Markup.join_all(top, keys), y + used
    end_room = 44 + max(map(text_width, names)) if names else 24
    up = _up(series, y_format, y_range, height - 52, y + 34)
    frame = Frame(left_room(up, y_format), y + 34, width - end_room, height - 52)
    plot = _Plot(frame, _along(series, frame, x_scale == "log2"), up, y_format)
    # Emphasis is drawn last, so that nothing covers it.
    drawn = sorted(zip(series, slots, strict=True), key=lambda pair: pair[0].emphasis)
    axes = [left_axis(plot.y, frame, y_label, y_format), bottom_axis(plot.x, frame, x_label, "number")]
    ends = _ends(series, slots, names, plot) if names else Markup()
    return canvas(width, height, label, top, *axes, *(_drawn(s, slot, plot) for s, slot in drawn), ends)


def _checked(series: Series, log2: bool) -> Series:
    """The series in order of x; refuses what cannot be drawn."""
    if not series.points:
        raise ValueError(f"series {series.name!r} has no points")
    for i, point in enumerate(series.points, 1):
        where = f"series {series.name!r}, point {i}"
        for name in ("x", "y", "low", "high"):
            value = getattr(point, name)
            if value is not None:
                finite(value, f"{where}: {name}")
        if log2 and point.x <= 0:
            raise ValueError(f"{where}: x is {point.x}, but a log2 axis needs x above 0; use x_scale='linear'")
        if point.low is not None and point.high is not None and point.low > point.high:
            raise ValueError(f"{where}: the interval [{point.low}, {point.high}] is upside down")
    points = tuple(sorted(series.points, key=lambda p: p.x))
    return Series(series.name, points, series.emphasis, series.dashed, series.slot)


def _along(series: Sequence[Series], frame: Frame, log2: bool) -> Scale:
    xs = [p.x for s in series for p in s.points]
    lo, hi = min(xs), max(xs)
    if lo == hi:
        lo, hi = (lo / 2, hi * 2) if log2 else (lo - 0.5, hi + 0.5)
    return Scale(lo, hi, frame.left + 10, frame.right - 10, log2, whole=all(x == int(x) for x in xs))


def _up(
    series: Sequence[Series], form: Format, y_range: tuple[float, float] | None, bottom: float, top: float
) -> Scale:
    values = [v for s in series for p in s.points for v in (p.y, p.low, p.high) if v is not None]
    return Scale(*(y_range or span(values, form)), bottom, top)


def _end_labels(series: Sequence[Series], form: Format, width: float) -> list[str] | None:
    """Name and last value where both fit beside the plot, else the name, else `None`: a legend is needed."""
    full = [f"{s.name}  {shown(s.points[-1].y, form)}" for s in series]
    for names, share in ((full, 0.27), ([s.name for s in series], 0.33)):
        if max(map(text_width, names)) <= share * width:
            return names
    return None


def _drawn(series: Series, slot: int, plot: _Plot) -> Markup:
    """Band, line and marks of one series."""
    at = [plot.at(p) for p in series.points]
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in at)
    line = element("path", class_="line dashed" if series.dashed else "line", d=path)
    return element(
        "g",
        _band(series, plot),
        line if len(at) > 1 else Markup(),
        *(_mark(series, p, slot, plot) for p in series.points),
        class_=f"c{slot % SLOTS}" + (" emphasis" if series.emphasis else ""),
    )


def _band(series: Series, plot: _Plot) -> Markup:
    """The interval between low and high: an area, or one whisker when a single point has one."""
    known = [
        (plot.x(p.x), plot.y(p.low), plot.y(p.high)) for p in series.points if p.low is not None and p.high is not None
    ]
    if not known:
        return Markup()
    if len(known) == 1:
        x, low, high = known[0]
        return element("line", class_="whisker", x1=x, x2=x, y1=low, y2=high)
    outline = [(x, high) for x, _, high in known] + [(x, low) for x, low, _ in reversed(known)]
    return element("polygon", class_="band", points=" ".join(f"{number(x)},{number(y)}" for x, y in outline))


def _mark(series: Series, point: Point, slot: int, plot: _Plot) -> Markup:
    x, y = plot.at(point)
    said = f"{series.name} at {point.x:g}: {shown(point.y, plot.form)}"
    if point.low is not None and point.high is not None:
        said += f" [{shown(point.low, plot.form)}, {shown(point.high, plot.form)}]"
    hit = element("circle", class_="hit", cx=x, cy=y, r=12)
    return element("g", element("title", said), hit, marker(slot, x, y, 4.5 if series.emphasis else 3.75))


def _ends(series: Sequence[Series], slots: Sequence[int], names: Sequence[str], plot: _Plot) -> Markup:
    """The name of each line beside its end, moved apart where lines end close together, with a leader to it."""
    ends = [plot.at(s.points[-1]) for s in series]
    placed = spread([y for _, y in ends], 19, plot.frame.top, plot.frame.bottom)
    parts = []
    for s, slot, name, (x, y), to in zip(series, slots, names, ends, placed, strict=True):
        near, far = plot.frame.right - 2, plot.frame.right + 14
        style = f"c{slot % SLOTS}"
        if x < near - 12:
            parts.append(element("line", class_=f"line dotted {style}", x1=x, x2=near, y1=y, y2=y))
        leader = f"M{number(near)} {number(y)}L{number(far)} {number(to)}"
        parts.append(element("path", class_=f"leader {style}", d=leader))
        parts.append(element("g", marker(slot, far + 4, to), class_=style))
        parts.append(element("text", name, class_="strong" if s.emphasis else None, x=far + 13, y=to + 4.5))
    return Markup.join_all(*parts)
