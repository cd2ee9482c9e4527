"""Charts of one probability against another: how well predictions are calibrated, and labels against exact values.

Squares with the line on which both are equal; SVG text as that of `footfall.reports.charts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from footfall.reports.svg import (
    Frame,
    Scale,
    bottom_axis,
    canvas,
    check_numbers,
    element,
    finite,
    heading,
    join,
    left_axis,
    left_room,
    number,
    shown,
    span,
)

_CELLS = 32
"""Cells a side into which a scatter's points are gathered."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions that are close together: their mean, how often they came true, how many they are.

    An empty bin (`count=0`) is not drawn, whatever its means are.
    """

    predicted: float
    observed: float
    count: int
    low: float | None = None
    high: float | None = None


def calibration_plot(
    bins: Sequence[Bin],
    *,
    label: str,
    title: str = "",
    subtitle: str = "",
    x_label: str = "predicted value",
    y_label: str = "observed rate",
    count_label: str = "steps",
    width: float = 420,
) -> Markup:
    """Observed rate against mean prediction, the diagonal of a calibrated judge, and below it how many there are."""
    filled = sorted((_checked_bin(i, b) for i, b in enumerate(bins, 1) if b.count), key=lambda b: b.predicted)
    if not filled:
        raise ValueError(f"reliability diagram {label!r} has no bin with a count above 0")
    top, y = heading(title, subtitle, width)
    frame = _square(y, width, 0.0, 1.0)
    strip = Frame(frame.left, frame.bottom + 16, frame.right, frame.bottom + 72)
    x, scale_y = _unit_scales(frame, 0.0, 1.0)
    at = [(x(b.predicted), scale_y(b.observed)) for b in filled]
    path = element("path", class_="line", d="M" + "L".join(f"{number(px)} {number(py)}" for px, py in at))
    return canvas(
        width,
        strip.bottom + 52,
        label,
        top,
        left_axis(scale_y, frame, y_label, "number"),
        _identity(x, scale_y),
        _counts(filled, x, strip, count_label),
        bottom_axis(x, strip, x_label, "number"),
        element("g", path, *(_bin(b, x, scale_y) for b in filled), class_="c0"),
    )


def _checked_bin(i: int, b: Bin) -> Bin:
    if b.count < 0:
        raise ValueError(f"bin {i}: count is {b.count}; it is 0 or more")
    for name, value in check_numbers(b, ("predicted", "observed", "low", "high"), f"bin {i}").items():
        if not 0 <= value <= 1:
            raise ValueError(f"bin {i}: {name} is {value}, but a probability lies between 0 and 1")
    return b


def _square(y: float, width: float, lo: float, hi: float) -> Frame:
    left = left_room(Scale(lo, hi, width, 0), "number")
    return Frame(left, y + 34, width - 20, y + 34 + width - 20 - left)


def _unit_scales(frame: Frame, lo: float, hi: float) -> tuple[Scale, Scale]:
    pad = 18
    return (
        Scale(lo, hi, frame.left + pad, frame.right - pad),
        Scale(lo, hi, frame.bottom - pad, frame.top + pad),
    )


def _identity(x: Scale, y: Scale) -> Markup:
    return element("line", class_="identity", x1=x.start, y1=y.start, x2=x.end, y2=y.end)


def _bin(b: Bin, x: Scale, y: Scale) -> Markup:
    at, said = x(b.predicted), f"predicted {b.predicted:.3f}, observed {b.observed:.3f}, {b.count:,} steps"
    whisker = Markup()
    if b.low is not None and b.high is not None:
        whisker = element("line", class_="whisker", x1=at, x2=at, y1=y(b.low), y2=y(b.high))
        said += f", 95% [{b.low:.3f}, {b.high:.3f}]"
    dot = element("circle", class_="mark", cx=at, cy=y(b.observed), r=5)
    return element("g", element("title", said), whisker, dot)


def _counts(bins: Sequence[Bin], x: Scale, strip: Frame, label: str) -> Markup:
    """How many predictions each bin holds, as bars under the bin's mean."""
    most = max(b.count for b in bins)
    width = min(22.0, 0.62 * (x.end - x.start) / max(len(bins), 10))
    height = Scale(0, most, strip.bottom, strip.top)
    bars = [
        element(
            "g",
            element("title", f"{b.count:,} {label} predicted at {b.predicted:.3f}"),
            element(
                "rect",
                class_="bar",
                x=x(b.predicted) - width / 2,
                y=height(b.count),
                width=width,
                height=strip.bottom - height(b.count),
            ),
            class_="c4",
        )
        for b in bins
    ]
    most_text = element(
        "text", _short(most), class_="muted small", x=strip.left - 8, y=strip.top + 9, text_anchor="end"
    )
    unit = element("text", label, class_="muted small", x=strip.left - 8, y=strip.top + 25, text_anchor="end")
    return join(*bars, most_text, unit)


