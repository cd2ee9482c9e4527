"""Judges that know nothing. A benchmark on which one of them does well measures something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from footfall.registry import register
from footfall.types import Judgement, Step, Trajectory, content_key

__all__ = ["Constant", "LengthJudge", "RandomJudge", "always_right", "always_wrong"]


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value for every step."""

    name: str
    value: float

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (self.value,) * len(t.steps), self.name) for t in trajectories]


@register("labeller", "always-right")
def always_right() -> Constant:
    """Sanity judge: every step is right (1.0)."""
    return Constant("always-right", 1.0)


@register("labeller", "always-wrong")
def always_wrong() -> Constant:
    """Sanity judge: every step is wrong (0.0)."""
    return Constant("always-wrong", 0.0)


@register("labeller", "random")
@dataclass(frozen=True, slots=True)
class RandomJudge:
    """Sanity judge: uniform values in [0, 1); the same seed and trajectory give the same ones."""

    seed: int = 0

    @property
    def name(self) -> str:
        return f"random(seed={self.seed})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, self._values(t), self.name) for t in trajectories]

    def _values(self, trajectory: Trajectory) -> tuple[float, ...]:
        rng = np.random.default_rng(int(content_key("random-judge", self.seed, trajectory.key), 16))
        return tuple(rng.random(len(trajectory.steps)).tolist())


@register("labeller", "length")
@dataclass(frozen=True, slots=True)
class LengthJudge:
    """Sanity judge: a step is as good as it is short, scale / (scale + characters)."""

    scale: float = 200.0
    """A step of this many characters gets 0.5."""

    @property
    def name(self) -> str:
        return f"length(scale={self.scale:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(map(self._value, t.steps)), self.name) for t in trajectories]

    def _value(self, step: Step) -> float:
        return self.scale / (self.scale + len(step.text))
