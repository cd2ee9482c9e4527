"""A judge of known quality: the exact value of each prefix under a scripted policy, or the truth, blurred by a known amount.

    v' = sigmoid(logit(v) + σ z),   z ~ N(0, 1), drawn by the seed and the text up to there alone

v is first brought into [floor, 1 − floor], since no value model is certain. Right and wrong finished solutions are then told
apart with the AUC Φ(√2 logit(1 − floor) / σ): 0.94 by default. Reading a trace costs its words; a judge that writes before
it says anything also costs `price`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from footfall.simulate.noisy import chance
from footfall.types import Cost, Judgement, Trajectory
from footfall.worlds.judges import Valued

_NORMAL = NormalDist()


def blurred_value(value: float, shift: float, floor: float) -> float:
    """A value moved by `shift` on the scale of logits."""
    inside = min(max(value, floor), 1 - floor)
    return 1 / (1 + math.exp(-(math.log(inside / (1 - inside)) + shift)))


@dataclass(frozen=True)
class Blurred:
    """Known values with a normal error on the scale of logits. The same text always has the same value."""

    policy: Valued
    """A scripted policy, whose exact values are known, or a `TruthJudge`."""
    sigma: float = 2.0
    seed: int = 0
    floor: float = 0.1
    price: int = 0
    """Generated tokens that a judgement costs."""
    _said: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.sigma < 0 or self.price < 0 or not 0 < self.floor < 0.5:
            raise ValueError(
                f"sigma and price must not be negative and floor lies in (0, 0.5), not {self.sigma}, {self.price} "
                f"and {self.floor}"
            )

    @property
    def name(self) -> str:
        """Blur, floor and seed, and the policy whose values are blurred."""
        priced = f",price={self.price}" if self.price else ""
        return f"blurred(sigma={self.sigma:g},floor={self.floor:g},seed={self.seed}{priced},{self.policy.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The exact value of each prefix, blurred by a draw of its own."""
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        values = tuple(self._value(trajectory.prefix(k + 1)) for k in range(len(trajectory.steps)))
        cost = Cost(generated_tokens=self.price, scored_tokens=len(trajectory.text.split()), calls=1)
        return Judgement(trajectory.id, values, self.name, cost=cost)

    def _value(self, prefix: Trajectory) -> float:
        key = prefix.key
        if key not in self._said:
            drawn = min(max(chance(self.seed, key, "blur"), 1e-9), 1 - 1e-9)
            shift = self.sigma * _NORMAL.inv_cdf(drawn)
            self._said[key] = blurred_value(self.policy.value(prefix), shift, self.floor)
        return self._said[key]
