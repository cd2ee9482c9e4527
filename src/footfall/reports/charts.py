"""Charts as SVG text: pure functions of numbers, with no plotting library, that read well in light and in dark.

Lines with 95% bands and bars with whiskers; `footfall.reports.probabilities` has the charts of one probability against another.
Each chart stands alone (its own style and background), so the same string goes into a report or a `.svg` file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from footfall.reports.svg import (
    SLOTS,
    Format,
    Frame,
    Scale,
    bottom_axis,
    canvas,
    check_numbers,
    clip,
    element,
    heading,
    join,
    left_axis,
    left_room,
    marker,
    number,
    shown,
    span,
    spread,
    text_width,
)


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


def _bracketed(low: float, high: float, form: Format) -> str:
    return f" [{shown(low, form)}, {shown(high, form)}]"


@dataclass(frozen=True, slots=True)
class _Plot:
    frame: Frame
    x: Scale
    y: Scale
    form: Format

    def at(self, point: Point) -> tuple[float, float]:
        return self.x(point.x), self.y(point.y)


_LEAST = 200.0
"""Height of a plot, whatever stands above it."""


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
    mark: tuple[float, str] | None = None,
    width: float = 760,
    height: float = 400,
) -> Markup:
    """Series with bands as one SVG. `label` is what a screen reader says of it, `mark` a place on x with its name."""
    series = [_checked_series(s, x_scale == "log2") for s in series]
    if not series:
        raise ValueError(f"line chart {label!r} has no series")
    slots = [i if s.slot is None else s.slot for i, s in enumerate(series)]
    names = _end_labels(series, y_format, width)
    keys = [(slot, s.name) for slot, s in zip(slots, series, strict=True)]
    top, y = heading(title, subtitle, width, keys if names is None else ())
    height = max(height, y + 34 + _LEAST + 52)
    end_room = 44 + max(map(text_width, names)) if names else 24
    up = _up(series, y_format, y_range, height - 52, y + 34)
    frame = Frame(left_room(up, y_format), y + 34, width - end_room, height - 52)
    plot = _Plot(frame, _along(series, frame, x_scale == "log2"), up, y_format)
    # Emphasis is drawn last, so that nothing covers it.
    drawn = sorted(zip(series, slots, strict=True), key=lambda pair: pair[0].emphasis)
    axes = [left_axis(plot.y, frame, y_label, y_format), bottom_axis(plot.x, frame, x_label, "number")]
    ends = _ends(series, slots, names, plot) if names else Markup()
    upright = Markup() if mark is None else _upright(*mark, plot)
    return canvas(width, height, label, top, *axes, *(_drawn_series(s, slot, plot) for s, slot in drawn), upright, ends)


def _upright(at: float, name: str, plot: _Plot) -> Markup:
    """A dashed line at x with its name on top, on the side where there is room; nothing outside the axis."""
    if not plot.x.lo <= at <= plot.x.hi:
        return Markup()
    x, late = plot.x(at), at > (plot.x.lo + plot.x.hi) / 2
    line = element("line", class_="identity", x1=x, x2=x, y1=plot.frame.top, y2=plot.frame.bottom)
    place = {"x": x - 6 if late else x + 6, "y": plot.frame.top - 6, "text_anchor": "end" if late else None}
    return join(line, element("text", name, class_="small halo", **place))


def _checked_series(series: Series, log2: bool) -> Series:
    """The series in order of x; refuses what cannot be drawn."""
    if not series.points:
        raise ValueError(f"series {series.name!r} has no points")
    for i, point in enumerate(series.points, 1):
        where = f"series {series.name!r}, point {i}"
        check_numbers(point, ("x", "y", "low", "high"), where)
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


def _drawn_series(series: Series, slot: int, plot: _Plot) -> Markup:
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
        said += _bracketed(point.low, point.high, plot.form)
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
    return join(*parts)


_BAR, _GAP, _BETWEEN, _LABEL, _MARK = 16.0, 4.0, 16.0, 20.0, 12.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One value of a series, with its 95% interval where there is one."""

    series: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class BarGroup:
    """The bars that belong to one thing, for instance a benchmark's split."""

    label: str
    bars: Sequence[Bar]


