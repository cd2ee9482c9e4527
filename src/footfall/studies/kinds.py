"""Every kind of PRM trained on the same labels of the same traces, and what it is worth and costs: `footfall bench kinds`.

A kind is a registered objective with its usual head, or a registered head with its objective; each says so where it is
registered (`StudyRow.fixed`: settings of the training). The embedded model writes traces of arithmetic problems, whose truth is
known; kinds differ in nothing else. Labels:

    exact     the true class of each step            noised   the same, one in five turned over
    rollouts  the share of 8 Monte Carlo rollouts that end right, by the world's scripted policy

Kinds that learn from outcomes have that of the trace at every step (turned over in one trace of five where labels are noised),
kinds that compare traces a right and a wrong one of a problem. What a kind learns beside the label is its class, 1 above 0.

    f1           of the first error; each half of the problems at the threshold that is best on the other half
    auc, ece     of the value of a step against its true class
    best_of_n    accuracy of the solution with the highest lowest value;  beam  of a beam search that the PRM steers
    paraphrase, redundant, order   AUC where steps have other words around them, are said twice, or change places
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from statistics import fmean
from typing import Any

import numpy as np

from footfall.lab.shared.cases import best_of_n, first_error_f1
from footfall.lab.shared.searches import right
from footfall.label.monte_carlo import MonteCarlo
from footfall.metrics.intervals import Interval
from footfall.metrics.steps import auc, calibration_error
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.registry import StudyRow, create, declared
from footfall.search import BeamSearch, Searcher
from footfall.studies.study import (
    Figures,
    Measured,
    Place,
    Rows,
    Site,
    Unit,
    interval_from,
    interval_json,
    kept,
    over_seeds,
    plan_fields,
    row_from,
    row_json,
    rows_of,
)
from footfall.train.config import TrainConfig
from footfall.types import Judge, Judged, Judgement, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

LABELS = ("exact", "rollouts", "noised")
NOISE = 0.2
"""The share of labels that are turned over where they are noised."""
QUALITY = ("f1", "auc", "ece", "best_of_n", "beam")
ROBUST = ("paraphrase", "redundant", "order")
COSTS = ("train_tokens", "train_seconds", "score_tokens", "score_seconds")
FIGURES = (*QUALITY, *ROBUST, *COSTS)
TRACES, PASSES = 4, 2
"""Traces a problem, and passes over them where a plan has no others."""


@dataclass(frozen=True)
class KindPlan:
    """What is measured."""

    labels: tuple[str, ...] = LABELS
    sizes: tuple[str, ...] = ("60", "240")
    """Traces that are trained on."""
    methods: tuple[str, ...] | None = None
    seeds: int = 3
    pool: int = 50
    """Test problems, with 8 solutions each."""
    beam: int = 20
    """Problems that a beam search is measured on."""
    passes: int = PASSES
    """Over the traces, by every kind. What begins at random takes more of them than a backbone that has read the like."""
    first_seed: int = 0

    def __post_init__(self) -> None:
        if unknown := [label for label in self.labels if label not in LABELS]:
            raise ValueError(f"no labels are called {unknown[0]!r}; there are {', '.join(LABELS)}")
        if any(not size.isdecimal() or len(size) > 6 or int(size) < 2 * TRACES for size in self.sizes):
            raise ValueError(f"sizes are numbers of traces, from {2 * TRACES} to 999,999, not {','.join(self.sizes)}")
        for name, least in (("seeds", 1), ("pool", 4), ("beam", 1), ("passes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: at least {least} is needed")
        self.rows()

    @property
    def worlds(self) -> tuple[str, ...]:
        return ("arithmetic",)

    def rows(self) -> list[StudyRow]:
        """The kinds that are measured, in order."""
        return kinds().chosen(self.methods, "kind of")


def kinds() -> Rows:
    """All kinds by name: objectives, then heads; and those that are not measured, with the reason."""
    given = ("width", "outputs")
    objectives, heads = rows_of(["objective"], StudyRow(), given), rows_of(["head"], StudyRow(), given)
    made = {name: replace(row, fixed={"objective": row.part, **row.fixed}) for name, row in objectives.known.items()}
    made |= {name: replace(row, fixed={"head": row.part, **row.fixed}) for name, row in heads.known.items()}
    return Rows(made, {**objectives.unmeasured, **heads.unmeasured})


def training(row: StudyRow, seed: int, passes: int = PASSES) -> TrainConfig:
    """How a kind is trained here."""
    usual: dict[str, Any] = {
        "lr": 3e-4,
        "epochs": passes,
        "batch_size": 8,
        "eval_share": 0,
        "device": "cpu",
        "seed": seed,
    }
    return TrainConfig(**{**usual, **row.fixed})


# -- labels


def turned(labels: Sequence[float | None], share: float, rng: np.random.Generator) -> tuple[float | None, ...]:
    """The labels, of which this share is the other class."""
    return tuple(None if v is None else 1 - v if rng.random() < share else v for v in labels)


def taken(labels: Sequence[float | None], target: Callable[[float], float]) -> tuple[float | None, ...]:
    """The labels as a loss takes them; hard ones (above 0 is right) where it takes no shares."""
    try:
        for value in labels:
            if value is not None:
                target(value)
    except ValueError:
        return classes_of(labels)
    return tuple(labels)


def classes_of(labels: Sequence[float | None]) -> tuple[float | None, ...]:
    """1 for labels above 0, else 0."""
    return tuple(None if value is None else float(value > 0) for value in labels)


def pairs(traces: Sequence[Trajectory], good: Sequence[bool]) -> list[Judged]:
    """A right and a wrong trace of one problem side by side, labelled at their last step; others are left out."""
    sides: dict[str, tuple[list[Trajectory], list[Trajectory]]] = {}
    for trace, is_good in zip(traces, good, strict=True):
        sides.setdefault(trace.problem.id, ([], []))[0 if is_good else 1].append(trace)
    return [
        Judged(trace, Judgement(trace.id, (None,) * (len(trace.steps) - 1) + (label,), "outcome"))
        for both in sides.values() for chosen in zip(*both, strict=False)
        for trace, label in zip(chosen, (1.0, 0.0), strict=True)
    ]  # fmt: skip


# -- other forms of a trace


def paraphrased(trace: Trajectory) -> list[int]:
    return list(range(len(trace.steps)))


def said_twice(trace: Trajectory) -> list[int]:
    return [k for k in range(len(trace.steps)) for _ in range(1 + (k == 0))]


def swapped(trace: Trajectory) -> list[int]:
    order = list(range(len(trace.steps)))
    order[:2] = order[:2][::-1]
    return order


_FORMS: dict[str, Callable[[Trajectory], list[int]]] = {
    "paraphrase": paraphrased, "redundant": said_twice, "order": swapped,
}  # fmt: skip
"""Which steps of a trace stand where; every step keeps its truth."""


def formed(trace: Trajectory, form: str) -> Trajectory:
    """The trace in another form: in other words, its first step said twice, or its first two steps exchanged."""
    lead = "Next we see: " if form == "paraphrase" else ""
    steps = tuple(Step(lead + trace.steps[k].text) for k in _FORMS[form](trace))
    return Trajectory(f"{trace.id}-{form}", trace.problem, steps, separator=trace.separator)


# -- measuring


class KindSite(Site):
    """One seed: its traces, their labels, and every kind trained on each size of them."""

    def units(self) -> list[Unit]:
        return [Unit(row, 0.0) for row in self.plan.rows()]

    def settings(self) -> list[tuple[str, ...]]:
        return [(labels, size) for labels in self.plan.labels for size in self.plan.sizes]

    def about(self) -> dict[str, Any]:
        return {"accuracy": fmean(float(bool(trace.correct)) for trace in self.test)}

    @cached_property
    def policy(self) -> Any:
        return create("policy", "embedded")

    def _sampled(self, problems: Sequence[Any], n: int) -> list[Trajectory]:
        prefixes = [ArithmeticWorld().prefix(problem) for problem in problems]
        params = SamplingParams(max_tokens=200, seed=self.seed)
        return [trace for row in draw_traces(self.policy, prefixes, n, params) for trace in row]

    @cached_property
    def traces(self) -> list[Trajectory]:
        most = max(map(int, self.plan.sizes))
        return self._sampled(ArithmeticWorld().problems(-(-most // TRACES), self.seed), TRACES)[:most]

    @cached_property
    def test(self) -> list[Trajectory]:
        return self._sampled(ArithmeticWorld().problems(self.plan.pool, self.seed, split="test"), 8)

    @cached_property
    def rolled_out(self) -> list[Judgement]:
        params = SamplingParams(max_tokens=200, seed=self.seed)
        return MonteCarlo(ArithmeticPolicy(), rollouts=8, params=params).judge(self.traces)

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        passes = [] if self.plan.passes == PASSES else [str(self.plan.passes)]
        for setting in self.settings():
            for index, unit in enumerate(self.units()):
                name = "-".join([str(self.seed), *setting, *passes])
                path = self.folder / "units" / name / f"{unit.row.name}.json"
                yield (setting, index), kept(path, partial(self._unit, setting, unit.row))

    def data(self, setting: tuple[str, ...], row: StudyRow) -> list[Judged]:
        """The rows that a kind learns from."""
        from footfall.train.objectives import make_objective

        labels, size = setting[0], int(setting[1])
        config, traces = training(row, self.seed, self.plan.passes), self.traces[:size]
        objective = make_objective(config.objective, config.objective_options)
        rng = np.random.default_rng([self.seed, size, LABELS.index(labels)])
        share = NOISE if labels == "noised" else 0.0
        outcomes = turned([float(bool(t.correct)) for t in traces], share, rng)
        # A language model learns from the trace's own outcome, which is therefore turned over with the label.
        ended = [replace(t, correct=outcome == 1) for t, outcome in zip(traces, outcomes, strict=True)]
        if objective.together > 1:
            return pairs(ended, [bool(t.correct) for t in ended])
        if "outcomes" in declared("objective", config.objective).needs:
            told = [
                Judgement(t.id, (outcome,) * len(t.steps), "outcome")
                for t, outcome in zip(traces, outcomes, strict=True)
            ]
            traces = ended
        else:
            said = self.rolled_out[:size] if labels == "rollouts" else TruthJudge().judge(traces)
            labelled = [turned(j.values, share, rng) for j in said]
            further = [dict.fromkeys(objective.beside, classes_of(own)) for own in labelled]
            told = [
                replace(j, values=taken(own, objective.target), aspects={**j.aspects, **more})
                for j, own, more in zip(said, labelled, further, strict=True)
            ]
        return list(map(Judged, traces, told))

    def _unit(self, setting: tuple[str, ...], row: StudyRow) -> dict[str, Any]:
        from footfall.policy.embedded import EMBEDDED
        from footfall.reward.checkpoint import checkpoint
        from footfall.train.objectives import make_objective
        from footfall.train.prm import train_prm
        from footfall.train.run import remove_run

        rows, config = self.data(setting, row), training(row, self.seed, self.plan.passes)
        target = make_objective(config.objective, config.objective_options).target
        labels = [value for each in rows for value in (each.judgement.values if each.judgement else ())]
        if len({target(label) for label in labels if label is not None}) < 2:
            return dict.fromkeys(FIGURES)  # so few traces have no pair, or one label only
        folder = self.folder / "models" / f"{self.seed}-{'-'.join(setting)}-{row.name}"
        result = train_prm(rows, EMBEDDED, config, folder)
        judge = checkpoint(result.folder, device="cpu")
        said = judge.judge(self.test)
        cost = [judgement.cost for judgement in said]
        figures = {
            "f1": first_error_f1(self.test, said),
            "auc": self._auc(self.test, said, paraphrased),
            "ece": self._ece(said),
            "best_of_n": fmean(best_of_n(self.test, said, "min")),
            "beam": self._beam(judge),
            "train_tokens": float(result.cost.scored_tokens),
            "train_seconds": result.cost.seconds,
            "score_tokens": fmean(each.scored_tokens for each in cost),
            "score_seconds": fmean(each.seconds for each in cost),
        }
        some = [trace for trace in self.test if len(trace.steps) > 1][::4]
        for form, places in _FORMS.items():
            figures[form] = self._auc(some, judge.judge([formed(trace, form) for trace in some]), places)
        remove_run(folder)
        return figures

    def _known(
        self, traces: Sequence[Trajectory], said: Sequence[Judgement], places: Callable[[Trajectory], list[int]]
    ) -> tuple[list[float], list[float]]:
        """Values and truths of all steps that have both."""
        truths = [
            [truth.values[k] for k in places(t)] for t, truth in zip(traces, TruthJudge().judge(traces), strict=True)
        ]
        both = [(v, y) for j, row in zip(said, truths, strict=True) for v, y in zip(j.values, row, strict=True)]
        known = [(v, y) for v, y in both if v is not None and y is not None]
        return [v for v, _ in known], [y for _, y in known]

    def _auc(
        self, traces: Sequence[Trajectory], said: Sequence[Judgement], places: Callable[[Trajectory], list[int]]
    ) -> float | None:
        values, truths = self._known(traces, said, places)
        return float(auc(values, truths)) if 0 < sum(truths) < len(truths) else None

    def _ece(self, said: Sequence[Judgement]) -> float:
        return float(calibration_error(*self._known(self.test, said, paraphrased)))

    def _beam(self, judge: Judge) -> float:
        problems = ArithmeticWorld().problems(self.plan.beam, self.seed, split="test")
        params = SamplingParams(max_tokens=200, seed=self.seed)
        searcher = Searcher(self.policy, judge, BeamSearch(n=4, expansions=2), params=params, separator="\n")
        return fmean(right(searcher.solve(problems)))


# -- results


@dataclass(frozen=True)
class KindRow:
    """A kind on labels of one sort and size, over all seeds."""

    labels: str
    size: int
    kind: str
    figures: Mapping[str, Interval]
    """Some seed may lack one; one that none has is left out."""

    def value(self, name: str) -> float:
        """A figure, or what is worse than all others."""
        return self.figures[name].value if name in self.figures else -1.0


@dataclass(frozen=True)
class Kinds:
    """All that `footfall bench kinds` found."""

    plan: KindPlan
    accuracy: Interval
    """Of the policy's own solutions."""
    rows: tuple[KindRow, ...]

    def of(self, labels: str, size: int) -> list[KindRow]:
        """The rows of one setting, those that find first errors best first."""
        return sorted((r for r in self.rows if (r.labels, r.size) == (labels, size)), key=lambda row: -row.value("f1"))

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": asdict(self.plan),
            "accuracy": interval_json(self.accuracy),
            "rows": [row_json(row) for row in self.rows],
            "left_out": kinds().unmeasured,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Kinds:
        """From its JSON."""
        plan = plan_fields(given["plan"])
        rows = tuple(row_from(KindRow, row) for row in given["rows"])
        return cls(KindPlan(**plan), interval_from(given["accuracy"]), rows)


def together(plan: KindPlan, measured: Measured) -> Kinds:
    """Means over seeds."""
    names, shares = [row.name for row in plan.rows()], (*QUALITY, *ROBUST)
    rows = [
        KindRow(labels, int(size), names[index], over_seeds(seeds, FIGURES, shares))
        for ((labels, size), index), seeds in measured.figures.items()
    ]
    accuracy = over_seeds(measured.worlds["arithmetic"], ["accuracy"], ["accuracy"])["accuracy"]
    return Kinds(plan, accuracy, tuple(rows))
