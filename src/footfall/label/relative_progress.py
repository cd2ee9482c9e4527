"""Relative progress (GenPRM, arXiv 2504.00891): a step is good if it keeps the chance of success it was given.

With MC(s_1) the success rate of the problem itself and MC(s_t, a_t) that after step t:

    P_t = MC(s_t, a_t) / MC(s_t),   label 1 if P_t >= ε (0.8), else 0

StepWiser (arXiv 2508.19229) labels a chunk by what it does for the policy that takes the best of n, too:

    effective_t = MC_t + α (μ_t − μ_(t-1)),   μ = 1 − (1 − MC)^n,   label 1 if effective_t > 0, else 0

Once an MC is 0 all later ones count as 0 and are labelled 0, so they are not rolled out. More rollouts go to harder
problems: 128 a prefix if MC(s_1) < 0.1, 64 below 0.9, else 32. A problem that is never solved has no ratio: its traces
stay unlabelled. The last step of a finished trace has its outcome for MC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from footfall.drive.rollouts import Done, Estimate, Plan, Probe, RolloutCache, drawn, finished, of_answered, run_plans
from footfall.judging import IdleSettings, Traits, idle_settings
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, label_row, register
from footfall.types import Judgement, Reason, Trajectory, Unjudged, failures_of


def progress_ratios(start: float, values: Sequence[float]) -> list[float]:
    """P_t = MC_t / MC_(t-1), 0 from the first MC of 0 on."""
    ratios, before = [], start
    for value in values:
        value = value if before > 0 else 0.0
        ratios.append(value / before if before > 0 else 0.0)
        before = value
    return ratios


def progress_differences(start: float, values: Sequence[float]) -> list[float]:
    """The variant MC_t - MC_(t-1), with later values set to 0 after the first MC of 0."""
    differences, before = [], start
    for value in values:
        value = value if before > 0 else 0.0
        differences.append(value - before)
        before = value
    return differences


def effective_progress(start: float, values: Sequence[float], alpha: float = 0.8, best_of: int = 4) -> list[float]:
    """StepWiser's Rel-Effective: MC_t + α (μ_t − μ_(t-1)), μ = 1 − (1 − MC)^n, with later values set to 0 after one of 0."""
    found, before = [], start
    for value in values:
        value = value if before > 0 else 0.0
        found.append(value + alpha * ((1 - before) ** best_of - (1 - value) ** best_of))
        before = value
    return found


_ROUNDING = 1e-9
"""So much is nothing: 4/6 of 5/6 is 0.8 but for the last digit. Effective progress counts from so much on."""


def rollouts_for(pass_rate: float) -> int:
    """Rollouts a prefix by how often the problem is solved at all."""
    if pass_rate < 0.1:
        return 128
    return 64 if pass_rate < 0.9 else 32


