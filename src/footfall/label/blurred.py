"""A judge whose values are blurred by a known amount: what a value model of that quality would say.

    v' = sigmoid(logit(v) + σ z),   z ~ N(0, 1), drawn by the seed and the text up to there alone

σ = 0 is the judge itself. Values are first brought into [floor, 1 − floor]. Reading a trace costs its words; a judge that
writes before it says anything also costs `price`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from footfall.label.noisy import chance
from footfall.types import Cost, Judge, Judgement, Trajectory

__all__ = ["Blurred", "blurred_value"]

_NORMAL = NormalDist()


def blurred_value(value: float, shift: float, floor: float) -> float:
    """A value moved by `shift` on the scale of logits."""
    inside = min(max(value, floor), 1 - floor)
    return 1 / (1 + math.exp(-(math.log(inside / (1 - inside)) + shift)))


@dataclass(frozen=True)
class Blurred:
    """Moves what another judge says, by a normal error on the scale of logits. The same text is always moved alike."""

    truth: Judge
    sigma: float = 1.0
    seed: int = 0
    floor: float = 0.01
    price: int = 0
    """Generated tokens that a judgement costs."""

    def __post_init__(self) -> None:
        if self.sigma < 0 or self.price < 0 or not 0 < self.floor < 0.5:
            raise ValueError(
                f"sigma and price must not be negative and floor lies in (0, 0.5), not {self.sigma}, {self.price} "
                f"and {self.floor}"
            )

    @property
    def name(self) -> str:
        priced = f",price={self.price}" if self.price else ""
        return f"blurred(sigma={self.sigma:g},floor={self.floor:g},seed={self.seed}{priced},{self.truth.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        said = self.truth.judge(trajectories)
        return [self._blur(t, judgement.check(t)) for t, judgement in zip(trajectories, said, strict=True)]

    def _blur(self, trajectory: Trajectory, truth: Judgement) -> Judgement:
        values = tuple(
            None if value is None else blurred_value(value, self._shift(trajectory, k), self.floor)
            for k, value in enumerate(truth.values)
        )
        cost = truth.cost + Cost(generated_tokens=self.price, scored_tokens=len(trajectory.text.split()), calls=1)
        return replace(truth, values=values, judge=self.name, cost=cost)

    def _shift(self, trajectory: Trajectory, k: int) -> float:
        drawn = chance(self.seed, trajectory.prefix(k + 1).key, "blur")
        return self.sigma * _NORMAL.inv_cdf(min(max(drawn, 1e-9), 1 - 1e-9))
