"""A study for people: one page, one report for a terminal, the charts and the blocks of the docs, for labels and search.

Within a budget the best point is that with the highest accuracy; advised is the cheapest point on the frontier that is not
clearly worse: the 95% interval of best − point, paired by seed or by problem, reaches zero. What a smaller budget has stays
unless the best is clearly better, and nothing below its mean takes its place. What differs between studies is data of `Study`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Generic, NamedTuple, TypeVar, get_args

from footfall.metrics.intervals import Interval
from footfall.registry import FREE, Kind
from footfall.reports.charts import Point as Mark
from footfall.reports.pages import Section, figure, paragraph, report, responsive, table
from footfall.reports.pictures import WIDE, Picture, files_of
from footfall.store import Run
from footfall.studies.frontier import Costs, Placed, Point, ties
from footfall.studies.study import Measured, Site, measure_plan

C = TypeVar("C", bound=Costs[Any])


class Extra(NamedTuple):
    """A table beside those of points."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    text_columns: int
    title: str = ""
    """Of its section of the page, where it has one of its own; the others stand below the advice."""
    opening: str = ""
    """What a terminal says before it."""


@dataclass(frozen=True)
class Study(Generic[C]):
    """What is measured of which methods, and the words in which it is told."""

    name: str
    docs: str
    """What the files of the documentation begin with: `label_costs`."""
    question: str
    plan: Callable[..., Any]
    lists: tuple[str, ...]
    """Options of the plan that are names with commas between."""
    numbers: tuple[str, ...]
    site: Callable[[Any, Path, str, int], Site]
    together: Callable[[Any, Measured], C]
    """The points with their frontier, out of all figures."""
    read: Callable[[Mapping[str, Any]], C]
    """From JSON."""
    columns: tuple[str, ...]
    """What a setting consists of."""
    titled: Callable[..., str]
    """A setting in words."""
    frontier: str
    """What the mark of points on the frontier means."""
    head: Sequence[str]
    """The columns of a table of points."""
    row: Callable[[Any, bool], list[str]]
    """A point in those columns, with all intervals or with the main one."""
    kinds: bool
    """Whether the docs say of which kind each point is."""
    facts: Callable[[C], dict[str, str]]
    advice: Callable[[C], str]
    """One paragraph."""
    caption: str
    """Of every chart on the page."""
    pictures: Callable[[C, tuple[str, ...]], list[Picture]]
    """The charts of a setting; they are drawn with a title, or not (`titled`)."""
    extras: Callable[[C], list[Extra]]
    left_out: Callable[[C], dict[str, str]]
    """Methods that are not there, with the reason."""
    own_blocks: Mapping[str, Callable[[C], str]]
    """What the page of the documentation shows between its marks beside what every study has."""

    def run(self, plan: Any, run: Run, workers: int = 1) -> C:
        """Measure all units that are not there yet, worlds and seeds side by side in `workers`, then put them together."""
        return self.together(plan, measure_plan(self.name, plan, self.site, run, workers))

    def rows(self, points: Sequence[Any], full: bool = False) -> list[list[str]]:
        """One row a point."""
        return [self.row(point, full) for point in points]

    def charts(self, costs: C) -> dict[str, str]:
        """By file name."""
        return files_of(one for setting in costs.settings() for one in self.pictures(costs, setting))

    def page(self, costs: C) -> str:
        """The run's page: advice, then charts and table of each setting."""
        extras = [
            (extra.title, table(extra.head, extra.rows, caption=extra.caption, text_columns=extra.text_columns))
            for extra in self.extras(costs)
        ]
        said = [paragraph(self.advice(costs).replace("`", "")), *(told for title, told in extras if not title)]
        sections = [Section("Advice", said), *(Section(title, [told]) for title, told in extras if title)]
        for setting in costs.settings():
            drawn = [
                figure(responsive(partial(one.draw, titled=False)), self.caption, one.words)
                for one in self.pictures(costs, setting)
            ]
            told = table(self.head, self.rows(costs.of(*setting), True), caption=self.frontier, text_columns=2)
            sections.append(Section(self.titled(*setting), [*drawn, told]))
        title = self.docs.replace("_", " ").capitalize()
        return report(title, f"Footfall bench: {self.name}", self.question, self.facts(costs), sections)

    def shown(self, costs: C) -> list[str | list[Sequence[str]]]:
        """What a terminal shows: lines, and tables with their header."""
        told: list[str | list[Sequence[str]]] = []
        for setting in costs.settings():
            told += [f"{self.titled(*setting)}, {self.frontier}", [self.head, *self.rows(costs.of(*setting))]]
        extras = self.extras(costs)
        for extra in (extra for extra in extras if extra.title):
            told += [extra.opening, [extra.head, *extra.rows]]
        told.append(self.advice(costs))
        for extra in (extra for extra in extras if not extra.title):
            told += [[extra.head, *extra.rows], extra.caption]
        return told

    @property
    def blocks(self) -> dict[str, Callable[[C], str]]:
        """What the page of the documentation shows between its marks, from the figures alone."""
        common = {"advice": self._advice, "charts": self._charts, "frontier": self._frontier, "all": self._all}
        return {f"{self.docs.replace('_', '-')}-{name}": block for name, block in {**common, **self.own_blocks}.items()}

    def _advice(self, costs: C) -> str:
        return self.advice(costs) + "\n"

    def _charts(self, costs: C) -> str:
        return "\n".join(one.html for setting in costs.settings() for one in self.pictures(costs, setting))

    def _frontier(self, costs: C) -> str:
        """The points on the frontier of each setting, from cheap to dear. Exact ties of a kind share a row."""
        kinds: tuple[Kind, ...] = get_args(Kind)
        body = []
        for setting in costs.settings():
            there = sorted((p for p in costs.of(*setting) if p.frontier), key=lambda p: p.tokens)
            tied = [same for kind in kinds for same in ties([p for p in there if p.kind == kind])]
            for first, *others in sorted(tied, key=lambda same: same[0].tokens):
                name = quoted(first) + equals(first, others, _quote(first))
                body.append([*setting, name, *self.row(first, False)[1:]])
        return markdown([*self.columns, *self.head], body, len(self.columns) + 2)

    def _all(self, costs: C) -> str:
        """Every point of each setting, folded."""
        told = []
        method, *others = self.head
        kind = ["kind"] if self.kinds else []
        for setting in costs.settings():
            points = costs.of(*setting)
            body = [
                [quoted(p) + (" \\*" if p.frontier else ""), *([p.kind] if self.kinds else []), *self.row(p, True)[1:]]
                for p in points
            ]
            summary = f"{self.titled(*setting)}: {len({p.method for p in points})} methods, {len(points)} points"
            told.append(folded(summary, markdown([method, *kind, *others], body, 2 + len(kind))))
        return "\n".join(told)


