"""PAV (Rewarding Progress, arXiv 2410.08146): a step's label is its progress under a prover policy μ.

With Q(s, a) the probability of finishing right after step a, and V(s) that of the prefix before it:

    A_μ(s, a) = Q_μ(s, a) - V_μ(s)          progress of the step
    Q_BoK     = 1 - (1 - Q_π)^K             the prover Best-of-K of π needs no rollouts of its own
    effective = Q_π(s, a) + α · A_μ(s, a)   what search and RL use

μ = π adds nothing to the policy gradient (its advantages add up to outcome - V(s_1)); a prover that separates π's steps
and roughly agrees with π does. `improvement` estimates both, so provers can be compared before anything is trained.
The last step's Q is the outcome. After the first lost prefix all progress is 0; `until="first-error"` leaves it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from footfall.drive.requests import Write
from footfall.drive.rollouts import (
    Course,
    Estimate,
    Plan,
    Probe,
    RolloutCache,
    drawn,
    finished,
    of_answered,
    run_courses,
    run_plans,
)
from footfall.judging import IdleSettings, Traits, idle_settings
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, label_row, register
from footfall.types import AFTER_ERROR, Cost, Judgement, Reason, Trajectory, Unjudged, content_key, failures_of


def best_of_k(q: float, k: int) -> float:
    """Q of Best-of-K: 1 - (1 - Q)^K."""
    return 1.0 - (1.0 - q) ** k


def advantages(start: float, values: Sequence[float]) -> list[float]:
    """A_h = Q_h - Q_(h-1), with the value of the problem itself before the first step."""
    return [after - before for before, after in pairwise([start, *values])]


def effective_reward(q: float, advantage: float, alpha: float = 0.5) -> float:
    """Q_π + α · A_μ."""
    return q + alpha * advantage


class Improvement(NamedTuple):
    """The two terms of the bound on one policy-gradient step's improvement, without the learning rate."""

    distinguishes: float
    """E_s Var_a~π [A_μ(s, a)]"""
    aligns: float
    """E_s E_a~π [A_μ(s, a) · A_π(s, a)]"""


def improvement(prover: Sequence[Sequence[float]], policy: Sequence[Sequence[float]]) -> Improvement:
    """Both terms from advantages under prover and policy: one row a state, one entry a step that π sampled there."""
    rows = [(np.asarray(mu), np.asarray(pi)) for mu, pi in zip(prover, policy, strict=True)]
    if not rows or any(len(mu) != len(pi) or not len(mu) for mu, pi in rows):
        raise ValueError("want at least one state, and as many advantages of the prover as of the policy in each")
    return Improvement(
        distinguishes=float(np.mean([mu.var() for mu, _ in rows])),
        aligns=float(np.mean([(mu * pi).mean() for mu, pi in rows])),
    )


Reward: TypeAlias = Callable[[Trajectory, Trajectory], float]
"""Of a step: from the prefix before it and the one after it."""


def explore(
    policy: Policy,
    starts: Sequence[Trajectory],
    reward: Reward,
    width: int = 4,
    params: SamplingParams = SamplingParams(),
) -> tuple[list[Trajectory], Cost]:
    """Traces of the improved policy π'(a | s) ∝ π(a | s) · exp(reward): one step of policy improvement, by resampling.

    Of `width` next steps that π samples one is drawn with weight exp(reward), until all traces end or none can go on. What
    becomes of a start depends on its content and the seed alone; one that is given again draws anew.
    """
    given = Counter[str]()

    def stream_of(start: Trajectory) -> np.random.Generator:
        own = content_key("explore", params.seed, start.key, given[start.key])
        given[start.key] += 1
        return np.random.default_rng(int(own[:16], 16))

    def course(trace: Trajectory, generator: np.random.Generator) -> Course[Trajectory]:
        while True:
            (row,) = yield Write([trace], width)
            written = [completion for completion in row if completion.finish in ("step", "end") and completion.steps]
            if not written:
                return trace
            after = [replace(c.after(trace, policy.name), id=trace.id) for c in written]
            rewards = np.array([reward(trace, each) for each in after])
            if not np.isfinite(best := rewards.max()):
                raise ValueError(f"trace {trace.id!r}, step {len(trace.steps) + 1}: the highest reward is {best}")
            weights = np.exp(rewards - best)
            chosen = int(generator.choice(len(written), p=weights / weights.sum()))
            trace = after[chosen]
            if written[chosen].finish == "end":
                return trace

    done = run_courses([course(start, stream_of(start)) for start in starts], policy, params)
    return [each.result for each in done], Cost.total(each.cost for each in done)


