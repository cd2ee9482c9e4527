"""Binary search for the first error of given traces (OmegaPRM, arXiv 2406.06592).

A prefix from which no rollout succeeds (MC = 0) holds an error; one with MC > 0 can still be saved. If that is monotone,
the first error of a wrong trace with M steps is found with at most ceil(log2(M + 1)) probes of k rollouts. All traces are
searched side by side. What differs from the paper: a prefix may count as lost at a small MC already (`lost`), and the last
step of a finished trace is not rolled out, for its outcome is known. The tree search is in `omegaprm`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from footfall.drive.probing import Estimate, Plan, Probe, Prober, together
from footfall.drive.tally import counts, drawn, finished, of_answered
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import register
from footfall.types import AFTER_ERROR, Cost, Judgement, Reason, Trajectory, Unjudged, failures_of

__all__ = ["BinarySearch", "Searched", "bisect", "omegaprm", "search"]


def bisect(steps: int) -> Generator[int, bool, int]:
    """Binary search for the first error among `steps` steps: yields the step to probe, is sent whether all is lost there.

    Returns the index of the first lost step; `steps` if none is lost.
    """
    low, high = 0, steps - 1
    while low <= high:
        middle = (low + high) // 2
        if (yield middle):
            high = middle - 1
        else:
            low = middle + 1
    return low


class Searched(NamedTuple):
    """The course of one binary search: what each probed prefix (by its number of steps) showed, and how it ended."""

    estimates: dict[int, Estimate]
    recoverable: int
    """So many steps are known to be recoverable."""
    failure: Unjudged | None = None


def search(
    trace: Trajectory, rollouts: int, before: int = 0, ends: bool = True, lost_at: float = 0.0
) -> Plan[Searched]:
    """Search a wrong trace after its first `before` steps; if it `ends`, its last prefix is known to be lost."""
    estimates: dict[int, Estimate] = {}
    probes = bisect(len(trace.steps) - before)
    recoverable = before
    try:
        at = before + next(probes) + 1
        while True:
            lost = ends and at == len(trace.steps)
            if not lost:
                (estimate,) = yield [Probe(trace.prefix(at), rollouts)]
                estimates[at] = estimate
                if estimate.value is None:
                    return Searched(estimates, recoverable, estimate.failure)
                lost = estimate.value <= lost_at
            recoverable = recoverable if lost else at
            at = before + probes.send(lost) + 1
    except StopIteration:
        return Searched(estimates, recoverable)


_NOT_PROBED = Unjudged(Reason.NOT_ASKED, "not probed")


@dataclass(frozen=True)
class BinarySearch:
    """A judge that finds the first error of a wrong trace with few probes. Needs reference answers.

    A correct trace costs nothing: if its end is right, no prefix of it was lost, so all its steps are 1.
    """

    policy: Policy
    rollouts: int = 8
    estimate: Literal["hard", "soft"] = "hard"
    """`hard`: 1 before the first error and 0 at it. `soft`: MC, at the probed steps alone."""
    lost: float = 0.0
    """A prefix with MC up to this is lost. The paper has 0; a completer that repairs errors needs more (see the docs)."""
    params: SamplingParams = SamplingParams()

    def __post_init__(self) -> None:
        if self.rollouts < 1 or not 0 <= self.lost < 1:
            raise ValueError(f"want at least 1 rollout and lost in [0, 1), got {self.rollouts} and {self.lost}")

    @property
    def name(self) -> str:
        return f"omegaprm({self.policy.name},k={self.rollouts},{self.estimate},lost={self.lost:g},{drawn(self.params)})"

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All traces are searched side by side; equal prefixes share their rollouts."""
        prober = Prober(self.policy, self.params)
        done = together([self._plan(trace) for trace in trajectories], prober)
        return [self._judgement(t, each.result, each.cost) for t, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[Searched]:
        if trace.correct:
            return Searched({}, len(trace.steps))
        return (yield from search(trace, self.rollouts, ends=finished(trace), lost_at=self.lost))

    def _judgement(self, trace: Trajectory, found: Searched, cost: Cost) -> Judgement:
        n = len(trace.steps)
        tallies = [found.estimates[k].tally if k in found.estimates else None for k in range(1, n + 1)]
        pairs = [self._label(trace, found, k) for k in range(n)]
        return Judgement(
            trace.id,
            values=tuple(value for value, _ in pairs),
            judge=self.name,
            aspects=counts(tallies),
            failures=failures_of(reason for _, reason in pairs),
            cost=cost,
        ).check(trace)

    def _label(self, trace: Trajectory, found: Searched, k: int) -> tuple[float | None, Unjudged | None]:
        """The value of step `k` from 0 on, or why it has none."""
        if self.estimate == "soft":
            if k == len(trace.steps) - 1 and finished(trace):
                return float(bool(trace.correct)), None
            estimate = found.estimates.get(k + 1)
            return (None, _NOT_PROBED) if estimate is None else (estimate.value, estimate.failure)
        if k < found.recoverable:
            return 1.0, None
        if found.failure is not None:
            return None, found.failure
        return (0.0, None) if k == found.recoverable else (None, AFTER_ERROR)


@register("labeller", "omegaprm")
def omegaprm(
    policy: Policy,
    rollouts: int = 8,
    estimate: Literal["hard", "soft"] = "hard",
    lost: float = 0.0,
    params: SamplingParams = SamplingParams(),
) -> BinarySearch:
    """The first error of each trace by binary search over rollouts (OmegaPRM)."""
    return BinarySearch(policy, rollouts, estimate, lost, params)