def bar_chart(
    groups: Sequence[BarGroup],
    *,
    label: str,
    x_label: str,
    title: str = "",
    subtitle: str = "",
    form: Format = "percent",
    width: float = 760,
) -> Markup:
    """Groups of bars from zero, one colour a series and, of several, one mark beside the value. Long group names go above."""
    bars = [bar for group in groups for bar in group.bars]
    if not bars:
        raise ValueError(f"bar chart {label!r} has no bars")
    for group in groups:
        for bar in group.bars:
            check_numbers(bar, ("value", "low", "high"), f"group {group.label!r}, bar {bar.series!r}")
    slots = {name: slot for slot, name in enumerate(dict.fromkeys(b.series for b in bars))}
    widest = max(text_width(g.label) for g in groups)
    beside = widest <= 0.3 * width
    keys = [(slot, name) for name, slot in slots.items()]
    marked = len(keys) > 1
    top, y = heading(title, subtitle, width, keys if marked else ())
    values = [v for b in bars for v in (b.value, b.low, b.high) if v is not None]
    room = 8 + (_MARK if marked else 0) + max(text_width(shown(b.value, form)) for b in bars)
    left = 16 + (widest + 18 if beside else 0) + (room if min(values) < 0 else 0)
    x = Scale(*span(values, form, zero=True), left, width - 16 - room)
    body, bottom = _groups(groups, slots, x, y + 12, beside, form, marked)
    frame = Frame(left, y + 6, width - 16 - room, bottom)
    return canvas(
        width, bottom + 52, label, top, bottom_axis(x, frame, x_label, form, grid=True), body, _zero(x, frame)
    )


def _groups(
    groups: Sequence[BarGroup], slots: dict[str, int], x: Scale, y: float, beside: bool, form: Format, marked: bool
) -> tuple[Markup, float]:
    """All groups from the top down, and where they end."""
    parts = []
    for group in groups:
        height = len(group.bars) * (_BAR + _GAP) - _GAP
        if beside:
            parts.append(element("text", group.label, x=16, y=y + height / 2 + 4.5))
        else:
            parts.append(element("text", clip(group.label, x.end - 16), class_="halo", x=16, y=y + 11))
            y += _LABEL
        for bar in group.bars:
            parts.append(_bar(group, bar, slots[bar.series], x, y, form, marked))
            y += _BAR + _GAP
        y += _BETWEEN - _GAP
    return join(*parts), y - _BETWEEN / 2


def _bar(group: BarGroup, bar: Bar, slot: int, x: Scale, y: float, form: Format, marked: bool) -> Markup:
    zero, end = x(0), x(bar.value)
    reach = [end]
    said = f"{group.label}, {bar.series}: {shown(bar.value, form)}"
    whisker = Markup()
    if bar.low is not None and bar.high is not None:
        low, high, middle = x(bar.low), x(bar.high), y + _BAR / 2
        said += _bracketed(bar.low, bar.high, form)
        caps = "".join(f"M{number(at)} {number(middle - 3.5)}v7" for at in (low, high))
        line = f"M{number(low)} {number(middle)}H{number(high)}"
        whisker = element("path", class_="bar-whisker", d=line + caps)
        reach += [low, high]
    negative = bar.value < 0
    outer, away = (min(reach), -1) if negative else (max(reach), 1)
    mark = marker(slot, outer + away * (_MARK / 2 + 4), y + _BAR / 2) if marked else Markup()
    text = element(
        "text", shown(bar.value, form), class_="small", y=y + _BAR / 2 + 4.5,
        x=outer + away * (7 + (_MARK if marked else 0)), text_anchor="end" if negative else None,
    )  # fmt: skip
    box = element("rect", class_="bar", x=min(zero, end), y=y, width=abs(end - zero), height=_BAR, rx=2)
    return element("g", element("title", said), box, whisker, mark, text, class_=f"c{slot % SLOTS}")


def _zero(x: Scale, frame: Frame) -> Markup:
    return element("line", class_="axis", x1=x(0), x2=x(0), y1=frame.top, y2=frame.bottom)
