"""What `footfall bench labels` measures and finds: plan, points with intervals, the cost/quality frontier, and all as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from footfall.metrics.intervals import Interval
from footfall.registry import load
from footfall.studies._labels_figures import FIGURES
from footfall.studies._labels_methods import Kind, chosen
from footfall.studies.frontier import beats, interval_from, interval_json, plan_fields

DEFAULT_WORLDS = ("arithmetic", "logic", "algebra", "code")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. `seeds` are drawn anew each: problems, traces and rollouts."""

    worlds: tuple[str, ...] = DEFAULT_WORLDS
    methods: tuple[str, ...] | None = None
    """`None`: all."""
    seeds: int = 5
    first_seed: int = 0
    traces: int = 100
    """Of each world and seed."""
    price: int = 30
    """Generated tokens that a critic's vote costs for each step of a trace."""
    recover: float | None = None
    """How often the completer mends an error; `None`: as the scripted policy of the world has it."""

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.traces < 1 or self.price < 0 or not self.worlds:
            raise ValueError(f"want a world, a seed and a trace at least, and a price of 0 or more: {self}")
        for world in self.worlds:
            load("world", world)
        chosen(self.methods)


class World(NamedTuple):
    """A world as it was measured on."""

    policy: str
    steps: float
    """A trace."""
    tokens: float
    """Of a trace, as the policy counts them."""
    errors: float
    """Share of the traces that have an error."""


@dataclass(frozen=True, slots=True)
class Point:
    """One method at one budget on one world: figures with 95% intervals over seeds."""

    world: str
    method: str
    kind: Kind
    dial: str
    budget: float
    figures: Mapping[str, Interval]
    per_1000: Mapping[str, Interval]
    seeds: tuple[float, ...]
    """First-error accuracy of each seed, for paired comparisons."""
    frontier: bool = False
    """No measured method is at least as good at no higher cost; see `frontier`."""

    @property
    def tokens(self) -> float:
        return self.figures["tokens"].value

    @property
    def accuracy(self) -> Interval:
        return self.figures["first_error"]

    @property
    def outcomes(self) -> tuple[float, ...]:
        return self.seeds


@dataclass(frozen=True, slots=True)
class LabelCosts:
    """All that was measured."""

    plan: Plan
    worlds: Mapping[str, World]
    points: Sequence[Point]
    lacking: Mapping[str, Mapping[str, str]]
    """By method and world: why it does not apply."""
    unmeasured: Mapping[str, str]

    def of(self, world: str) -> list[Point]:
        return [point for point in self.points if point.world == world]

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": asdict(self.plan),
            "figures": FIGURES,
            "worlds": {name: world._asdict() for name, world in self.worlds.items()},
            "points": [_point_json(point) for point in self.points],
            "does_not_apply": self.lacking,
            "not_measured": self.unmeasured,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> LabelCosts:
        worlds = {name: World(**world) for name, world in given["worlds"].items()}
        points = [_read_point(point) for point in given["points"]]
        return cls(Plan(**plan_fields(given["plan"])), worlds, points, given["does_not_apply"], given["not_measured"])


def _point_json(point: Point) -> dict[str, Any]:
    plain = {name: getattr(point, name) for name in ("world", "method", "kind", "dial", "budget", "frontier", "seeds")}
    columns = {"figures": point.figures, "per_1000": point.per_1000}
    return plain | {key: {name: interval_json(i) for name, i in column.items()} for key, column in columns.items()}


def _read_point(given: Mapping[str, Any]) -> Point:
    columns = {key: {name: interval_from(i) for name, i in given[key].items()} for key in ("figures", "per_1000")}
    return Point(**{**given, **columns, "seeds": tuple(given["seeds"])})


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points of one world, marked: no measured point is at least as good and at most as dear (and not the same).

    Stand-ins are held against measured methods but beat none of them, for their quality is assumed; references and methods
    with traces of their own are not on it.
    """
    measured = [point for point in points if point.kind == "measured"]
    return [
        replace(
            point,
            frontier=point.kind in ("measured", "stand-in") and not any(beats(other, point) for other in measured),
        )
        for point in points
    ]