def headed(title: str, subtitle: str, width: float, titled: bool) -> tuple[str, str]:
    """What stands above a chart, if anything; on a phone what fits: up to a colon in the title and a semicolon below it."""
    if not titled:
        return "", ""
    return (title, subtitle) if width >= WIDE else (title.partition(":")[0], subtitle.partition(";")[0])


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


def in_words(names: Sequence[str]) -> str:
    """`a`, `b` and `c`."""
    each = [f"`{name}`" for name in names]
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"


def folded(summary: str, body: str) -> str:
    """Something long that a reader opens; on a site it needs the Markdown extension `md_in_html`."""
    return f'<details markdown="1">\n<summary>{summary}</summary>\n\n{body}\n</details>\n'


def quoted(point: Point) -> str:
    """A method's name for the docs; with a critic in italics."""
    quote = _quote(point)
    return f"{quote}{point.method}{quote}"


def _quote(point: Point) -> str:
    return "*" if point.kind == "stand-in" else "`"


def worlds_table(
    costs: Costs[Any],
    head: Sequence[str],
    cells: Callable[[Any], list[str]],
    levels: Mapping[str, float],
    text_columns: int,
) -> str:
    """What each setting is like, and its budgets in tokens."""
    body = []
    for setting in costs.settings():
        tokens = [f"{n:,.0f}" for n in costs.limits(setting, levels).values()]
        body.append([*setting, *cells(costs.worlds["/".join(setting)]), *tokens])
    return markdown([*head, *(f"{level}: {times}×" for level, times in levels.items())], body, text_columns)
