"""Monte Carlo step labels (Math-Shepherd, arXiv 2312.08935): a step is good if the answer can still be reached from it.

Complete the prefix s_1..s_i N times with a policy (the completer), with answers a_j and the reference a*:

    soft estimate  SE_i = (1/N) Σ_j 1[a_j = a*]
    hard estimate  HE_i = 1[SE_i > 0]

The last step of a finished trace is not completed: its label is the outcome itself. What differs from the paper: equal
prefixes share their rollouts, N can adapt to each step, and labelling can stop at the first error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from footfall.drive.rollouts import Tally, counts, drawn, finished, of_answered
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.types import AFTER_ERROR, Cost, Judgement, Trajectory, Unjudged, failures_of

_Z95 = 1.959963984540054


def soft_estimate(successes: int, rollouts: int) -> float:
    """SE = successes / rollouts."""
    return successes / rollouts


def hard_estimate(successes: int, rollouts: int) -> float:
    """HE = 1 if any rollout succeeded, else 0."""
    return float(successes > 0)


def wilson_half_width(successes: int, rollouts: int) -> float:
    """Half the width of the 95% Wilson interval: z/(1+z²/n) · sqrt(p(1-p)/n + z²/4n²)."""
    n, p = rollouts, successes / rollouts
    return float(_Z95 / (1 + _Z95**2 / n) * (p * (1 - p) / n + _Z95**2 / (4 * n * n)) ** 0.5)


@dataclass(frozen=True)
class MonteCarlo:
    """A judge that completes every prefix. Needs reference answers; costs rollouts x steps completions a trace."""

    policy: Policy
    rollouts: int = 8
    estimate: Literal["soft", "hard"] = "soft"
    until: Literal["all", "first-error"] = "all"
    """`first-error`: steps after the first one with no successful rollout are left unjudged, and cost nothing."""
    half_width: float | None = None
    """Adaptive budget: stop a step's rollouts early once its 95% interval is this narrow on either side."""
    round: int = 4
    """Rollouts between two looks at the interval."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.round < 1:
            raise ValueError(f"rollouts and round must be at least 1, got {self.rollouts} and {self.round}")
        if self.params.until != "end":
            raise ValueError("a rollout goes on to the answer: the sampling parameters need until='end'")

    @property
    def name(self) -> str:
        adaptive = "" if self.half_width is None else f",half_width={self.half_width},round={self.round}"
        rule = f"n={self.rollouts},{self.estimate},{self.until}{adaptive}"
        return f"monte-carlo({self.policy.name},{rule},{drawn(self.params)})"

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Label every step; rollouts of all traces advance together, and a prefix met twice is completed once."""
        tallies: dict[str, Tally] = {}
        if self.until == "all":
            self._complete([t.prefix(k) for t in trajectories for k in range(1, _completed(t) + 1)], tallies)
        else:
            open_traces = trajectories
            for k in range(1, max((_completed(t) for t in trajectories), default=0) + 1):
                open_traces = [t for t in open_traces if _completed(t) >= k]
                self._complete([t.prefix(k) for t in open_traces], tallies)
                open_traces = [t for t in open_traces if not tallies[t.prefix(k).key].hopeless]
        charged: set[str] = set()
        return [self._judgement(trace, tallies, charged) for trace in trajectories]

    def _complete(self, prefixes: Sequence[Trajectory], tallies: dict[str, Tally]) -> None:
        """Roll out each distinct prefix until its budget is used or its interval is narrow."""
        wanted = {p.key: p for p in prefixes}
        for key in wanted:
            tallies[key] = Tally()
        size = self.rollouts if self.half_width is None else self.round
        asked = 0
        while wanted and asked < self.rollouts:
            n = min(size, self.rollouts - asked)
            sampled = self.policy.sample(list(wanted.values()), n, self.params, first=asked)
            asked += n
            for (key, prefix), completions in zip(wanted.items(), sampled, strict=True):
                tallies[key].add(prefix, completions, self.policy.name)
            wanted = {key: prefix for key, prefix in wanted.items() if not self._narrow(tallies[key])}

    def _narrow(self, tally: Tally) -> bool:
        if self.half_width is None or tally.rollouts == 0:
            return False
        return wilson_half_width(tally.successes, tally.rollouts) <= self.half_width

    def _judgement(self, trace: Trajectory, tallies: dict[str, Tally], charged: set[str]) -> Judgement:
        values: list[float | None] = []
        failures: list[Unjudged | None] = []
        tallied: list[Tally | None] = []
        cost = Cost()
        estimate = soft_estimate if self.estimate == "soft" else hard_estimate
        for k in range(1, _completed(trace) + 1):
            key = trace.prefix(k).key
            tally = tallies.get(key)
            tallied.append(tally)
            if tally is None:
                values.append(None)
                failures.append(AFTER_ERROR)
            else:
                silent = tally.silence
                values.append(estimate(tally.successes, tally.rollouts) if silent is None else None)
                failures.append(silent)
            if tally is not None and key not in charged:
                charged.add(key)
                cost += tally.cost
        if len(values) < len(trace.steps):
            stopped = self.until == "first-error" and 0 in values
            values.append(None if stopped else float(bool(trace.correct)))
            failures.append(AFTER_ERROR if stopped else None)
            tallied.append(None)
        return Judgement(
            trajectory_id=trace.id,
            values=tuple(values),
            judge=self.name,
            aspects=counts(tallied),
            failures=failures_of(failures),
            cost=cost,
        ).check(trace)


def _completed(trace: Trajectory) -> int:
    """How many steps need rollouts: all but the last, whose label is the outcome, if there is an outcome."""
    return len(trace.steps) - finished(trace)


@register("labeller", "monte-carlo")
def monte_carlo(
    policy: Policy,
    rollouts: int = 8,
    estimate: Literal["soft", "hard"] = "soft",
    until: Literal["all", "first-error"] = "all",
    half_width: float | None = None,
    params: SamplingParams = SamplingParams(),
) -> MonteCarlo:
    """Complete every prefix and count right answers (Math-Shepherd)."""
    return MonteCarlo(policy, rollouts, estimate, until, half_width, params=params)
