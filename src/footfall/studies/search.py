"""Which search method at which budget, measured: every searcher at several widths, with judges of known quality.

All methods of a world and seed get the same problems, the same policy with the same random numbers, and a judge that says the
same of the same text. The training of the PRM that is the third judge goes on where it stopped, as the units do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.drive.budget import tokens_of
from footfall.metrics.intervals import Interval, mean_of_seeds, wilson
from footfall.policy.protocol import SamplingParams
from footfall.registry import Kind, StudyRow, create, load, search_row
from footfall.search.refined_bon import Reviser
from footfall.search.searcher import Searcher
from footfall.search.state import Method
from footfall.simulate import Priced, Reader
from footfall.studies.frontier import DIGITS, Costs, frontier
from footfall.studies.search_judges import AGGREGATIONS, QUALITIES, TRACES, PrmSetting, exact, noisy, quality, trained
from footfall.studies.study import (
    DEFAULT_WORLDS,
    Figures,
    Measured,
    Place,
    Rows,
    Site,
    Unit,
    check_worlds,
    interval_json,
    kept,
    plan_fields,
    rows_of,
)
from footfall.types import Problem, SearchResult, content_key

SINGLE = "single"
"""The row of one sample: what every method is held against."""
PRM = "prm"
"""The judge that is another one for each seed."""
NO_JUDGE = "none"
"""The judge of methods that do without."""
_MAX_TOKENS = 256
"""Of one sample, be it a step or a solution: more than any trace of these worlds has."""
FIGURES = {
    "accuracy": "problems whose chosen answer is right; one without an answer is wrong",
    "answered": "problems with an answer",
    "policy_tokens": "tokens a problem that the policy writes",
    "judge_tokens": "tokens a problem that the judge reads, by the cost model of the page",
    "step_auc": "of a PRM: how often a right step is valued above a wrong one, up to a trace's first error, on held-out traces",
    "solution_auc": "of a PRM: how often the lowest step of a right solution is valued above that of a wrong one, on those",
    "right": "1 for each problem whose answer is right, seed by seed: for paired comparisons",
}


def search_rows() -> Rows:
    """Every searcher."""
    return rows_of(("searcher",), search_row())


def chosen(names: Sequence[str] | None) -> list[StudyRow]:
    """The rows of these names in the tables' order, one sample always among them; all without any."""
    return search_rows().chosen(names, "search", always=SINGLE)


def make_method(row: StudyRow, budget: float, aggregation: str) -> Method:
    """The searcher at one place of its dial; `aggregation` is for those that have one."""
    settings = row.at(budget)
    if "aggregation" in signature(load("searcher", row.method)).parameters and "aggregation" not in settings:
        settings["aggregation"] = aggregation
    made: Method = create("searcher", row.method, **settings)
    return made


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
        check_worlds(self.worlds)
        chosen(self.methods)

    def units(self) -> list[Unit]:
        return [Unit(row, budget) for row in chosen(self.methods) for budget in row.budgets if budget <= self.most]


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
    budget: float
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
    def setting(self) -> tuple[str, ...]:
        return (self.world, self.judge)

    @property
    def kind(self) -> Kind:
        return "measured"

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
class SearchCosts(Costs[Point]):
    """All that was measured."""

    plan: Plan
    worlds: Mapping[str, World]
    points: Sequence[Point]
    prms: Mapping[str, Sequence[Mapping[str, Any]]]
    """By world: how good the PRM of each seed is."""
    unmeasured: Mapping[str, str]
    """By method: why it is not there."""

    def step_auc(self, world: str) -> float | None:
        """Of the world's PRMs, mean over seeds; `None` where nothing could be told apart."""
        known = [seed["step_auc"] for seed in self.prms.get(world, ()) if seed["step_auc"] is not None]
        return fmean(known) if known else None

    def tells_apart(self, world: str, least: float) -> bool:
        """Whether the world's PRMs tell right steps from wrong ones that well."""
        auc = self.step_auc(world)
        return auc is not None and auc >= least

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


