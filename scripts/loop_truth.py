"""A PRM mixed with the truth, to find out how good one must be before it pays to steer a search by it.

    value of a prefix = (1 − share) · PRM + share · truth

The truth of an unfinished prefix is how often the policy itself reaches the right answer from there, by `rollouts` completions;
of a finished one, whether its answer is right. No search could know it, so what the truth costs is counted apart and is no cost
of the search. One completion more of each prefix, in which the value has no part, tells how good the mixture is: the chance
that a prefix which then succeeds is valued above one which fails (AUC).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from footfall.answers import grade
from footfall.drive.rollouts import Estimate, Plan, Probe, RolloutCache, finished, run_plans
from footfall.judging import Traits, traits
from footfall.metrics.steps import auc
from footfall.types import Cost, Judge, Judgement, Trajectory


@dataclass
class MixedWithTruth:
    """A judge over a PRM and rollouts of the policy in `cache`, which several mixtures may share."""

    prm: Judge
    cache: RolloutCache
    share: float
    rollouts: int = 4
    seen: dict[str, tuple[float, bool]] = field(default_factory=dict)
    """Of unfinished prefixes: the value, and whether the completion that it does not know was right."""
    spent: Cost = field(default_factory=Cost)
    """On the truth."""

    @property
    def name(self) -> str:
        return f"{1 - self.share:g}·{self.prm.name}+{self.share:g}·truth(n={self.rollouts})"

    @property
    def traits(self) -> Traits:
        return traits(self.prm)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The PRM's judgements with the truth mixed into every value; their cost is the PRM's alone."""
        done = run_plans([self._plan(trace) for trace in trajectories], self.cache)
        self.spent = Cost.total([self.spent, *(each.cost for each in done)])
        said = self.prm.judge(trajectories)
        return [
            replace(judgement, values=self._mixed(trace, judgement, each.result), judge=self.name)
            for trace, judgement, each in zip(trajectories, said, done, strict=True)
        ]

    def _plan(self, trace: Trajectory) -> Plan[list[Estimate]]:
        """The first completion of each prefix is kept apart; without a share of the truth there are no others."""
        wanted = 1 + (self.rollouts if self.share else 0)
        unfinished = len(trace.steps) - finished(trace)
        found = yield [Probe(trace.prefix(k), wanted) for k in range(1, unfinished + 1)]
        return list(found)

    def _mixed(self, trace: Trajectory, said: Judgement, known: Sequence[Estimate]) -> tuple[float | None, ...]:
        values: list[float | None] = []
        for value, estimate in zip(said.values, known, strict=False):
            apart, *rest = [rollout.correct for rollout in estimate.rollouts] or [False]
            truth = float(np.mean(rest[: self.rollouts])) if rest else 0.0
            mixed = None if value is None else (1 - self.share) * value + self.share * truth
            if mixed is not None:
                self.seen[estimate.prefix.key] = (mixed, apart)
            values.append(mixed)
        for value in said.values[len(known) :]:
            right = bool((trace if trace.correct is not None else grade(trace)).correct)
            values.append(None if value is None else (1 - self.share) * value + self.share * right)
        return tuple(values)

    @property
    def quality(self) -> float | None:
        """AUC over the unfinished prefixes that were judged; None if all came to one end."""
        values = np.asarray([value for value, _ in self.seen.values()])
        right = np.asarray([correct for _, correct in self.seen.values()], dtype=bool)
        return round(float(auc(values, right)), 4) if 0 < right.sum() < len(right) else None
