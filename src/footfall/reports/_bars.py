"""Bar charts: level bars in groups, with 95% whiskers and the value written beside each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from footfall.reports._axes import SLOTS, Format, Frame, Scale, heading, legend, shown, span
from footfall.reports.svg import Markup, canvas, clip, element, finite, number, text_width

_BAR, _GAP, _BETWEEN, _LABEL = 16.0, 4.0, 16.0, 20.0


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
    """Groups of bars from zero, one colour a series. Long group names go above their bars."""
    bars = [_checked(g, b) for g in groups for b in g.bars]
    if not bars:
        raise ValueError(f"bar chart {label!r} has no bars")
    slots = {name: slot for slot, name in enumerate(dict.fromkeys(b.series for b in bars))}
    widest = max(text_width(g.label) for g in groups)
    beside = widest <= 0.3 * width
    top, y = heading(title, subtitle, width)
    if len(slots) > 1:
        keys, used = legend([(slot, name) for name, slot in slots.items()], 16, y, width - 32)
        top, y = Markup.join_all(top, keys), y + used
    values = [v for b in bars for v in (b.value, b.low, b.high) if v is not None]
    room = 8 + max(text_width(shown(b.value, form)) for b in bars)
    left = 16 + (widest + 18 if beside else 0) + (room if min(values) < 0 else 0)
    x = Scale(*span(values, form, zero=True), left, width - 16 - room)
    body, bottom = _groups(groups, slots, x, y + 12, beside, form)
    frame = Frame(left, y + 6, width - 16 - room, bottom)
    return canvas(width, bottom + 52, label, top, _grid(x, frame, x_label, form), body, _zero(x, frame))


def _checked(group: BarGroup, bar: Bar) -> Bar:
    for name in ("value", "low", "high"):
        value = getattr(bar, name)
        if value is not None:
            finite(value, f"group {group.label!r}, bar {bar.series!r}: {name}")
    return bar


def _groups(
    groups: Sequence[BarGroup], slots: dict[str, int], x: Scale, y: float, beside: bool, form: Format
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
            parts.append(_bar(group, bar, slots[bar.series], x, y, form))
            y += _BAR + _GAP
        y += _BETWEEN - _GAP
    return Markup.join_all(*parts), y - _BETWEEN / 2


def _bar(group: BarGroup, bar: Bar, slot: int, x: Scale, y: float, form: Format) -> Markup:
    zero, end = x(0), x(bar.value)
    reach = [end]
    said = f"{group.label}, {bar.series}: {shown(bar.value, form)}"
    whisker = Markup()
    if bar.low is not None and bar.high is not None:
        low, high, middle = x(bar.low), x(bar.high), y + _BAR / 2
        said += f" [{shown(bar.low, form)}, {shown(bar.high, form)}]"
        caps = "".join(f"M{number(at)} {number(middle - 3.5)}v7" for at in (low, high))
        line = f"M{number(low)} {number(middle)}H{number(high)}"
        whisker = element("path", class_="bar-whisker", d=line + caps)
        reach += [low, high]
    negative = bar.value < 0
    text = element(
        "text", shown(bar.value, form), class_="small", y=y + _BAR / 2 + 4.5,
        x=min(reach) - 7 if negative else max(reach) + 7, text_anchor="end" if negative else None,
    )  # fmt: skip
    box = element("rect", class_="bar", x=min(zero, end), y=y, width=abs(end - zero), height=_BAR, rx=2)
    return element("g", element("title", said), box, whisker, text, class_=f"c{slot % SLOTS}")


def _grid(x: Scale, frame: Frame, label: str, form: Format) -> Markup:
    at = x.ticks(apart=64)
    parts = []
    for value in at:
        px = x(value)
        text = shown(value, form, at[1] - at[0] if len(at) > 1 else 0.01)
        parts.append(element("line", class_="grid", x1=px, x2=px, y1=frame.top, y2=frame.bottom))
        parts.append(element("text", text, class_="muted small", x=px, y=frame.bottom + 18, text_anchor="middle"))
    middle = (frame.left + frame.right) / 2
    parts.append(element("text", label, class_="muted small", x=middle, y=frame.bottom + 38, text_anchor="middle"))
    return Markup.join_all(*parts)


def _zero(x: Scale, frame: Frame) -> Markup:
    return element("line", class_="axis", x1=x(0), x2=x(0), y1=frame.top, y2=frame.bottom)