@dataclass
class SearchSite(Site):
    """One world under one seed. What judges said of a text is remembered for all methods."""

    @cached_property
    def place(self) -> Any:
        return create("world", self.world)

    @cached_property
    def scripted(self) -> Any:
        return create("policy", f"scripted-{self.world}")

    @cached_property
    def memory(self) -> defaultdict[str, dict[str, float | None]]:
        return defaultdict(dict)

    @cached_property
    def problems(self) -> list[Problem]:
        found: list[Problem] = self.place.problems(self.plan.problems, self.seed, split="test")
        return found

    @cached_property
    def prm_setting(self) -> PrmSetting:
        return PrmSetting(self.place, self.scripted, self.seed, self.plan.prm_traces)

    @cached_property
    def prm(self) -> Reader:
        return trained(self.prm_setting, self._prm_folder)

    @property
    def _prm_folder(self) -> Path:
        return self.folder / "prms" / f"{self.world}-{self.seed:04d}-{self.plan.prm_traces}"

    def units(self) -> list[Unit]:
        plan: Plan = self.plan
        return plan.units()

    def settings(self) -> list[tuple[str, ...]]:
        return [(self.world, judge) for judge in self.plan.judges]

    def about(self) -> dict[str, Any]:
        """How good the PRM is, if there is one."""
        return quality(self.prm_setting, self._prm_folder) if PRM in self.plan.judges else {}

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        """Every unit with its figures, judge by judge. A method that uses no judge is measured once for all."""
        for setting in self.settings():
            for number, unit in enumerate(self.units()):
                judge = setting[-1]
                method = make_method(unit.row, unit.budget, AGGREGATIONS[judge])
                named = judge if method.judged else NO_JUDGE
                trained_on = self.plan.prm_traces if named == PRM else None
                made_by = (method.name, self.scripted.name, named, self.plan.problems, self.plan.reread, trained_on)
                name = f"{self.seed:04d}-{unit.row.name}-{unit.budget}-{content_key(*made_by)[:12]}.json"
                path = self.folder / "units" / self.world / named / name
                yield (setting, number), kept(path, partial(self.figures, method, judge))

    def figures(self, method: Method, judge: str) -> dict[str, Any]:
        """What a method answers to the problems, and what that costs."""
        separator = self.place.prefix(self.problems[0]).separator
        params = SamplingParams(seed=self.seed, max_tokens=_MAX_TOKENS)
        said = self._judge(judge) if method.judged else None
        # The critic of methods that have one is the policy itself, so no method has a better writer than another.
        critic = Reviser(self.scripted, self.problems, separator)
        searcher = Searcher(
            self.scripted, said, method, params=params, separator=separator, helpers={"critic": critic}
        )  # fmt: skip
        return {"judged": method.judged, **measure(searcher.solve(self.problems))}

    def _judge(self, judge: str) -> Priced:
        """A new one a method: it has read nothing, but what any method was told of a text is known."""
        readers: dict[str, Callable[[], Reader]] = {
            "exact": lambda: exact(self.scripted, self.seed),
            "noisy": lambda: noisy(self.place, self.scripted, self.seed),
            PRM: lambda: self.prm,
        }
        return Priced(f"{judge}-{self.world}", readers[judge](), self.memory[judge], self.plan.reread)


def measure(results: Sequence[SearchResult]) -> dict[str, list[int]]:
    """The figures of one method's answers, a problem each. A call that failed is an error in the setting, and raised."""
    failed = next((d for r in results for d in r.decisions if d.what == "failed" and not d.nodes), None)
    if failed is not None:
        raise RuntimeError(f"a search failed: {failed.why}")
    return {
        "right": [int(r.chosen is not None and bool(r.chosen.correct)) for r in results],
        "answered": [int(r.answer is not None) for r in results],
        "policy_tokens": [tokens_of(r.policy_cost) for r in results],
        "judge_tokens": [tokens_of(r.judge_cost) for r in results],
    }


def together(plan: Plan, measured: Measured) -> SearchCosts:
    """The points of each world and judge with its frontier."""
    points: list[Point] = []
    worlds: dict[str, World] = {}
    for world in plan.worlds:
        for judge in plan.judges:
            here = [
                _point(world, judge, unit, measured.figures[(world, judge), number])
                for number, unit in enumerate(plan.units())
            ]
            points += frontier(here)
            single = next(point for point in here if point.method == SINGLE)
            worlds[f"{world}/{judge}"] = World(f"scripted-{world}", single.accuracy.value, single.tokens)
    return SearchCosts(plan, worlds, points, measured.worlds if PRM in plan.judges else {}, search_rows().unmeasured)


def _point(world: str, judge: str, unit: Unit, seeds: Sequence[Figures]) -> Point:
    def mean(name: str) -> float:
        return round(fmean(number for seed in seeds for number in seed[name]), DIGITS)

    return Point(
        world, judge, unit.row.name, bool(seeds[0]["judged"]), unit.row.dial, unit.budget,
        tuple(number for seed in seeds for number in seed["right"]), mean("answered"), mean("policy_tokens"),
        mean("judge_tokens"), len(seeds),
    )  # fmt: skip