class _Values(NamedTuple):
    """Q after each number of steps from 0 on, or why there is none."""

    values: list[float | None]
    failures: list[Unjudged | None]


@dataclass(frozen=True)
class StepAdvantage:
    """A judge whose values are advantages, between -1 and 1. Needs reference answers and rollouts from every prefix."""

    policy: Policy
    prover: Policy | None = None
    """`None`: Best-of-`k` of the policy."""
    k: int = 4
    rollouts: int = 16
    alpha: float = 0.5
    until: Literal["all", "first-error"] = "all"
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.k < 1:
            raise ValueError(f"rollouts and k must be at least 1, got {self.rollouts} and {self.k}")

    @property
    def idle(self) -> IdleSettings:
        return idle_settings((self.prover is not None, "k", "Best-of-k of the policy, where no prover is named"))

    @property
    def name(self) -> str:
        prover = f"best-of-{self.k}" if self.prover is None else self.prover.name
        settings = f"n={self.rollouts},alpha={self.alpha},{self.until},{drawn(self.params)}"
        return f"pav({self.policy.name},prover={prover},{settings})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("rollouts", self.rollouts),))

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Advantages as values; Q of policy and prover and the effective reward as aspects."""
        own = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        if self.prover is None:
            proved = [_Values([None if q is None else best_of_k(q, self.k) for q in each.result.values],
                              each.result.failures) for each in own]  # fmt: skip
            costs = [each.cost for each in own]
        else:
            others = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.prover, self.params))
            proved = [each.result for each in others]
            costs = [mine.cost + other.cost for mine, other in zip(own, others, strict=True)]
        return [
            self._judgement(trace, mine.result, mu, cost)
            for trace, mine, mu, cost in zip(trajectories, own, proved, costs, strict=True)
        ]

    def _plan(self, trace: Trajectory) -> Plan[_Values]:
        """Roll out the problem itself and every prefix but a finished whole."""
        rolled = len(trace.steps) - finished(trace) + 1
        if self.until == "all":
            estimates: Sequence[Estimate] = yield [Probe(trace.prefix(size), self.rollouts) for size in range(rolled)]
        else:
            estimates = []
            for size in range(rolled):
                estimates += yield [Probe(trace.prefix(size), self.rollouts)]
                if size and estimates[-1].value == 0:
                    break
        values = [estimate.value for estimate in estimates]
        failures = [estimate.failure for estimate in estimates]
        if len(values) == rolled and finished(trace) and not (self.until == "first-error" and 0 in values[1:]):
            values.append(float(bool(trace.correct)))
            failures.append(None)
        lacking = len(trace.steps) + 1 - len(values)
        return _Values(values + [None] * lacking, failures + [AFTER_ERROR] * lacking)

    def _judgement(self, trace: Trajectory, own: _Values, proved: _Values, cost: Cost) -> Judgement:
        values: list[float | None] = []
        failures: list[Unjudged | None] = []
        for (before, after), reasons in zip(pairwise(proved.values), pairwise(proved.failures), strict=True):
            known = before is not None and after is not None
            values.append(after - before if before is not None and after is not None else None)
            failures.append(None if known else reasons[1] or _before(reasons[0]))
        effective = tuple(
            None if q is None or a is None else effective_reward(q, a, self.alpha)
            for q, a in zip(own.values[1:], values, strict=True)
        )
        aspects = {"policy": tuple(own.values[1:]), "prover": tuple(proved.values[1:]), "effective": effective}
        told = failures_of(failures)
        return Judgement(trace.id, tuple(values), self.name, None, aspects, failures=told, cost=cost).check(trace)


def _before(reason: Unjudged | None) -> Unjudged:
    kind = Reason.OTHER if reason is None else reason.reason
    return Unjudged(kind, f"the prefix before has no value: {reason}")


@register(
    "labeller",
    "pav",
    Declared(
        # As relative progress allows: a step may lose a fifth of the chance of success.
        study=(label_row(40, threshold=-0.2, value="policy", probability=False),),
        smoke={"rollouts": 2},
    ),
)
def pav(
    policy: Policy,
    prover: Policy | None = None,
    k: int = 4,
    rollouts: int = 16,
    alpha: float = 0.5,
    until: Literal["all", "first-error"] = "all",
    params: SamplingParams = SamplingParams(),
) -> StepAdvantage:
    """Progress of each step under a prover policy, by default Best-of-4 of the policy (PAV)."""
    return StepAdvantage(policy, prover, k, rollouts, alpha, until, params)
