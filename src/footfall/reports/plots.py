"""Charts as SVG text: pure functions of numbers, with no plotting library, that read well in light and in dark.

Each chart stands alone (its own style and background), so the same string goes into a report or a `.svg` file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from footfall.reports._lines import Point, Series, line_chart
from footfall.reports.svg import Markup

_KNOWN = {
    # key: (name, colour slot, emphasis, dashed); a method keeps its colour from one report to the next.
    "oracle": ("oracle", 3, False, True),
    "weighted_vote": ("weighted vote", 0, True, False),
    "best_of_n": ("best-of-N", 2, False, False),
    "majority": ("majority", 1, False, False),
    "single": ("single", 4, False, False),
}


def curve_name(key: str) -> str:
    """What a reader calls a method: `best_of_n` is best-of-N."""
    return _KNOWN[key][0] if key in _KNOWN else key.replace("_", " ")


def accuracy_svg(
    curves: Mapping[str, Sequence[Point]],
    *,
    title: str = "",
    subtitle: str = "",
    x_label: str = "N, samples per problem",
    y_label: str = "problems solved",
    width: float = 760,
    height: float = 420,
) -> Markup:
    """Accuracy against N, one line a method, with 95% bands; each point's x is N."""
    series = [_series(key, points, i) for i, (key, points) in enumerate(curves.items())]
    ends = ", ".join(f"{s.name} {100 * s.points[-1].y:.1f}%" for s in series if s.points)
    return line_chart(
        series, label=f"Accuracy against the number of samples. At the largest N: {ends}", title=title,
        subtitle=subtitle, x_label=x_label, y_label=y_label, x_scale="log2", width=width, height=height,
    )  # fmt: skip


def _series(key: str, points: Sequence[Point], place: int) -> Series:
    """A known method in its own colour; the others start at the one that no known method has."""
    name, slot, emphasis, dashed = _KNOWN.get(key, (curve_name(key), 5 + place, False, False))
    return Series(name, points, emphasis, dashed, slot)
