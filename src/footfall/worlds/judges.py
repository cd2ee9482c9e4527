"""Judges that know: the true class of each step, and the exact value of each prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from footfall.registry import register
from footfall.types import Judgement, Trajectory
from footfall.worlds.arithmetic import ArithmeticWorld
from footfall.worlds.arithmetic_policy import ArithmeticPolicy
from footfall.worlds.truth import StepTruth

__all__ = ["Checker", "ExactValueJudge", "TruthJudge", "Valued"]


class Checker(Protocol):
    """A world that knows the class of every step."""

    def check(self, trajectory: Trajectory) -> list[StepTruth]: ...


class Valued(Protocol):
    """A policy that knows its own probability of success."""

    @property
    def name(self) -> str: ...

    def value(self, prefix: Trajectory) -> float: ...


@register("labeller", "truth-arithmetic")
@dataclass(frozen=True, slots=True)
class TruthJudge:
    """The truth of each step of an arithmetic trace: 1 right, 0 wrong, a parameter for right-but-built-on-an-error.

    One 0/1 aspect a class (`right`, `wrong`, `consequent`); the rationale names the class.
    """

    world: Checker = field(default_factory=ArithmeticWorld)
    consequent: float = 0.0

    @property
    def name(self) -> str:
        return f"truth-arithmetic(consequent={self.consequent:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        truths = self.world.check(trajectory)
        worth = {StepTruth.RIGHT: 1.0, StepTruth.WRONG: 0.0, StepTruth.CONSEQUENT: self.consequent}
        return Judgement(
            trajectory.id,
            values=tuple(worth[truth] for truth in truths),
            judge=self.name,
            aspects={kind.value: tuple(float(truth is kind) for truth in truths) for kind in StepTruth},
            rationales=tuple(truth.value for truth in truths),
        )


@register("labeller", "exact-value")
@dataclass(frozen=True, slots=True)
class ExactValueJudge:
    """The exact value of each prefix under a scripted policy: what Monte Carlo labels estimate."""

    policy: Valued = field(default_factory=ArithmeticPolicy)

    def __post_init__(self) -> None:
        if not hasattr(self.policy, "value"):
            raise ValueError(f"exact values are known of a scripted policy only, not of {self.policy.name}")

    @property
    def name(self) -> str:
        return f"exact-value({self.policy.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        values = tuple(self.policy.value(trajectory.prefix(i + 1)) for i in range(len(trajectory.steps)))
        return Judgement(trajectory.id, values, self.name)
