"""SCAN (arXiv 2509.16548): self-denoised Monte Carlo labels.

Monte Carlo errs two ways: a completer that cannot solve the problem under-rates good steps, one that repairs errors
over-rates bad ones. So only problems with self-confidence SC = correct / N of at least 0.75 are used, correct traces are
taken as they are, and in a wrong trace (first step t* with c_t = 0, found step by step) labels before t* are

    y_t* = 0;   y_t = min(c_t / SC, 1) for t* - d <= t < t*;   y_t = 1 before

Steps after t* have no label. A wrong trace costs (t* + 1) · R rollouts, less R if t* is its last step: the outcome of a
finished trace is known. The N responses of a problem are shared by all its traces. The robust training stage is
cross-entropy on these soft labels (`soft-bce`), on as many right as wrong traces (`balanced`; the labeller takes the labels of
the others away, when all traces of a data set are judged).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from footfall.drive.rollouts import Done, Plan, Probe, RolloutCache, drawn, finished, graded, of_answered, run_plans
from footfall.formats import Mapped
from footfall.judging import Traits
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import ROLLOUTS, Declared, label_row, register
from footfall.types import AFTER_ERROR, Judged, Judgement, Reason, Trajectory, Unjudged, content_key


def denoised(success_rates: Sequence[float], confidence: float, window: int = 2) -> list[float]:
    """Labels up to and including the first success rate of 0; the rest is cut off. Without a 0 there is no label."""
    if 0 not in success_rates:
        return []
    error = list(success_rates).index(0)
    near = [min(rate / confidence, 1.0) for rate in success_rates[max(0, error - window) : error]]
    return [1.0] * (error - len(near)) + near + [0.0]


def balanced(rows: Sequence[Judged], seed: int = 0) -> list[Judged]:
    """As many labelled right traces as labelled wrong ones, drawn by content; what is kept stays in order."""
    return [rows[at] for at in sorted(_drawn(rows, seed))]


def evened(rows: Sequence[Judged], seed: int = 0) -> Sequence[Judged]:
    """The same in place: all rows, those that are to spare without their labels."""
    kept = _drawn(rows, seed)
    spared = Unjudged(
        Reason.NOT_ASKED,
        f"left out for balance: {len(kept) // 2} right and as many wrong traces keep their labels (--set balance=false: all)",
    )

    def settled(at: int, row: Judged) -> Judged:
        said = row.judgement
        if at in kept or said is None:
            return row
        told = said.failures or (None,) * len(said.values)
        return Judged(
            row.trajectory,
            replace(said, values=(None,) * len(told), failures=tuple(why or spared for why in told)),
        )

    return Mapped(settled, range(len(rows)), rows)


def _drawn(rows: Sequence[Judged], seed: int) -> set[int]:
    """Places of as many labelled right traces as labelled wrong ones. Of many rows few are in memory."""
    sides: dict[bool, list[tuple[str, int]]] = {True: [], False: []}
    labelled = 0
    for at, row in enumerate(rows):
        if row.judgement is not None and any(value is not None for value in row.judgement.values):
            chance = content_key("balance", seed, labelled, row.trajectory.key)
            sides[bool(graded(row.trajectory).correct)].append((chance, at))
            labelled += 1
    size = min(map(len, sides.values()))
    return {at for side in sides.values() for _, at in sorted(side)[:size]}


class Noise(NamedTuple):
    """How first errors found by rollouts miss the true ones, as shares of all traces."""

    rate: float
    under_rated: float
    """An error is found before the true one, or where there is none: a good step was given up."""
    over_rated: float
    """An error is found after the true one, or not at all: the completer repaired a bad step."""


def label_noise(found: Sequence[int], true: Sequence[int]) -> Noise:
    """Noise of first errors against true ones, both 0-based with -1 for none."""
    if not found:
        raise ValueError("noise of no traces at all")
    early = late = 0
    for said, right in zip(found, true, strict=True):
        early += said != right and said >= 0 and (right < 0 or said < right)
        late += said != right and right >= 0 and (said < 0 or said > right)
    n = len(found)
    return Noise((early + late) / n, early / n, late / n)


_NO_ERROR = Unjudged(Reason.UNDECIDED, "no error was found in this unfinished trace")


class _Course(NamedTuple):
    confidence: float | None
    rates: list[float]
    failure: Unjudged | None = None


@dataclass(frozen=True)
class SelfDenoising:
    """A judge for the traces of problems that the completer is sure of; other traces stay unlabelled, with the reason."""

    policy: Policy
    rollouts: int = 8
    """R, of each prefix."""
    responses: int = 128
    """N, of each problem, for the self-confidence."""
    confidence: float = 0.75
    window: int = 2
    """d: so many steps before the error keep a soft label."""
    params: SamplingParams = SamplingParams()
    balance: bool = True
    """Whether as many right as wrong traces of a data set keep their labels."""

    def __post_init__(self) -> None:
        if self.rollouts < 1 or self.responses < 1 or self.window < 0 or not 0 < self.confidence <= 1:
            raise ValueError(f"settings out of range: {self}")

    @property
    def name(self) -> str:
        settings = f"R={self.rollouts},N={self.responses},confidence={self.confidence},d={self.window}"
        return f"scan({self.policy.name},{settings},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        settle = partial(evened, seed=self.params.seed) if self.balance else None
        return Traits(settle=settle, repeats=(("rollouts", self.rollouts), ("responses", self.responses)))

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Monte Carlo labels, denoised by how sure the policy is of the problem."""
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        return [self._judgement(trace, each) for trace, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[_Course]:
        (problem,) = yield [Probe(trace.prefix(0), self.responses)]
        confidence = problem.value
        if confidence is None:
            return _Course(None, [], problem.failure)
        if confidence < self.confidence:
            unsure = f"the self-confidence is below {self.confidence:g}"
            return _Course(confidence, [], Unjudged(Reason.UNDECIDED, unsure))
        if trace.correct:
            return _Course(confidence, [])
        rates: list[float] = []
        for size in range(1, len(trace.steps) + 1):
            if size == len(trace.steps) and finished(trace):
                rates.append(0.0)
                break
            (estimate,) = yield [Probe(trace.prefix(size), self.rollouts)]
            if estimate.value is None:
                return _Course(confidence, rates, estimate.failure)
            rates.append(estimate.value)
            if estimate.value == 0:
                break
        return _Course(confidence, rates, None if 0 in rates else _NO_ERROR)

    def _judgement(self, trace: Trajectory, done: Done[_Course]) -> Judgement:
        confidence, rates, failure = done.result
        n = len(trace.steps)
        known: list[float] = []
        if failure is None:
            known = [1.0] * n if trace.correct else denoised(rates, confidence or 1.0, self.window)
        lacking = n - len(known)
        values = (*known, *[None] * lacking)
        failures = (*[None] * len(known), *[failure or AFTER_ERROR] * lacking) if lacking else ()
        aspects = {"success_rate": (*rates, *[None] * (n - len(rates))), "confidence": (confidence,) * n}
        return Judgement(trace.id, values, self.name, None, aspects, failures=failures, cost=done.cost).check(trace)


@register(
    "labeller",
    "scan",
    Declared(
        study=(
            label_row(
                60, budgets=ROLLOUTS[:4], value="success_rate",
                settings=lambda n: {"rollouts": int(n), "responses": 4 * int(n)},
            ),
        ),
        smoke={"rollouts": 2, "responses": 2},
    ),
)  # fmt: skip
def scan(
    policy: Policy,
    rollouts: int = 8,
    responses: int = 128,
    confidence: float = 0.75,
    window: int = 2,
    balance: bool = True,
    params: SamplingParams = SamplingParams(),
) -> SelfDenoising:
    """Monte Carlo on confident problems, softened before the error it finds (SCAN's self-denoised labels)."""
    return SelfDenoising(policy, rollouts, responses, confidence, window, params, balance)
