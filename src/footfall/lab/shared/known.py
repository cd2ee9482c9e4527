"""Traces of several worlds with the truth of their steps, and what labels and judges are worth beside it.

Every world comes with the scripted policy that writes its traces and with a judge that knows the truth. "Short" worlds are
for the embedded model, which reads text that it was not made for letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from footfall.lab.recipe import Trial
from footfall.metrics.steps import auc
from footfall.policy.protocol import Policy
from footfall.types import Cost, Judge, Judgement, Problem, Trajectory
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    LogicPolicy,
    LogicWorld,
    OpRates,
    StepTruth,
    TruthJudge,
)

Split = Literal["train", "test"]


class World(Protocol):
    """What a world must do here."""

    def problems(self, n: int, seed: int = 0, split: Split = "train") -> list[Problem]:
        """Different problems of a split, by seed."""
        ...

    def prefix(self, problem: Problem) -> Trajectory:
        """The empty trace of a problem."""
        ...

    def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trace with its answer compared."""
        ...

    def traces(
        self, policy: Policy, n: int, seed: int = 0, split: Split = "train"
    ) -> Iterator[tuple[Problem, Trajectory]]:
        """Problems with one graded trace each."""
        ...

    def first_error(self, trajectory: Trajectory) -> int | None:
        """Index of the first wrong step, -1 for none, `None` where nobody can say."""
        ...

    def check(self, trajectory: Trajectory) -> Sequence[StepTruth | None]:
        """The class of each step."""
        ...


class WritesWell(Policy, Protocol):
    """A policy that knows its own probability of success."""

    def value(self, prefix: Trajectory) -> float:
        """The exact chance of success from a prefix."""
        ...


class Place(NamedTuple):
    """A world, the policy that writes in it, and a judge that knows the truth."""

    world: World
    policy: WritesWell
    truth: Judge


_CAREFUL = ArithmeticPolicy(
    OpRates(0.01, 0.01, 0.05, 0.04), OpRates(0, 0, 0.01, 0.01), OpRates(0.2, 0.2, 0.2, 0.2), 0.01
)
"""Errs a quarter as often: or no long trace would be right."""
_SHORT_LOGIC = LogicWorld(max_depth=3, two_premises=0.0, min_distractors=1, max_distractors=2)
_SHORT_CODE = CodeWorld(families=("fold", "extreme"), tests=3, shown=0)
WORLDS: Mapping[str, Place] = {
    "arithmetic": Place(ArithmeticWorld(), ArithmeticPolicy(), TruthJudge()),
    "long arithmetic": Place(ArithmeticWorld(min_ops=12, max_ops=16), _CAREFUL, TruthJudge()),
    "logic": Place(LogicWorld(), LogicPolicy(), TruthJudge(LogicWorld())),
    "short logic": Place(_SHORT_LOGIC, LogicPolicy(), TruthJudge(_SHORT_LOGIC)),
    "algebra": Place(AlgebraWorld(), AlgebraPolicy(), TruthJudge(AlgebraWorld())),
    "code": Place(CodeWorld(), CodePolicy(), TruthJudge(CodeWorld())),
    "short code": Place(_SHORT_CODE, CodePolicy(), TruthJudge(_SHORT_CODE)),
}


@dataclass(frozen=True)
class Known:
    """Traces of one world by its scripted policy, and where each has its first error (-1: nowhere)."""

    world: World
    policy: WritesWell
    truth: Judge
    traces: list[Trajectory]
    first_errors: list[int]


def known(trial: Trial, world: str, n: int, wrong: bool = False, split: Split = "train") -> Known:
    """`n` problems of a world with one trace each; of `wrong` ones only those whose answer is not right."""
    place = WORLDS[world]
    found = [
        (trace, first)
        for _, trace in place.world.traces(place.policy, n, trial.seed, split)
        if (first := place.world.first_error(trace)) is not None and not (wrong and trace.correct)
    ]
    return Known(*place, [trace for trace, _ in found], [first for _, first in found])


def hits(said: Sequence[Judgement], first_errors: Sequence[int], below: float = 0.5) -> list[float]:
    """1 for each trace whose first step valued less than `below` is its first error, else 0. No label is no hit."""
    return [float(each.first_below(below) == first) for each, first in zip(said, first_errors, strict=True)]


def error_auc(given: Known, values: Sequence[Sequence[float | None]], after_error: bool = False) -> float:
    """The chance that a step at which no error is made is valued above one at which there is.

    Steps up to the first error count: what comes after it is right or wrong by convention only. With `after_error`
    all do, so also right ones that are built on an error.
    """
    scores: list[float] = []
    right: list[bool] = []
    for trace, first, row in zip(given.traces, given.first_errors, values, strict=True):
        end = len(row) if after_error or first < 0 else first + 1
        for truth, value in list(zip(given.world.check(trace), row, strict=True))[:end]:
            if truth is not None and value is not None:
                scores.append(value)
                right.append(truth is not StepTruth.WRONG)
    return float(auc(scores, right)) if len(set(right)) == 2 else 0.5


def spent(*judged: Sequence[Judgement]) -> Cost:
    """What all these judgements cost."""
    return Cost.total(said.cost for row in judged for said in row)
