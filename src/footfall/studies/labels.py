"""Which labelling method at which budget, measured: every labeller at several budgets on worlds whose truth is known.

All methods of a world and seed label the same traces with the same rollouts, out of one store that charges each method for all
it uses. How good labels are is told by the world, which knows the truth of every step and the value of every prefix.
"""

from __future__ import annotations

import inspect
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.drive.rollout_store import StoredPolicy
from footfall.metrics.intervals import Interval
from footfall.metrics.steps import brier, calibration_error
from footfall.policy.protocol import SamplingParams
from footfall.registry import Kind, StudyRow, create, load
from footfall.studies.frontier import DIGITS, Costs, frontier
from footfall.studies.label_setting import OwnTraces, Setting, chosen, label_rows, lacks, make_labeller
from footfall.studies.study import (
    DEFAULT_WORLDS,
    Figures,
    Measured,
    Place,
    Site,
    Unit,
    check_worlds,
    interval_from,
    interval_json,
    kept,
    over_seeds,
    plan_fields,
)
from footfall.types import Judgement, Trajectory, content_key
from footfall.worlds.judges import Valued
from footfall.worlds.world import StepTruth

_ROLLOUT_SEED = 100_000  # apart from the seeds of traces: a rollout of a whole problem must not be its trace again
_CHUNK = 8192
FIGURES = {
    "first_error": "first error named exactly, or none where there is none; a trace without a verdict counts as missed",
    "said": "traces with a verdict on the first error",
    "first_error_said": "first error named exactly, among the traces with a verdict",
    "step_accuracy": "labelled steps up to and with the first error whose label, cut at the method's threshold, is right",
    "later_accuracy": "labelled steps after the first error whose label, cut likewise, says what the step is in itself",
    "coverage": "steps that have a label",
    "brier": "mean squared distance of the label from the truth of the step, up to and with the first error",
    "ece": "expected calibration error of the label against the truth of the step, 10 bins, up to and with the first error",
    "value_mae": "mean distance of the method's estimate from the exact value of the prefix",
    "tokens": "generated tokens a trace",
}
"""What each figure is. Up to the first error a step is right if and only if all is right so far, so step_accuracy, brier and
ece are fair both to methods that label every step and to those that call all steps after an error wrong. later_accuracy
is for the former alone; steps that are right in themselves but built on an error have no part in it."""
SHARES = ("first_error", "said", "first_error_said", "step_accuracy", "later_accuracy", "coverage")
_ERRORS = ("brier", "ece", "value_mae")


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
        check_worlds(self.worlds)
        chosen(self.methods)

    def units(self) -> list[Unit]:
        return [Unit(row, budget) for row in chosen(self.methods) for budget in row.budgets]


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
    def setting(self) -> tuple[str, ...]:
        return (self.world,)

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
class LabelCosts(Costs[Point]):
    """All that was measured."""

    plan: Plan
    worlds: Mapping[str, World]
    points: Sequence[Point]
    lacking: Mapping[str, Mapping[str, str]]
    """By method and world: why it does not apply."""
    unmeasured: Mapping[str, str]

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


@dataclass(frozen=True)
class Known:
    """Traces of one world under one seed, with all that is known of them."""

    setting: Setting
    traces: Sequence[Trajectory]
    writer: Valued
    """The policy that wrote the traces, which is also the completer: it knows the value of every prefix."""

    @cached_property
    def truths(self) -> list[Sequence[StepTruth | None]]:
        return [self.setting.world.check(trace) for trace in self.traces]

    @cached_property
    def values(self) -> list[list[float]]:
        """The exact value after each step."""
        return [[self.writer.value(t.prefix(k)) for k in range(1, len(t.steps) + 1)] for t in self.traces]

    @property
    def first_errors(self) -> list[int]:
        """0-based, -1 for none."""
        return [truths.index(StepTruth.WRONG) if StepTruth.WRONG in truths else -1 for truths in self.truths]


