"""Labels of a stepwise outcome reward model (SORM, arXiv 2402.10963): can the answer still be reached from here?

With K continuations of each prefix P_i, of which c_ij says whether it is right and uses the result of step i,

    label(P_i) = 1[any_j c_ij],   then 1 for every prefix shorter than a positive one

An outcome reward model learns V of the policy; this is nearer to V* of the best policy, and errs to one side: a prefix of
success rate p is called lost with probability (1 − p)^K. The first error is the first step labelled 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from footfall.drive.rollouts import (
    Done,
    Estimate,
    Plan,
    Probe,
    RolloutCache,
    counts,
    drawn,
    finished,
    of_answered,
    run_plans,
)
from footfall.judging import Traits
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.types import Judged, Judgement, Reason, Trajectory, Unjudged, content_key, failures_of

BALANCED = Unjudged(Reason.NOT_ASKED, "left out, so that as many labels are right as wrong at this length")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def reachable(known: Sequence[float | None]) -> tuple[float | None, ...]:
    """Labels made consistent: if a prefix is positive, so are all shorter ones, unknown ones too."""
    last = max((i for i, label in enumerate(known) if label), default=-1)
    return tuple(1.0 if i <= last else label for i, label in enumerate(known))


def uses(step: str, continuation: str) -> bool:
    """Whether a continuation takes up the last number of a step; a step without one is passed over."""
    numbers = _NUMBER.findall(step)
    return not numbers or numbers[-1] in _NUMBER.findall(continuation)


def balanced(rows: Sequence[Judged]) -> list[Judged]:
    """As many labels 1 as 0 at each number of steps: those that are too many are left out, chosen by the trace's content."""
    said = [row.judgement for row in rows]
    left_out: set[tuple[int, int]] = set()
    for step in range(max((len(each.values) for each in said if each), default=0)):
        known = [(n, each.values[step]) for n, each in enumerate(said) if each and step < len(each.values)]
        sides = [[n for n, value in known if value == side] for side in (0.0, 1.0)]
        few = min(map(len, sides))
        for side in sides:
            ranked = sorted(side, key=lambda n: content_key("balance", step, rows[n].trajectory.key))
            left_out.update((n, step) for n in ranked[few:])
    return [_without(row, {k for i, k in left_out if i == n}) for n, row in enumerate(rows)]


def _without(row: Judged, steps: set[int]) -> Judged:
    trace, said = row
    if said is None or not steps:
        return row
    values = tuple(None if k in steps else value for k, value in enumerate(said.values))
    known = said.failures or (None,) * len(values)
    reasons = (BALANCED if k in steps else reason for k, reason in enumerate(known))
    return Judged(trace, replace(said, values=values, failures=failures_of(reasons)))


@dataclass(frozen=True)
class StepwiseORM:
    """A judge that completes every prefix K times and asks whether one completion is right. Needs reference answers."""

    policy: Policy
    rollouts: int = 8
    used: bool = True
    """Right completions count only if they take up the result of the step: else they may have ignored a wrong one."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1:
            raise ValueError(f"rollouts must be at least 1, got {self.rollouts}")

    @property
    def name(self) -> str:
        rule = f"n={self.rollouts}{'' if self.used else ',used=no'}"
        return f"sorm({self.policy.name},{rule},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("rollouts", self.rollouts),))

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Label every step; rollouts of all traces advance together, and a prefix met twice is completed once."""
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        return [self._judgement(trace, each) for trace, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[list[Estimate]]:
        ends = range(1, len(trace.steps) + 1 - finished(trace))
        found: Sequence[Estimate] = yield [Probe(trace.prefix(k), self.rollouts) for k in ends]
        return list(found)

    def _judgement(self, trace: Trajectory, done: Done[list[Estimate]]) -> Judgement:
        known = [self._label(estimate) for estimate in done.result]
        tallies = [estimate.tally for estimate in done.result] + [None] * finished(trace)
        values = reachable([*known, *[float(bool(trace.correct))] * finished(trace)])
        reasons = [estimate.failure for estimate in done.result] + [None] * finished(trace)
        failures = failures_of(why if value is None else None for why, value in zip(reasons, values, strict=True))
        return Judgement(trace.id, values, self.name, aspects=counts(tallies), failures=failures, cost=done.cost).check(
            trace
        )

    def _label(self, estimate: Estimate) -> float | None:
        if estimate.value is None:
            return None
        right = [r.completion for r in estimate.rollouts if r.correct]
        step = estimate.prefix.steps[-1].solution
        return float(any(not self.used or uses(step, " ".join(s.solution for s in c.steps)) for c in right))


@register("labeller", "sorm", Declared(unmeasured="monte-carlo-hard has these labels before they are made consistent"))
def sorm(
    policy: Policy, rollouts: int = 8, used: bool = True, params: SamplingParams = SamplingParams()
) -> StepwiseORM:
    """Whether the answer can be reached from each prefix: any of K completions, made consistent (GLoRe's SORM)."""
    return StepwiseORM(policy, rollouts, used, params)