@dataclass(frozen=True)
class RelativeProgress:
    """A judge of ratios of success rates. Traces advance step by step together and stop at an MC of 0."""

    policy: Policy
    rollouts: int | None = None
    """Of each prefix; `None` chooses 32, 64 or 128 by the pass rate."""
    pass_rollouts: int = 32
    """Of the problem itself, for the pass rate."""
    epsilon: float = 0.8
    """A step that makes less progress is wrong. For `compare="difference"` the paper tried -0.5 to -0.1."""
    compare: Literal["ratio", "difference", "effective"] = "ratio"
    estimate: Literal["hard", "soft"] = "hard"
    """`soft` keeps P_t itself (which may exceed 1)."""
    params: SamplingParams = SamplingParams()
    alpha: float = 0.8
    """With `best_of`, of `effective`, which has no epsilon; StepWiser's own values of both were not found."""
    best_of: int = 4

    def __post_init__(self) -> None:
        if self.pass_rollouts < 1 or (self.rollouts is not None and self.rollouts < 1):
            raise ValueError(f"want at least 1 rollout, got {self.rollouts} and {self.pass_rollouts} for the pass rate")

    @property
    def idle(self) -> IdleSettings:
        effective = self.compare == "effective"
        mine = ((not effective, name, "compare=effective") for name in ("alpha", "best_of"))
        return idle_settings((effective, "epsilon", "compare=ratio and compare=difference"), *mine)

    @property
    def name(self) -> str:
        n = f"n={self.rollouts or 'by-pass-rate'},pass_n={self.pass_rollouts}"
        rule = f"{self.compare}>={self.epsilon},{self.estimate}"
        if self.compare == "effective":
            rule = f"effective(alpha={self.alpha:g},n={self.best_of})>0,{self.estimate}"
        return f"relative-progress({self.policy.name},{n},{rule},{drawn(self.params)})"

    @property
    def threshold(self) -> float:
        """From which value on a step counts as good."""
        return self._least if self.estimate == "soft" else 0.5

    @property
    def traits(self) -> Traits:
        """With its threshold; of unnamed numbers of rollouts the least counts."""
        own = ("rollouts", rollouts_for(1.0) if self.rollouts is None else self.rollouts)
        return Traits(threshold=self.threshold, repeats=(("pass_rollouts", self.pass_rollouts), own))

    @property
    def _least(self) -> float:
        return _ROUNDING if self.compare == "effective" else self.epsilon

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Success rates before and after each step, compared."""
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        return [self._judgement(trace, each) for trace, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[list[Estimate]]:
        """The estimates of the problem and of its prefixes, up to the first that is lost or cannot be valued."""
        estimates = list((yield [Probe(trace.prefix(0), self.pass_rollouts)]))
        rate = estimates[0].value
        for size in range(1, len(trace.steps) - finished(trace) + 1):
            if not estimates[-1].value or rate is None:
                break
            estimates += yield [Probe(trace.prefix(size), self.rollouts or rollouts_for(rate))]
        return estimates

    def _judgement(self, trace: Trajectory, done: Done[list[Estimate]]) -> Judgement:
        start, *estimates = done.result
        n = len(trace.steps)
        means: list[float | None] = [estimate.value for estimate in estimates]
        if len(means) == n - finished(trace) and finished(trace):
            means.append(float(bool(trace.correct)))
        means += [0.0 if 0 in means else None] * (n - len(means))
        values, failures = self._labels(start, estimates, means)
        return Judgement(
            trace.id, tuple(values), self.name,
            aspects={"success_rate": tuple(means), "pass_rate": (start.value,) * n},
            failures=failures_of(failures), cost=done.cost,
        ).check(trace)  # fmt: skip

    def _labels(
        self, start: Estimate, estimates: Sequence[Estimate], means: Sequence[float | None]
    ) -> tuple[list[float | None], list[Unjudged | None]]:
        n = len(means)
        if not start.value:
            words = "the policy never solves this problem, so there is no progress to compare"
            return [None] * n, [start.failure or Unjudged(Reason.UNDECIDED, words)] * n
        known = [mean for mean in means if mean is not None]
        known = known[: next((k for k, mean in enumerate(means) if mean is None), n)]
        rules: dict[str, Callable[[float, Sequence[float]], list[float]]]
        rules = {"ratio": progress_ratios, "difference": progress_differences,
                 "effective": partial(effective_progress, alpha=self.alpha, best_of=self.best_of)}  # fmt: skip
        progress = rules[self.compare](start.value, known)
        least = self._least if self.compare == "effective" else self._least - _ROUNDING
        hard = [float(p >= least and mean > 0) for p, mean in zip(progress, known, strict=True)]
        said = progress if self.estimate == "soft" else hard
        reason = next((estimate.failure for estimate in estimates if estimate.failure), None)
        lacking = n - len(said)
        return [*said, *[None] * lacking], [*[None] * len(said), *[reason] * lacking]


@register(
    "labeller",
    "relative-progress",
    Declared(
        study=(label_row(50, value="success_rate", settings=lambda n: {"rollouts": int(n), "pass_rollouts": int(n)}),),
        smoke={"rollouts": 2, "pass_rollouts": 2},
        systems={"stepwiser-labels": {"compare": "effective", "rollouts": 16, "pass_rollouts": 16}},
    ),
)
def relative_progress(
    policy: Policy,
    rollouts: int | None = None,
    pass_rollouts: int = 32,
    epsilon: float = 0.8,
    compare: Literal["ratio", "difference", "effective"] = "ratio",
    estimate: Literal["hard", "soft"] = "hard",
    params: SamplingParams = SamplingParams(),
    alpha: float = 0.8,
    best_of: int = 4,
) -> RelativeProgress:
    """Whether a step keeps the success rate it was given (GenPRM's relative progress estimation; StepWiser's `effective`)."""
    return RelativeProgress(policy, rollouts, pass_rollouts, epsilon, compare, estimate, params, alpha, best_of)
