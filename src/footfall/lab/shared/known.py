"""Traces of several worlds with the truth of their steps, and how often a labeller finds the first error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from footfall.bench.metrics import auc
from footfall.lab.recipe import Trial
from footfall.policy.protocol import Policy
from footfall.types import Cost, Judge, Judgement, Problem, Trajectory
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    KnownTruth,
    LogicPolicy,
    LogicWorld,
    OpRates,
    StepTruth,
    TruthJudge,
)

__all__ = ["Known", "World", "WritesWell", "error_auc", "hits", "known", "spent"]


class World(Protocol):
    """What a world must do here."""

    def problems(self, n: int, seed: int = 0) -> list[Problem]: ...
    def prefix(self, problem: Problem) -> Trajectory: ...
    def traces(self, policy: Policy, n: int, seed: int = 0) -> Iterator[tuple[Problem, Trajectory]]: ...
    def first_error(self, trajectory: Trajectory) -> int | None: ...
    def check(self, trajectory: Trajectory) -> Sequence[StepTruth | None]: ...


class WritesWell(Policy, Protocol):
    """A policy that knows its own probability of success."""

    def value(self, prefix: Trajectory) -> float: ...


_CAREFUL = ArithmeticPolicy(
    OpRates(0.01, 0.01, 0.05, 0.04), OpRates(0, 0, 0.01, 0.01), OpRates(0.2, 0.2, 0.2, 0.2), 0.01
)
"""Errs a quarter as often: or no long trace would be right."""
_WORLDS: dict[str, tuple[World, WritesWell, Judge]] = {
    "arithmetic": (ArithmeticWorld(), ArithmeticPolicy(), TruthJudge()),
    "long arithmetic": (ArithmeticWorld(min_ops=12, max_ops=16), _CAREFUL, TruthJudge()),
    "logic": (LogicWorld(), LogicPolicy(), KnownTruth(LogicWorld())),
    "algebra": (AlgebraWorld(), AlgebraPolicy(), KnownTruth(AlgebraWorld())),
    "code": (CodeWorld(), CodePolicy(), TruthJudge(CodeWorld())),
}


@dataclass(frozen=True)
class Known:
    """Traces of one world by its scripted policy, and where each has its first error (-1: nowhere)."""

    world: World
    policy: WritesWell
    truth: Judge
    traces: list[Trajectory]
    first_errors: list[int]


def known(trial: Trial, world: str, n: int, wrong: bool = False) -> Known:
    """`n` problems of a world with one trace each; of `wrong` ones only those whose answer is not right."""
    place, policy, truth = _WORLDS[world]
    found = [
        (trace, first)
        for _, trace in place.traces(policy, n, trial.seed)
        if (first := place.first_error(trace)) is not None and not (wrong and trace.correct)
    ]
    return Known(place, policy, truth, [trace for trace, _ in found], [first for _, first in found])


def hits(said: Sequence[Judgement], first_errors: Sequence[int], below: float = 0.5) -> list[float]:
    """1 for each trace whose first step valued less than `below` is its first error, else 0. No label is no hit."""
    return [float(each.first_below(below) == first) for each, first in zip(said, first_errors, strict=True)]


def error_auc(given: Known, values: Sequence[Sequence[float | None]], after_error: bool) -> float:
    """The chance that a step at which no error is made is valued above one at which there is.

    With `after_error` all steps count, so also right ones that are built on an error; else those up to the first error.
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
