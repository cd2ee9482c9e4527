"""Accuracy against the number of samples, one line a way of choosing, with 95% bands and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from footfall.metrics.intervals import bootstrap_mean
from footfall.reports.charts import Point, Series, line_chart
from footfall.reports.pages import details, figure, responsive, table
from footfall.search.votes import Curve

RULE_NAMES = {
    "single": "single",
    "majority": "majority",
    "best": "best_of_n",
    "weighted": "weighted_vote",
    "oracle": "oracle",
}
"""The rules of `footfall.search.votes:curve` by their names in a report."""

_KNOWN = {
    # key: (name, colour slot, emphasis, dashed); a method keeps its colour from one report to the next.
    "oracle": ("oracle", 3, False, True),
    "weighted_vote": ("weighted vote", 0, True, False),
    "best_of_n": ("best-of-N", 2, False, False),
    "majority": ("majority", 1, False, False),
    "single": ("single", 4, False, False),
}


def accuracy_points(accuracy: Curve, seed: int) -> dict[str, list[Point]]:
    """The points of each rule's line, with bootstrap intervals over problems."""
    return {
        RULE_NAMES[rule]: [Point(n, *bootstrap_mean(row, seed)) for n, row in zip(accuracy.ns, rows, strict=True)]
        for rule, rows in accuracy.correct.items()
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


def accuracy_blocks(curves: Mapping[str, Sequence[Point]], caption: str) -> list[Markup]:
    """The chart for a desk and for a phone, and its numbers behind a line that opens them."""
    chart = responsive(lambda width: accuracy_svg(curves, width=width, height=420 if width > 500 else 340))
    return [figure(chart, caption), details("The numbers behind the figure", _numbers(curves))]


def _numbers(curves: Mapping[str, Sequence[Point]]) -> Markup:
    by_n = {key: {p.x: p for p in points} for key, points in curves.items()}
    rows = [
        [f"{n:g}", *(_interval(points.get(n)) for points in by_n.values())]
        for n in sorted({n for points in by_n.values() for n in points})
    ]
    return table(["N", *map(curve_name, by_n)], rows, caption="Percent of problems solved, with 95% intervals")


def _interval(point: Point | None) -> str:
    if point is None:
        return "–"
    known = point.low is not None and point.high is not None
    return f"{100 * point.y:.1f}" + (f" [{percentage(point.low)}, {percentage(point.high)}]" if known else "")


def percentage(fraction: float | None) -> str:
    """0.073 is 7.3; a minus is written as one, and zero has none."""
    text = f"{100 * (fraction or 0.0):.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")
