"""Quality against tokens, for any set of methods: intervals over seeds, the frontier, advice by rule, and units kept on disk.

Shared by `footfall bench labels` and `footfall bench search`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeVar

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.reports._lines import Point as Mark
from footfall.store import write_json

DIGITS = 6
"""Figures are rounded before they are compared: what is stored is what was compared."""


class Placed(Protocol):
    """A method at one place of its dial, that stands somewhere between cost and quality."""

    @property
    def method(self) -> str: ...
    @property
    def dial(self) -> str: ...
    @property
    def budget(self) -> float: ...
    @property
    def tokens(self) -> float: ...
    @property
    def accuracy(self) -> Interval: ...
    @property
    def outcomes(self) -> Sequence[float]:
        """One number a seed or a problem, the same ones for all points: for paired comparisons."""
        ...


P = TypeVar("P", bound=Placed)


def beats(other: Placed, point: Placed) -> bool:
    """At least as good and at most as dear, and not the same."""
    cheaper, better = point.tokens - other.tokens, other.accuracy.value - point.accuracy.value
    return cheaper >= 0 and better >= 0 and (cheaper > 0 or better > 0)


def clearly_better(a: Placed, b: Placed) -> bool:
    """Whether all of the interval of a − b, paired, lies above zero; with a single outcome: whether it is more."""
    difference = mean_of_seeds([x - y for x, y in zip(a.outcomes, b.outcomes, strict=True)])
    return difference.value > 0 if math.isnan(difference.low) else difference.low > 0


class Choice(NamedTuple):
    """What is advised, and the best there was for as much."""

    point: Any
    best: Any
    again: bool = False
    """Advised at a smaller budget already: nothing that fits this one is clearly better."""


def cheapest_as_good(points: Sequence[P], limit: float, before: P | None = None) -> Choice | None:
    """Of those within a limit of tokens: the cheapest that is not clearly worse than the best; `None` if there is none.

    `before` is what a smaller limit had: it stays unless the best is clearly better, and none below its mean takes its place.
    Points that another beats are no candidates.
    """
    within = [p for p in points if p.tokens <= limit and not any(beats(other, p) for other in points)]
    if not within:
        return None
    best = max(within, key=lambda p: (p.accuracy.value, -p.tokens))
    if before is not None and not clearly_better(best, before):
        return Choice(before, best, again=True)
    least = -math.inf if before is None else before.accuracy.value
    good = [p for p in within if p.accuracy.value >= least and not clearly_better(best, p)]
    return Choice(min(good, key=lambda p: p.tokens), best)


def advised(points: Sequence[P], limits: Sequence[float]) -> list[Choice | None]:
    """The choice at each limit, from the smallest up: its mean never falls as the limit grows."""
    if list(limits) != sorted(limits):
        raise ValueError(f"budgets go from small to large, not {list(limits)}")
    found: list[Choice | None] = []
    for limit in limits:
        before = found[-1] if found else None
        found.append(cheapest_as_good(points, limit, None if before is None else before.point))
    return found


def ties(points: Sequence[P]) -> list[list[P]]:
    """Points that cost the same and are as good, together, in the order of the first of each."""
    found: dict[tuple[float, float], list[P]] = {}
    for point in points:
        found.setdefault((round(point.tokens, DIGITS), round(point.accuracy.value, DIGITS)), []).append(point)
    return list(found.values())


def equals(first: Placed, others: Sequence[Placed], quote: str = "`") -> str:
    """` and `er-prm`, `pav` with 4 rollouts`, for the name of a row that stands for all of them; nothing without others."""
    own = dial_text(first.dial, first.budget)
    named = []
    for other in others:
        name, dial = f"{quote}{other.method}{quote}", dial_text(other.dial, other.budget)
        named.append(f"with {dial}" if other.method == first.method else name if dial == own else f"{name} with {dial}")
    return f" and {', '.join(named)}" if named else ""


def how_sure(points: Sequence[Placed], each: str) -> str:
    """How wide the intervals are; `each` says what a point is made of, such as `36 problems (12 of each of 3 seeds)`."""
    widths = [100 * (p.accuracy.high - p.accuracy.low) for p in points if math.isfinite(p.accuracy.low)]
    if not widths:
        return f"Each point has {each} and no interval."
    wide = f"{median(widths):.0f} percentage points wide at the median and {max(widths):.0f} at most"
    return f"Each point has {each}; its 95% interval is {wide}."


def over_seeds(
    seeds: Sequence[Mapping[str, Any]], names: Sequence[str], shares: Sequence[str] = ()
) -> dict[str, Interval]:
    """Means over the seeds that have a figure; a figure that none has is left out. Shares stay within 0 and 1."""
    found = {}
    for name in names:
        means = [seed[name] for seed in seeds if seed[name] is not None]
        if means:
            value, low, high = (round(end, DIGITS) for end in mean_of_seeds(means))
            # The comparisons keep a NaN, which max and min may not.
            inside = name in shares
            found[name] = Interval(value, 0.0 if inside and low < 0 else low, 1.0 if inside and high > 1 else high)
    return found


def interval_json(interval: Interval) -> dict[str, Any]:
    """As a report states it; one seed has no interval."""
    ends = [end for end in interval[1:] if math.isfinite(end)]
    return {"value": interval.value, "ci95": ends or None}


def interval_from(given: Mapping[str, Any]) -> Interval:
    return Interval(given["value"], *(given["ci95"] or (math.nan, math.nan)))


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What an earlier run wrote there, or what is made now and written whole."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, make())
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def names_of(given: object) -> tuple[str, ...]:
    """The names in an option such as `arithmetic,logic`."""
    return tuple(name.strip() for name in str(given).split(",") if name.strip())


def dial_text(dial: str, budget: float) -> str:
    """`8 rollouts`, `1 vote`, `half width 0.2`, `n 16`, `free`."""
    if dial == "free":
        return "free"
    if not dial.endswith("s"):
        return f"{dial} {budget:g}"
    return f"{budget:g} {dial.removesuffix('s') if budget == 1 else dial}"


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


def plan_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plan as they were before JSON made lists of their tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