def _short(count: int) -> str:
    """A count that fits beside the plot: 1,403 stays, 140300 is 140k."""
    return f"{count:,}" if count < 10_000 else f"{count / 1e3:.0f}k" if count < 1e6 else f"{count / 1e6:.1f}M"


def mean_absolute_error(pairs: Sequence[tuple[float, float]]) -> float:
    """`mean |y - x|` over `(x, y)`."""
    return float(np.mean(np.abs(np.diff(np.asarray(pairs, dtype=np.float64), axis=1))))


def scatter(
    pairs: Sequence[tuple[float, float]],
    *,
    label: str,
    title: str = "",
    subtitle: str = "",
    x_label: str = "exact value",
    y_label: str = "label",
    show_mae: bool = True,
    width: float = 420,
) -> Markup:
    """Points `(x, y)` with the identity line and their MAE. Near points become one bubble, its area their number."""
    if not pairs:
        raise ValueError(f"scatter {label!r} has no points")
    for i, (px, py) in enumerate(pairs, 1):
        finite(px, f"scatter {label!r}, point {i}: {x_label}")
        finite(py, f"scatter {label!r}, point {i}: {y_label}")
    lo, hi = span([v for pair in pairs for v in pair], "number")
    if all(0 <= v <= 1 for pair in pairs for v in pair):
        lo, hi = 0.0, 1.0
    top, y = heading(title, subtitle, width)
    frame = _square(y, width, lo, hi)
    x, scale_y = _unit_scales(frame, lo, hi)
    caption = f"MAE {mean_absolute_error(pairs):.3f} over {len(pairs):,}"
    return canvas(
        width,
        frame.bottom + 52,
        f"{label}. {caption}",
        top,
        left_axis(scale_y, frame, y_label, "number"),
        bottom_axis(x, frame, x_label, "number"),
        element("g", *_bubbles(pairs, x, scale_y), class_="c0"),
        _identity(x, scale_y),
        element(
            "text",
            caption if show_mae else "",
            class_="small muted",
            x=frame.right,
            y=frame.top - 14,
            text_anchor="end",
        ),
    )


def _bubbles(pairs: Sequence[tuple[float, float]], x: Scale, y: Scale) -> list[Markup]:
    """One circle a cell, at the mean of its points, so that neither few nor discrete values look like a grid."""
    points = np.asarray(pairs, dtype=np.float64)
    cells = np.minimum((points - x.lo) / (x.hi - x.lo) * _CELLS, _CELLS - 1).astype(np.int64)
    _, which, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    means = np.stack([np.bincount(which, points[:, k]) / counts for k in (0, 1)], axis=1)
    largest = 1.5 * (x.end - x.start) / _CELLS if len(counts) < len(points) else 3.5
    radii = np.maximum(largest * np.sqrt(counts / counts.max()), 1.4)
    return [
        element(
            "g",
            element("title", f"{count:,} near ({shown(mx, 'number')}, {shown(my, 'number')})"),
            element("circle", class_="bubble", cx=x(mx), cy=y(my), r=float(radius)),
        )
        for (mx, my), count, radius in zip(means.tolist(), counts.tolist(), radii.tolist(), strict=True)
    ]
