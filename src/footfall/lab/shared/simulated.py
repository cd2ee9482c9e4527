"""Judges whose error rate is known: the truth of a step or of an outcome, read through noise once or several times.

    x = ±mu + √own z_model + √(1 − own) z_reading,    r = sigmoid(2 mu x),    mu = Φ⁻¹(1 − error)

z_model is the same in all readings that one model makes of one place, z_reading is not: so the mean of many readings is better
than one, but not right in the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from footfall.search.votes import mean_of_readings
from footfall.simulate.noisy import chance
from footfall.types import Judgement, Trajectory, content_key
from footfall.worlds import TruthJudge

_NORMAL = NormalDist()
_OUTCOME = -1
"""The place of the outcome; steps are counted from 0."""


@dataclass(frozen=True)
class Said:
    """A judge that repeats what was said before, by the trace's id."""

    name: str
    judgements: Mapping[str, Judgement]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The judgements that were given, found by the trace's id."""
        return [self.judgements[t.id] for t in trajectories]

    @classmethod
    def of(cls, name: str, judgements: Sequence[Judgement]) -> Said:
        """A judge that repeats these judgements."""
        return cls(name, {judgement.trajectory_id: judgement for judgement in judgements})


@dataclass(frozen=True)
class NoisyTruth:
    """Says the true class of a step, or with probability `error` the other one: (class + u) / 2 with u uniform.

    Of a right and a wrong step it puts the right one higher with probability 1 − `error`.
    """

    error: float
    seed: int = 0

    @property
    def name(self) -> str:
        """Its error rate and seed."""
        return f"noisy-truth(error={self.error:g},seed={self.seed})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The truth of each step, flipped at the error rate by a draw of its own."""
        truths = TruthJudge().judge(trajectories)
        return [self._judgement(t, truth) for t, truth in zip(trajectories, truths, strict=True)]

    def _judgement(self, trajectory: Trajectory, truth: Judgement) -> Judgement:
        rng = np.random.default_rng(int(content_key(self.name, trajectory.key), 16))
        right = np.asarray(truth.values, dtype=np.float64)
        said = np.abs(right - (rng.random(len(right)) < self.error))
        return Judgement(trajectory.id, tuple(((said + rng.random(len(right))) / 2).tolist()), self.name)


@dataclass(frozen=True)
class Simulated:
    """A reward model that is wrong about a verdict with probability `error`."""

    name: str
    of: Literal["outcome", "process"]
    readings: int = 1
    error: float = 0.2
    own: float = 0.5
    """The share of the noise that is the model's own."""

    def score(self, seed: int, trace: Trajectory, steps: Sequence[bool]) -> float:
        """The mean over readings of r(outcome), or of the lowest r(step)."""
        places = {_OUTCOME: bool(trace.correct)} if self.of == "outcome" else dict(enumerate(steps))
        return mean_of_readings(
            [min(self._read(seed, trace, at, j, truth) for at, truth in places.items()) for j in range(self.readings)]
        )

    def _read(self, seed: int, trace: Trajectory, at: int, reading: int, truth: bool) -> float:
        mu = _NORMAL.inv_cdf(1 - self.error)
        own, fresh = (_normal(seed, self.name, trace.key, at, kind) for kind in ("own", reading))
        x = (mu if truth else -mu) + math.sqrt(self.own) * own + math.sqrt(1 - self.own) * fresh
        return 1 / (1 + math.exp(-2 * mu * x))


def _normal(*parts: object) -> float:
    return _NORMAL.inv_cdf(min(max(chance(*parts), 1e-9), 1 - 1e-9))


def simulated(readings: int, error: float) -> dict[str, Simulated]:
    """Discriminative (one reading) and generative (several), of the outcome and of the process."""
    models = (
        Simulated("dORM", "outcome", 1, error), Simulated("dPRM", "process", 1, error),
        Simulated("gORM", "outcome", readings, error), Simulated("gPRM", "process", readings, error),
    )  # fmt: skip
    return {model.name: model for model in models}
