"""Judges that know nothing, and one that knows all. A benchmark on which the former do well measures something else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from footfall.metrics.cases import Case
from footfall.registry import Declared, register
from footfall.types import Judgement, Step, Trajectory, content_key


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value for every step."""

    name: str
    value: float

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (self.value,) * len(t.steps), self.name) for t in trajectories]


@register("labeller", "always-right", Declared(control=True))
def always_right() -> Constant:
    """Sanity judge: every step is right (1.0)."""
    return Constant("always-right", 1.0)


@register("labeller", "always-wrong", Declared(control=True))
def always_wrong() -> Constant:
    """Sanity judge: every step is wrong (0.0)."""
    return Constant("always-wrong", 0.0)


@register("labeller", "random", Declared(control=True))
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


@register("labeller", "length", Declared(control=True))
@dataclass(frozen=True, slots=True)
class LengthJudge:
    """Sanity judge: a step is as good as it is short, scale / (scale + characters)."""

    scale: float = 200.0
    """A step of this many characters gets 0.5."""

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale of the labeller 'length' is a finite number above 0, not {self.scale:g}")

    @property
    def name(self) -> str:
        return f"length(scale={self.scale:g})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, tuple(map(self._value, t.steps)), self.name) for t in trajectories]

    def _value(self, step: Step) -> float:
        return self.scale / (self.scale + len(step.written))


class Oracle:
    """Says the truth of a benchmark's cases, known steps and whole responses: what no judge can beat.

    Two cases of the same id and text get the truth of the first, as any judge would treat them alike.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self._truth: dict[tuple[str, str], Judgement] = {}
        for case in cases:
            self._truth.setdefault((case.trajectory.id, case.trajectory.key), case.truth)
        said = [[*place, list(truth.values), truth.value] for place, truth in self._truth.items()]
        self.name = f"oracle@{content_key('oracle', said)[:8]}"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._judgement(t) for t in trajectories]

    def _judgement(self, trajectory: Trajectory) -> Judgement:
        truth = self._truth.get((trajectory.id, trajectory.key))
        if truth is None:
            raise ValueError(f"trajectory {trajectory.id!r} is no case of the benchmark that the oracle knows")
        return Judgement(trajectory.id, truth.values, self.name, truth.value, aspects=truth.aspects)
