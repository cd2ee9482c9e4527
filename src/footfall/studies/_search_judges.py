"""Judges of three qualities for `footfall bench search`; what their reading costs is in `footfall.search.priced`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from footfall.policy.protocol import Policy, SamplingParams
from footfall.policy.resuming import InWords, unfinished
from footfall.search.priced import Reader
from footfall.simulate.noisy import Noisy
from footfall.types import Judge, Judgement, Step, Trajectory
from footfall.worlds.judges import ExactValueJudge, TruthJudge

QUALITIES = ("exact", "noisy", "prm")
AGGREGATIONS = {"exact": "last", "noisy": "mean", "prm": "min"}
"""How methods that fold step values do it: the last value is all that counts if values are exact, and not if each may err."""
NOISE = 0.2
"""The share of the steps on which the noisy judge is wrong."""
WAYS = 8
"""Ways to finish a step by which a scripted judge values its beginning."""


@dataclass(frozen=True)
class Finished:
    """Traces that end in the beginning of a step, valued by the mean over ways in which the policy may finish it."""

    whole: Judge
    policy: Policy
    seed: int

    @property
    def name(self) -> str:
        return f"finished({self.whole.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        # Other random numbers than the search's, or the judge would see how this very step goes on.
        params = SamplingParams(seed=self.seed + 1_000_003, max_tokens=1 << 20, until="step")
        rows = InWords(self.policy).resume([unfinished(t) for t in trajectories], WAYS, params)
        return [self._judgement(t, [c.steps[0] for c in row]) for t, row in zip(trajectories, rows, strict=True)]

    def _judgement(self, trajectory: Trajectory, ends: Sequence[Step]) -> Judgement:
        before = trajectory.prefix(len(trajectory.steps) - 1)
        ways = Counter(ends)
        said = self.whole.judge([before.extend([end]) for end in ways])
        known = [
            v
            for each, n in zip(said, ways.values(), strict=True)
            if (v := each.values[-1]) is not None
            for _ in range(n)
        ]
        return Judgement(trajectory.id, (*said[0].values[:-1], fmean(known) if known else None), self.name)


def exact(policy: Any, seed: int) -> Reader:
    """The policy's own chance of success after each step."""
    values = ExactValueJudge(policy)
    return Reader(values, Finished(values, policy, seed))


def noisy(world: Any, policy: Policy, seed: int) -> Reader:
    """Whether a step is right, and wrong about it on a share `NOISE` of the steps. A beginning is right if most ends are."""
    truth = TruthJudge(world)
    finished = Finished(truth, policy, seed)
    return Reader(Noisy(truth, NOISE, NOISE, seed=seed), Noisy(finished, NOISE, NOISE, seed=seed))
