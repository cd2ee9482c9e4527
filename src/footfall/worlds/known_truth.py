"""The judge that knows, for worlds that may be unable to read a step: such a step is not judged, and the reason is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from footfall.registry import register
from footfall.types import Judgement, Trajectory
from footfall.worlds._generated import Said
from footfall.worlds.algebra import AlgebraWorld
from footfall.worlds.logic import LogicWorld
from footfall.worlds.truth import StepTruth

__all__ = ["KnownTruth", "Reader", "truth_algebra", "truth_logic"]


class Reader(Protocol):
    """A world that says of every step what class it has and why, or why it cannot say."""

    @property
    def domain(self) -> str: ...

    def said(self, trajectory: Trajectory) -> list[Said]: ...


@dataclass(frozen=True, slots=True)
class KnownTruth:
    """The truth of each step: 1 right, 0 wrong, a parameter for right-but-built-on-an-error, `None` if unreadable.

    One 0/1 aspect a class, as `TruthJudge` gives; the rationale is the class and the reason.
    """

    world: Reader
    consequent: float = 0.0

    @property
    def name(self) -> str:
        return f"truth-{self.world.domain}(consequent={self.consequent:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = self.world.said(trajectory)
        worth = {StepTruth.RIGHT: 1.0, StepTruth.WRONG: 0.0, StepTruth.CONSEQUENT: self.consequent}
        return Judgement(
            trajectory.id,
            values=tuple(None if truth is None else worth[truth] for truth, _ in said),
            judge=self.name,
            aspects={
                kind.value: tuple(None if truth is None else float(truth is kind) for truth, _ in said)
                for kind in StepTruth
            },
            rationales=tuple(None if truth is None else f"{truth.value}: {reason}" for truth, reason in said),
            failures=tuple(reason if truth is None else None for truth, reason in said),
        )


@register("labeller", "truth-logic")
def truth_logic(consequent: float = 0.0) -> KnownTruth:
    """The truth of each step of a deduction."""
    return KnownTruth(LogicWorld(), consequent)


@register("labeller", "truth-algebra")
def truth_algebra(consequent: float = 0.0) -> KnownTruth:
    """The truth of each step of solving an equation."""
    return KnownTruth(AlgebraWorld(), consequent)
