"""Judges that know: the true class of each step, and the exact value of each prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from footfall.registry import register
from footfall.types import Judgement, Trajectory
from footfall.worlds._generated import Said
from footfall.worlds.arithmetic import ArithmeticWorld
from footfall.worlds.arithmetic_policy import ArithmeticPolicy
from footfall.worlds.truth import StepTruth

__all__ = ["Checker", "ExactValueJudge", "TruthJudge", "Valued", "world_name"]


class Checker(Protocol):
    """A world that knows the class of every step, or `None` of one that it cannot read.

    A world that also has `said(trajectory)` gives the reasons with it.
    """

    def check(self, trajectory: Trajectory) -> Sequence[StepTruth | None]: ...


class Valued(Protocol):
    """A policy that knows its own probability of success."""

    @property
    def name(self) -> str: ...

    def value(self, prefix: Trajectory) -> float: ...


def world_name(world: object) -> str:
    """The name that a world is registered by; the class's own if it is not."""
    return str(getattr(type(world), "__footfall_part__", ("world", type(world).__name__))[1])


@dataclass(frozen=True, slots=True)
class TruthJudge:
    """The truth of each step: 1 right, 0 wrong, a parameter for right-but-built-on-an-error, `None` if unreadable.

    One 0/1 aspect a class (`right`, `wrong`, `consequent`); the rationale names the class, and the reason where the
    world gives one. By name it is `truth-WORLD`.
    """

    world: Checker = field(default_factory=ArithmeticWorld)
    consequent: float = 0.0

    @property
    def name(self) -> str:
        return f"truth-{world_name(self.world)}(consequent={self.consequent:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def value(self, prefix: Trajectory) -> float:
        """The truth of the last step, so that this can stand where a policy's exact values do; 0 if it is unreadable."""
        return (self._judge(prefix).values[-1] if prefix.steps else 1.0) or 0.0

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = self._said(trajectory)
        worth = {StepTruth.RIGHT: 1.0, StepTruth.WRONG: 0.0, StepTruth.CONSEQUENT: self.consequent}
        failures = tuple(reason if truth is None else None for truth, reason in said)
        return Judgement(
            trajectory.id,
            values=tuple(None if truth is None else worth[truth] for truth, _ in said),
            judge=self.name,
            aspects={
                kind.value: tuple(None if truth is None else float(truth is kind) for truth, _ in said)
                for kind in StepTruth
            },
            rationales=tuple(None if t is None else f"{t.value}: {why}" if why else t.value for t, why in said),
            failures=failures if any(failures) else (),
        )

    def _said(self, trajectory: Trajectory) -> Sequence[Said]:
        """Class and reason of each step; no reason where the world has none."""
        said = getattr(self.world, "said", None)
        if said is not None:
            found: list[Said] = said(trajectory)
            return found
        return [Said(truth, "") for truth in self.world.check(trajectory)]


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