def measure(known: Known, method: StudyRow, said: Sequence[Judgement]) -> dict[str, float | None]:
    """All figures; `None` where there is nothing to measure."""
    found = [judgement.first_below(method.threshold) for judgement in said]
    hits = sum(error is not None and error == true for error, true in zip(found, known.first_errors, strict=True))
    spoken = sum(error is not None for error in found)
    values = [value for judgement in said for value in judgement.values]
    return {
        "first_error": hits / len(found),
        "said": spoken / len(found),
        "first_error_said": hits / spoken if spoken else None,
        "coverage": sum(value is not None for value in values) / len(values),
        **_of_steps(known, method, said),
        "value_mae": None if method.value is None else _value_error(known, [_estimates(j, method.value) for j in said]),
        "tokens": sum(judgement.cost.generated_tokens for judgement in said) / len(said),
    }


def measure_own(known: Known, method: StudyRow, trees: OwnTraces) -> dict[str, float | None] | None:
    """The figures of labels on traces that the method writes itself, with what it wrote; `None`: it kept none.

    A quarter of the problems is enough: a tree has several traces.
    """
    problems, separator = [trace.problem for trace in known.traces[::4]], known.traces[0].separator
    rows = [row for row in trees.collect(problems, separator) if row.judgement is not None]
    if not rows:
        return None
    own = Known(known.setting, [row.trajectory for row in rows], known.writer)
    # A tree without a row has its cost nowhere else.
    spent = sum(grown.cost.generated_tokens for grown in trees.grow(problems, separator))
    found = measure(own, method, [row.judgement for row in rows if row.judgement is not None])
    return found | {"tokens": spent / len(rows)}


def _of_steps(known: Known, method: StudyRow, said: Sequence[Judgement]) -> dict[str, float | None]:
    """Of the steps up to the first error, and of those after it."""
    ends = [len(truths) if at < 0 else at + 1 for truths, at in zip(known.truths, known.first_errors, strict=True)]
    rows = list(zip(said, known.truths, ends, strict=True))
    pairs = [pair for judgement, truths, end in rows for pair in _pairs(judgement.values[:end], truths[:end])]
    later = [pair for judgement, truths, end in rows for pair in _pairs(judgement.values[end:], truths[end:])]
    calibrated = method.probability and pairs
    labels, truth = [value for value, _ in pairs], [float(right) for _, right in pairs]
    return {
        "step_accuracy": _accuracy(pairs, method.threshold),
        "later_accuracy": _accuracy(later, method.threshold),
        "brier": float(brier(labels, truth)) if calibrated else None,
        "ece": float(calibration_error(labels, truth)) if calibrated else None,
    }


def _pairs(values: Sequence[float | None], truths: Sequence[StepTruth | None]) -> list[tuple[float, bool]]:
    """Label and truth of each step that has both; one that is built on an error has none."""
    known = (StepTruth.RIGHT, StepTruth.WRONG)
    pairs = zip(values, truths, strict=True)
    return [(value, truth is StepTruth.RIGHT) for value, truth in pairs if value is not None and truth in known]


def _accuracy(pairs: Sequence[tuple[float, bool]], threshold: float) -> float | None:
    return sum((value >= threshold) == right for value, right in pairs) / len(pairs) if pairs else None


def _estimates(judgement: Judgement, name: str) -> Sequence[float | None]:
    return judgement.values if name == "values" else judgement.aspects[name]


def _value_error(known: Known, estimates: Sequence[Sequence[float | None]]) -> float | None:
    errors = [
        abs(estimate - exact)
        for row, values in zip(estimates, known.values, strict=True)
        for estimate, exact in zip(row, values, strict=True)
        if estimate is not None
    ]
    return sum(errors) / len(errors) if errors else None


