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

from footfall.drive.courses import Done
from footfall.drive.rollouts import (
    Estimate,
    Plan,
    Probe,
    RolloutCache,
    Tally,
    counts,
    drawn,
    finished,
    of_answered,
    run_plans,
)
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.study_rows import ROLLOUTS, label_row
from footfall.types import AFTER_ERROR, Judgement, Trajectory, Unjudged, failures_of

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
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        return [self._judgement(trace, each) for trace, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[list[Estimate]]:
        """Complete every prefix at once, or one after the other up to the first that is lost."""
        prefixes = [trace.prefix(k) for k in range(1, _completed(trace) + 1)]
        if self.until == "all":
            return (yield from self._complete(prefixes))
        found: list[Estimate] = []
        for prefix in prefixes:
            found += yield from self._complete([prefix])
            if found[-1].tally.hopeless:
                break
        return found

    def _complete(self, prefixes: Sequence[Trajectory]) -> Plan[list[Estimate]]:
        """Roll out each prefix until its budget is used or its interval is narrow."""
        found: dict[int, Estimate] = {}
        wide = list(range(len(prefixes)))
        asked = 0
        while wide and asked < self.rollouts:
            asked = self.rollouts if self.half_width is None else min(asked + self.round, self.rollouts)
            estimates = yield [Probe(prefixes[i], asked) for i in wide]
            found.update(zip(wide, estimates, strict=True))
            wide = [i for i in wide if not self._narrow(found[i].tally)]
        return [found[i] for i in range(len(prefixes))]

    def _narrow(self, tally: Tally) -> bool:
        if self.half_width is None or tally.rollouts == 0:
            return False
        return wilson_half_width(tally.successes, tally.rollouts) <= self.half_width

    def _judgement(self, trace: Trajectory, done: Done[list[Estimate]]) -> Judgement:
        share = soft_estimate if self.estimate == "soft" else hard_estimate
        tallies: list[Tally | None] = [estimate.tally for estimate in done.result]
        values: list[float | None] = [
            share(tally.successes, tally.rollouts) if tally is not None and tally.silence is None else None
            for tally in tallies
        ]
        failures: list[Unjudged | None] = [estimate.failure for estimate in done.result]
        stopped = self.until == "first-error" and 0 in values
        if finished(trace) and not stopped:
            values.append(float(bool(trace.correct)))
        lacking = len(trace.steps) - len(values)
        values += [None] * lacking
        failures += [None if value is not None else AFTER_ERROR for value in values[len(failures) :]]
        tallies += [None] * (len(trace.steps) - len(tallies))
        return Judgement(
            trace.id, tuple(values), self.name, aspects=counts(tallies), failures=failures_of(failures), cost=done.cost
        ).check(trace)


def _completed(trace: Trajectory) -> int:
    """How many steps need rollouts: all but the last, whose label is the outcome, if there is an outcome."""
    return len(trace.steps) - finished(trace)


@register(
    "labeller",
    "monte-carlo",
    Declared(
        study=(
            label_row(10, value="values"),
            label_row(11, "monte-carlo-hard", fixed={"estimate": "hard"}),
            label_row(
                12, "monte-carlo-adaptive", "half width", (0.3, 0.25, 0.2, 0.17), value="values",
                settings=lambda width: {"rollouts": int(ROLLOUTS[-1]), "half_width": width},
            ),
        ),
        systems={
            "math-shepherd": {"rollouts": 8, "estimate": "hard"},
            "multilingual-prm": {"rollouts": 8, "estimate": "hard"},
        },
        smoke={"rollouts": 2},
    ),
)  # fmt: skip
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
