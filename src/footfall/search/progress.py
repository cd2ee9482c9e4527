"""PAV's rule for search (Rewarding Progress, arXiv 2410.08146): a partial solution is kept for its value and its last progress.

    S = Q_π(s, a) + α · A_μ(s, a),    A_μ = Q_μ(s, a) − V_μ(s),    prover Best-of-K of π:  Q_μ = 1 − (1 − Q_π)^K

Any judge whose values are chances of success gives Q_π, so it does for beam search and the like with `aggregation="last"`. The
value before the first step is the judge's own of the bare problem, or `start` if it has none; all first steps share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from footfall.judging import Traits, traits
from footfall.label.pav import advantages, best_of_k, effective_reward
from footfall.types import Judge, Judgement, Trajectory


@dataclass(frozen=True)
class EffectiveReward:
    """A judge of values as PAV's search reads them: each step has Q + α · A. What it cannot judge stays unjudged."""

    inner: Judge
    """Its values are chances of success."""
    k: int = 4
    """Of the prover Best-of-K."""
    alpha: float = 0.5
    start: float = 0.5
    """The value before the first step, where the judge says nothing of the bare problem."""

    def __post_init__(self) -> None:
        if self.k < 1 or self.alpha < 0 or not 0 <= self.start <= 1:
            raise ValueError(
                f"k is 1 or more, alpha not negative and start a chance, not {self.k}, {self.alpha:g} and {self.start:g}"
            )

    @property
    def name(self) -> str:
        """The rule's settings, and the judge inside."""
        return f"effective-reward(k={self.k},alpha={self.alpha:g},start={self.start:g},{self.inner.name})"

    @property
    def traits(self) -> Traits:
        """The judge's own without a threshold: a sum of a value and progress has none."""
        return replace(traits(self.inner), parts=(self.inner,), threshold=None, judge_partial=None)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The inner judge's values with the progress of each step; the values themselves are the aspect `raw`."""
        return [self._rewarded(said) for said in self.inner.judge(trajectories)]

    def _rewarded(self, said: Judgement) -> Judgement:
        known = [value for value in said.values if value is not None]
        start = self.start if said.initial is None else said.initial
        if any(not 0 <= value <= 1 for value in (start, *known)):
            raise ValueError(f"{self.inner.name} gives values outside [0, 1]; progress is a difference of chances")
        # A step that has no value is passed over: the next one's progress is measured from the last that has one.
        proved = advantages(best_of_k(start, self.k), [best_of_k(value, self.k) for value in known])
        rewards = iter([effective_reward(q, a, self.alpha) for q, a in zip(known, proved, strict=True)])
        values = tuple(None if value is None else next(rewards) for value in said.values)
        return replace(said, values=values, initial=None, judge=self.name, aspects={**said.aspects, "raw": said.values})
