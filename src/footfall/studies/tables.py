"""A study for people: the words and tables that labels and search have in common, for pages, terminals and the docs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar, get_args

from footfall.metrics.intervals import Interval
from footfall.reports.charts import Point as Mark
from footfall.studies.frontier import Placed, ties
from footfall.studies.study import Costs, Point
from footfall.study_rows import FREE, Kind

P = TypeVar("P", bound=Point)


def dial_text(point: Placed) -> str:
    """`8 rollouts`, `1 vote`, `half width 0.2`, `n 16`, `free`."""
    if point.dial == FREE:
        return FREE
    if not point.dial.endswith("s"):
        return f"{point.dial} {point.budget:g}"
    return f"{point.budget:g} {point.dial.removesuffix('s') if point.budget == 1 else point.dial}"


def equals(first: Placed, others: Sequence[Placed], quote: str = "`") -> str:
    """` and `er-prm`, `pav` with 4 rollouts`, for the name of a row that stands for all of them; nothing without others."""
    own = dial_text(first)
    named = []
    for other in others:
        name, dial = f"{quote}{other.method}{quote}", dial_text(other)
        named.append(f"with {dial}" if other.method == first.method else name if dial == own else f"{name} with {dial}")
    return f" and {', '.join(named)}" if named else ""


def how_sure(points: Sequence[Placed], each: str) -> str:
    """How wide the intervals are; `each` says what a point is made of, such as `36 problems (12 of each of 3 seeds)`."""
    widths = [100 * (p.accuracy.high - p.accuracy.low) for p in points if math.isfinite(p.accuracy.low)]
    if not widths:
        return f"Each point has {each} and no interval."
    wide = f"{median(widths):.0f} percentage points wide at the median and {max(widths):.0f} at most"
    return f"Each point has {each}; its 95% interval is {wide}."


def percent(interval: Interval) -> str:
    """`82% [76, 87]`."""
    if math.isnan(interval.low):
        return f"{100 * interval.value:.0f}%"
    return f"{100 * interval.value:.0f}% [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def shown(found: Interval | None, scale: float, decimals: int, interval: bool = False) -> str:
    """A cell of a table; a dash for what could not be measured."""
    if found is None:
        return "–"
    value, low, high = (f"{scale * number:.{decimals}f}" for number in found)
    return f"{value} [{low}, {high}]" if interval and math.isfinite(found.low) else value


def mark(interval: Interval, x: float) -> Mark:
    """A point of a chart."""
    value, low, high = interval
    return Mark(x, value) if math.isnan(low) else Mark(x, value, low, high)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]], text_columns: int) -> str:
    """A table for the documentation, numbers to the right."""
    side = ["---"] * text_columns + ["---:"] * (len(head) - text_columns)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, side, *body))


def folded(summary: str, body: str) -> str:
    """Something long that a reader opens; on a site it needs the Markdown extension `md_in_html`."""
    return f'<details markdown="1">\n<summary>{summary}</summary>\n\n{body}\n</details>\n'


def quoted(point: Point) -> str:
    """A method's name for the docs; with a critic in italics."""
    quote = _quote(point)
    return f"{quote}{point.method}{quote}"


def _quote(point: Point) -> str:
    return "*" if point.kind == "stand-in" else "`"


def frontier_table(costs: Costs[P], columns: Sequence[str], head: Sequence[str], row: Callable[[P], list[str]]) -> str:
    """The points on the frontier of each setting, from cheap to dear. Exact ties of a kind share a row."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    body = []
    for setting in costs.settings():
        there = sorted((p for p in costs.of(*setting) if p.frontier), key=lambda p: p.tokens)
        tied = [same for kind in kinds for same in ties([p for p in there if p.kind == kind])]
        for first, *others in sorted(tied, key=lambda same: same[0].tokens):
            body.append([*setting, quoted(first) + equals(first, others, _quote(first)), *row(first)[1:]])
    return markdown([*columns, *head], body, len(columns) + 2)


def all_points(
    costs: Costs[P], named: Callable[..., str], head: Sequence[str], row: Callable[[P], list[str]], text_columns: int
) -> str:
    """Every point of each setting, folded; `row` has what stands after the method's name."""
    told = []
    for setting in costs.settings():
        points = costs.of(*setting)
        body = [[quoted(p) + (" \\*" if p.frontier else ""), *row(p)] for p in points]
        methods = len({p.method for p in points})
        summary = f"{named(*setting)}: {methods} methods, {len(points)} points"
        told.append(folded(summary, markdown(head, body, text_columns)))
    return "\n".join(told)


def worlds_table(
    costs: Costs[P],
    head: Sequence[str],
    cells: Callable[[Any], list[str]],
    levels: Mapping[str, float],
    text_columns: int,
) -> str:
    """What each setting is like, and its budgets in tokens."""
    body = [
        [
            *setting,
            *cells(costs.worlds["/".join(setting)]),
            *(f"{n:,.0f}" for n in costs.limits(setting, levels).values()),
        ]
        for setting in costs.settings()
    ]
    return markdown([*head, *(f"{level}: {times}×" for level, times in levels.items())], body, text_columns)


def pictures(charts: Mapping[str, str]) -> str:
    """Charts in the documentation, from what each shows by file."""
    return "\n".join(f"![{what}]({file})\n" for file, what in charts.items())
