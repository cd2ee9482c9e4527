"""ER-PRM (arXiv 2412.11006): the value of a step under a KL penalty to the policy that wrote it, as a soft label.

With rewards r_j of n completions of a prefix by the reference policy, and η the inverse strength of the penalty,

    V = (1/η) ln( (1/n) Σ_j exp(η r_j) );   for r in {0, 1} with success rate p:   V = (1/η) ln(1 - p + p e^η)

η → 0 gives p (soft Monte Carlo), η → ∞ gives 1[p > 0] (hard Monte Carlo), η < 0 a soft minimum. So this is one transform
of Monte Carlo labels, and costs what they cost. The last step of a finished trace keeps its outcome. Values are not
rounded to three decimals as the published data is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.study_rows import label_row
from footfall.types import Judge, Judgement, Trajectory

_TINY = 1e-9
"""Below it (1/η) ln(1 + …) loses its digits, and the first terms of the series have them all."""


def log_mean_exp(rewards: Sequence[float], eta: float) -> float:
    """V = (1/η) ln mean exp(η r), of any rewards; their mean at η = 0, and as good as their mean near it."""
    if abs(eta) < _TINY:
        return math.fsum(rewards) / len(rewards)
    largest = max(eta * reward for reward in rewards)
    mean = math.fsum(math.exp(eta * reward - largest) for reward in rewards) / len(rewards)
    return (largest + math.log(mean)) / eta


def entropy_regularised(p: float, eta: float) -> float:
    """V = (1/η) ln(1 - p + p e^η), of a success rate; in [0, 1] for every η."""
    if not 0 <= p <= 1:
        raise ValueError(f"a success rate lies between 0 and 1, not at {p}")
    if p in (0.0, 1.0):
        return p
    if abs(eta) < _TINY:  # p η may be too small for a number of full precision: V = p + η p (1 - p) / 2 + O(η²)
        return p + eta * p * (1 - p) / 2
    if eta > 1:  # e^η would overflow, e^-η does not
        return 1 + math.log(p + (1 - p) * math.exp(-eta)) / eta
    return math.log1p(p * math.expm1(eta)) / eta


@dataclass(frozen=True)
class EntropyRegularised:
    """The transform over any judge whose values are success rates. The rates themselves stay as an aspect."""

    rates: Judge
    eta: float = 1.0

    @property
    def name(self) -> str:
        return f"er-prm(eta={self.eta},{self.rates.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The success rates of the judge inside, transformed."""
        return [self._transform(judgement) for judgement in self.rates.judge(trajectories)]

    def _transform(self, judgement: Judgement) -> Judgement:
        values = tuple(None if p is None else entropy_regularised(p, self.eta) for p in judgement.values)
        aspects = {**judgement.aspects, "success_rate": judgement.values}
        return replace(judgement, values=values, judge=self.name, aspects=aspects)


def _study(setting: Any, budget: float) -> EntropyRegularised:
    """Over Monte Carlo labels that the study has already."""
    return EntropyRegularised(setting.labeller("monte-carlo", rollouts=int(budget)))


@register("labeller", "er-prm", Declared(study=(label_row(30, make=_study, value="values"),), smoke={"rollouts": 2}))
def er_prm(
    policy: Policy,
    rollouts: int = 16,
    eta: float = 1.0,
    until: Literal["all", "first-error"] = "all",
    half_width: float | None = None,
    params: SamplingParams = SamplingParams(),
) -> EntropyRegularised:
    """Entropy-regularised soft labels: log-mean-exp of the rewards of rollouts (ER-PRM)."""
    return EntropyRegularised(MonteCarlo(policy, rollouts, "soft", until, half_width, params=params), eta)