def per_1000(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Each figure by thousands of generated tokens a trace; of an error e it is 1 - e. A free method has none."""
    tokens = figures["tokens"]
    found: dict[str, float | None] = {}
    for name in ("first_error", "step_accuracy", *_ERRORS):
        value = figures[name]
        worth = 1 - value if value is not None and name in _ERRORS else value
        found[name] = None if worth is None or not tokens else worth / (tokens / 1000)
    return found


@dataclass
class LabelSite(Site):
    """One world under one seed. Traces are drawn, and rollouts stored, only if a unit is missing."""

    @cached_property
    def writer(self) -> Any:
        return _policy(self.world, self.plan.recover)

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts" / f"{self.world}-{self.seed}"

    @cached_property
    def setting(self) -> Setting:
        stored = StoredPolicy(self.writer, self.rollouts, charge="always", chunk=_CHUNK)
        params = SamplingParams(seed=_ROLLOUT_SEED + self.seed)
        return Setting(self.world, create("world", self.world), stored, params, self.plan.price, {})

    @cached_property
    def known(self) -> Known:
        world: Any = self.setting.world
        traces = [trace for _, trace in world.traces(self.writer, self.plan.traces, seed=self.seed)]
        return Known(self.setting, traces, self.writer)

    def units(self) -> list[Unit]:
        plan: Plan = self.plan
        return plan.units()

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        """Every unit with its figures, dear budgets first: they fill the store for the others."""
        for number, unit in sorted(enumerate(self.units()), key=lambda one: -one[1].budget):
            judge = make_labeller(unit.row, self.setting, unit.budget).name
            name = f"{unit.row.name}-{unit.budget:g}"
            # What a figure means is part of the key: one that was kept under another meaning is measured anew.
            found = self._kept(name, [judge, unit.row.threshold, FIGURES], partial(self._figures, unit))
            yield ((self.world,), number), found

    def about(self) -> dict[str, Any]:
        """What the traces are like."""
        return self._kept("traces", [], self._about)

    def check(self) -> None:
        _policy(self.world, self.plan.recover)

    def close(self) -> None:
        """Drop the rollouts: all figures made of them are kept."""
        shutil.rmtree(self.rollouts, ignore_errors=True)

    def _kept(self, name: str, made_by: Sequence[object], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What an earlier run wrote, or what is made now and written whole."""
        key = content_key(name, made_by, self.writer.name, self.plan.traces, self.seed)[:16]
        path = self.folder / "units" / self.world / f"{self.seed:04d}-{name}-{key}.json"
        return kept(path, make)

    def _figures(self, unit: Unit) -> dict[str, Any]:
        lacking = lacks(unit.row, self.setting)
        if lacking is not None:
            return {"lacks": lacking}
        judge = make_labeller(unit.row, self.setting, unit.budget)
        if isinstance(judge, OwnTraces):
            return measure_own(self.known, unit.row, judge) or {"lacks": "no trace of its own is clean"}
        return measure(self.known, unit.row, judge.judge(self.known.traces))

    def _about(self) -> dict[str, Any]:
        traces = self.known.traces
        return {
            "policy": self.writer.name,
            "steps": fmean(len(trace.steps) for trace in traces),
            "tokens": fmean(trace.cost.generated_tokens for trace in traces),
            "errors": fmean(error >= 0 for error in self.known.first_errors),
        }


def _policy(world: str, recover: float | None) -> Any:
    """The scripted policy of a world."""
    name = f"scripted-{world}"
    if recover is None:
        return create("policy", name)
    if "recover" not in inspect.signature(load("policy", name)).parameters:
        raise ValueError(f"the policy {name!r} takes no recover")
    return create("policy", name, recover=recover)


def together(plan: Plan, measured: Measured) -> LabelCosts:
    """The points of each world with its frontier, and what does not apply where."""
    points: list[Point] = []
    lacking: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for world in plan.worlds:
        here = []
        for number, unit in enumerate(plan.units()):
            seeds = measured.figures[(world,), number]
            why = next((seed["lacks"] for seed in seeds if "lacks" in seed), None)
            if why is None:
                here.append(_point(world, unit, seeds))
            elif unit.row.kind != "reference":
                lacking[unit.row.name][world] = why
        points += frontier(here)
    about = {
        name: World(
            seeds[0]["policy"], *(round(fmean(s[key] for s in seeds), DIGITS) for key in ("steps", "tokens", "errors"))
        )
        for name, seeds in measured.worlds.items()
    }
    return LabelCosts(plan, about, points, dict(lacking), label_rows().unmeasured)


def _point(world: str, unit: Unit, seeds: Sequence[Figures]) -> Point:
    row, rates = unit.row, [per_1000(seed) for seed in seeds]
    return Point(
        world, row.name, row.kind, row.dial, unit.budget,
        figures=over_seeds(seeds, tuple(FIGURES), SHARES),
        per_1000=over_seeds(rates, tuple(rates[0])),
        seeds=tuple(round(seed["first_error"], DIGITS) for seed in seeds),
    )  # fmt: skip
