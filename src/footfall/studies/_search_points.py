"""What `footfall bench search` measures and finds: plan, points with intervals, the cost/accuracy frontier, and all as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from footfall.metrics.intervals import Interval, mean_of_seeds, wilson
from footfall.registry import load
from footfall.studies._search_judges import QUALITIES
from footfall.studies._search_methods import chosen
from footfall.studies._search_prms import TRACES
from footfall.studies.frontier import beats, interval_json, plan_fields

DEFAULT_WORLDS = ("arithmetic", "logic", "algebra", "code")
PRM = "prm"
"""The judge that is another one for each seed."""
NO_JUDGE = "none"
"""The judge of methods that do without."""
FIGURES = {
    "accuracy": "problems whose chosen answer is right; one without an answer is wrong",
    "answered": "problems with an answer",
    "policy_tokens": "tokens a problem that the policy writes",
    "judge_tokens": "tokens a problem that the judge reads, by the cost model of the page",
    "step_auc": "of a PRM: how often a right step is valued above a wrong one, up to a trace's first error, on held-out traces",
    "solution_auc": "of a PRM: how often the lowest step of a right solution is valued above that of a wrong one, on those",
    "right": "1 for each problem whose answer is right, seed by seed: for paired comparisons",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. Each seed draws its own problems, samples and noise."""

    worlds: tuple[str, ...] = DEFAULT_WORLDS
    judges: tuple[str, ...] = QUALITIES
    methods: tuple[str, ...] | None = None
    """`None`: all."""
    seeds: int = 3
    first_seed: int = 0
    problems: int = 12
    """Of each world and seed."""
    most: int = 64
    """Dearer places of a dial are left out."""
    reread: bool = False
    """Whether judges read every trace anew."""
    prm_traces: int = TRACES
    """What the PRM of each world and seed is trained on."""

    def __post_init__(self) -> None:
        if min(self.seeds, self.problems, self.prm_traces) < 1 or not self.worlds or not self.judges:
            raise ValueError(f"want a world, a judge, a seed, a problem and a training trace at least: {self}")
        unknown = [judge for judge in self.judges if judge not in QUALITIES]
        if unknown:
            raise ValueError(f"no judge is called {unknown[0]!r} here; there are {', '.join(QUALITIES)}")
        for world in self.worlds:
            load("world", world)
        chosen(self.methods)

    def settings(self) -> list[tuple[str, str]]:
        """World and judge."""
        return [(world, judge) for world in self.worlds for judge in self.judges]


class World(NamedTuple):
    """A world under one judge, as it was measured on."""

    policy: str
    single: float
    """The accuracy of one sample."""
    tokens: float
    """Of one sample, as the policy counts them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One method at one place of its dial, on one world with one judge, over the problems of all seeds."""

    world: str
    judge: str
    method: str
    judged: bool
    """Whether it used the judge."""
    dial: str
    budget: int
    right: tuple[int, ...]
    """1 for each problem whose answer is right: all methods have the same problems."""
    answered: float
    policy_tokens: float
    judge_tokens: float
    seeds: int = 1
    """Whose problems these are, seed by seed, as many of each."""
    frontier: bool = False
    """No method is at least as accurate for no more tokens."""

    @property
    def tokens(self) -> float:
        return self.policy_tokens + self.judge_tokens

    @property
    def accuracy(self) -> Interval:
        """Wilson's interval over problems; where each seed has its own PRM, widened to that of the seeds' means."""
        found = wilson(sum(self.right), len(self.right))
        if not (self.judged and self.judge == PRM and self.seeds > 1):
            return found
        each = len(self.right) // self.seeds
        seeds = mean_of_seeds([fmean(self.right[k : k + each]) for k in range(0, len(self.right), each)])
        return Interval(found.value, max(0.0, min(found.low, seeds.low)), min(1.0, max(found.high, seeds.high)))

    @property
    def outcomes(self) -> tuple[int, ...]:
        return self.right


@dataclass(frozen=True, slots=True)
class SearchCosts:
    """All that was measured."""

    plan: Plan
    worlds: Mapping[str, World]
    """By `WORLD/JUDGE`."""
    points: Sequence[Point]
    prms: Mapping[str, Sequence[Mapping[str, Any]]]
    """By world: how good the PRM of each seed is."""
    unmeasured: Mapping[str, str]
    """By method: why it is not there."""

    def of(self, world: str, judge: str) -> list[Point]:
        return [point for point in self.points if (point.world, point.judge) == (world, judge)]

    def step_auc(self, world: str) -> float | None:
        """Of the world's PRMs, mean over seeds; `None` where nothing could be told apart."""
        known = [seed["step_auc"] for seed in self.prms.get(world, ()) if seed["step_auc"] is not None]
        return fmean(known) if known else None

    def tells_apart(self, world: str, least: float) -> bool:
        """Whether the world's PRMs tell right steps from wrong ones that well."""
        auc = self.step_auc(world)
        return auc is not None and auc >= least

    def settings(self) -> list[tuple[str, str]]:
        """World and judge, as they were measured."""
        return [(name.partition("/")[0], name.partition("/")[2]) for name in self.worlds]

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": asdict(self.plan),
            "figures": FIGURES,
            "worlds": {name: world._asdict() for name, world in self.worlds.items()},
            "points": [_point_json(point) for point in self.points],
            "prms": self.prms,
            "not_measured": self.unmeasured,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> SearchCosts:
        worlds = {name: World(**world) for name, world in given["worlds"].items()}
        plan = Plan(**plan_fields(given["plan"]))
        points = [_read_point(point, plan.seeds) for point in given["points"]]
        return cls(plan, worlds, points, given["prms"], given["not_measured"])


def _point_json(point: Point) -> dict[str, Any]:
    plain = {name: value for name, value in asdict(point).items() if name != "seeds"}
    right = "".join(map(str, point.right))
    return {**plain, "right": right, "accuracy": interval_json(point.accuracy)}


def _read_point(given: Mapping[str, Any], seeds: int) -> Point:
    plain = {name: value for name, value in given.items() if name != "accuracy"}
    return Point(**{**plain, "right": tuple(map(int, given["right"])), "seeds": seeds})


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points of one world and judge, marked: no other is at least as accurate for no more tokens."""
    return [replace(point, frontier=not any(beats(other, point) for other in points)) for point in points]
