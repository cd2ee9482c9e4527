"""Cost against quality: which of the points of a study are on the frontier, and which one a budget is best spent on, by rule.

A point is a method at one place of its dial; it has tokens, accuracy with an interval, and one outcome a seed or problem, by
which two points are compared in pairs. All of it are pure functions of points; nothing here measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.registry import Kind

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


class Point(Placed, Protocol):
    """A unit of a study over all seeds: a dataclass that also knows where it was measured and of what kind it is."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def setting(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def frontier(self) -> bool: ...


P = TypeVar("P", bound=Placed)
Q = TypeVar("Q", bound=Point)


def measured(points: Sequence[Q]) -> list[Q]:
    """Those that may be advised."""
    return [point for point in points if point.kind == "measured"]


def frontier(points: Sequence[Q]) -> list[Q]:
    """The points of one setting, marked: no measured point is at least as good and at most as dear (and not the same).

    Stand-ins are held against measured methods but beat none of them, for their quality is assumed; references and methods
    with traces of their own are not on it.
    """
    rivals = measured(points)
    return [
        replace(point, frontier=point.kind in ("measured", "stand-in") and not any(beats(r, point) for r in rivals))
        for point in points
    ]


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


class Pick(NamedTuple):
    """The advice for one setting and budget."""

    setting: tuple[str, ...]
    """The world, and the judge where there are several."""
    level: str
    limit: float
    """Tokens."""
    point: Any
    best: Any
    """The most accurate within the budget; often the same."""
    again: bool
    """Advised at a smaller budget already."""

    @property
    def world(self) -> str:
        return self.setting[0]


def picks_of(points: Sequence[P], setting: tuple[str, ...], limits: Mapping[str, float]) -> list[Pick]:
    """Among the points of one setting, by level, from the low budget to the high one; none where nothing is that cheap."""
    rows = zip(limits.items(), advised(points, list(limits.values())), strict=True)
    return [Pick(setting, level, limit, *choice) for (level, limit), choice in rows if choice is not None]


def ties(points: Sequence[P]) -> list[list[P]]:
    """Points that cost the same and are as good, together, in the order of the first of each."""
    found: dict[tuple[float, float], list[P]] = {}
    for point in points:
        found.setdefault((round(point.tokens, DIGITS), round(point.accuracy.value, DIGITS)), []).append(point)
    return list(found.values())


class Costs(Generic[Q]):
    """All that a study found; its subclasses are dataclasses with these fields and their own."""

    __slots__ = ()
    worlds: Mapping[str, Any]
    """By `WORLD`, or `WORLD/JUDGE`."""
    points: Sequence[Q]

    def settings(self) -> list[tuple[str, ...]]:
        """As they were measured."""
        return [tuple(name.split("/")) for name in self.worlds]

    def of(self, *setting: str) -> list[Q]:
        return [point for point in self.points if point.setting == setting]

    def limits(self, setting: tuple[str, ...], levels: Mapping[str, float]) -> dict[str, float]:
        """Tokens by level; levels are multiples of what one trace of the world costs to write."""
        unit = self.worlds["/".join(setting)].tokens
        return {level: times * unit for level, times in levels.items()}

    def picks(self, levels: Mapping[str, float]) -> list[Pick]:
        """Setting by setting, from the low budget to the high one, among the methods that are measured."""
        return [
            one
            for setting in self.settings()
            for one in picks_of(measured(self.of(*setting)), setting, self.limits(setting, levels))
        ]

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError
