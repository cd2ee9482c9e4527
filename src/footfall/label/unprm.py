"""UnPRM: the writer's own log-probabilities say which steps of a wrong trace to probe first, and which traces to label.

    q = softmax(l / 5) over a step's token log-probabilities l;   U = -Σ q ln q ("entropy") or -Σ ln q ("log-sum")
    value of a prefix  v = Σ_correct w_j / Σ_j w_j,   w_j = exp(mean token log-probability of rollout j)

A wrong trace is probed in the order of falling U ("uncertainty") or of falling jumps U_i - U_(i-1) ("delta"); the first
probed step with v < v0, the value of the problem itself, is taken for the first error, else the last step. Labels are 1
before it and 0 from it on; a correct trace is all 1. Probing out of order can return a late step whose prefix is bad
because of an earlier one that was not probed: that is the method's, not a fault of this file. "entropy" of a flat step
is ln n whatever its confidence: it is mostly a signal of length.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from footfall.drive.rollouts import Done, Plan, Probe, Rollout, RolloutCache, drawn, finished, of_answered, run_plans
from footfall.judging import Traits
from footfall.label.omegaprm import bisect
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, label_row, register
from footfall.types import Judgement, Reason, Trajectory, Unjudged

Measure = Literal["entropy", "log-sum"]
Order = Literal["uncertainty", "delta", "sequential", "binary"]
"""The last two need no log-probabilities: step by step, and by bisection. They are what the method is compared with."""
_TEMPERATURE = 5.0
_NO_LOGPROBS = Unjudged(
    Reason.NO_REFERENCE,
    "the trace's tokens have no log-probabilities to order probes by: label traces that `footfall sample` wrote, or take an "
    "order that needs none (order=sequential or order=binary)",
)
_NO_WEIGHTS = Unjudged(
    Reason.NO_REFERENCE,
    "the policy gives no log-probabilities to weigh rollouts by; use weighted=False (--set weighted=false)",
)


def step_uncertainty(logprobs: Sequence[float], measure: Measure = "entropy") -> float:
    """U of one step from its tokens' log-probabilities."""
    scaled = np.asarray(logprobs, dtype=float) / _TEMPERATURE
    log_q = scaled - scaled.max() - np.log(np.exp(scaled - scaled.max()).sum())
    return float(-(np.exp(log_q) * log_q).sum() if measure == "entropy" else -log_q.sum())


def trace_uncertainty(steps: Sequence[float]) -> float:
    """Mean of |U_(k+1) - U_k|; 0 for a single step."""
    jumps = [abs(after - before) for before, after in pairwise(steps)]
    return sum(jumps) / len(jumps) if jumps else 0.0


def probe_order(steps: Sequence[float], order: Order = "delta") -> list[int]:
    """Steps in the order of probing, most suspect first; "delta" never probes step 0. Bisection has no fixed order."""
    if order == "binary":
        raise ValueError("bisection decides by each probe where to go on; it has no order to list")
    if order == "sequential":
        return list(range(len(steps)))
    if order == "uncertainty":
        return sorted(range(len(steps)), key=lambda i: -steps[i])
    return sorted(range(1, len(steps)), key=lambda i: steps[i - 1] - steps[i])


def weighted_value(weights: Sequence[float], correct: Sequence[bool]) -> float:
    """v = Σ_correct w / Σ w."""
    right = math.fsum(w for w, good in zip(weights, correct, strict=True) if good)
    return right / math.fsum(weights)


def rollout_budget(correct: Sequence[bool], enough: int = 10, multiple: int = 8, least: int = 16) -> int | None:
    """m: how many rollouts brought `enough` right ones, rounded up to a multiple, at least 16; `None`: too hard to use.

    A problem with no more than `enough` right rollouts is skipped. The authors' code counts from 0: where 17 are needed it
    has 16, here it is 24.
    """
    if sum(correct) <= enough:
        return None
    needed = next(i for i in range(1, len(correct) + 1) if sum(correct[:i]) == enough)
    return max(least, -(-needed // multiple) * multiple)


def choose_traces(uncertainty: Sequence[float], ids: Sequence[Sequence[int]], n: int, weight: float = 1.0) -> list[int]:
    """Greedily the traces worth labelling: argmax of a·u + (1 - a)·(1 - mean cosine with those chosen).

    u is the trace uncertainty scaled to [0, 1] in the pool (0.5 if all are equal); the cosine is that of token ids, cut
    to the shorter of two. The first is the most uncertain one.
    """
    low, high = min(uncertainty, default=0.0), max(uncertainty, default=0.0)
    scaled = [0.5 if high == low else (u - low) / (high - low) for u in uncertainty]
    left = list(range(len(scaled)))
    chosen: list[int] = []
    while left and len(chosen) < n:
        score = {
            i: scaled[i] if not chosen else weight * scaled[i] + (1 - weight) * _novelty(i, chosen, ids) for i in left
        }
        best = max(left, key=lambda i: score[i])
        chosen.append(best)
        left.remove(best)
    return chosen


def _novelty(i: int, chosen: Sequence[int], ids: Sequence[Sequence[int]]) -> float:
    return 1 - float(np.mean([_cosine(ids[i], ids[j]) for j in chosen]))


def _cosine(a: Sequence[int], b: Sequence[int]) -> float:
    size = min(len(a), len(b))
    u, v = np.asarray(a[:size], dtype=float), np.asarray(b[:size], dtype=float)
    norm = float(np.linalg.norm(u) * np.linalg.norm(v))
    return float(u @ v) / norm if norm else 0.0


def _in_turn(order: Sequence[int], otherwise: int) -> Generator[int, bool, int]:
    """Probes one after the other; the first lost one is the error, if none is, it is `otherwise`."""
    for i in order:
        if (yield i):
            return i
    return otherwise


class _Found(NamedTuple):
    error: int | None
    probes: int = 0
    failure: Unjudged | None = None


@dataclass(frozen=True)
class Uncertain:
    """A judge that probes the most suspect steps first. Traces need the log-probabilities of their tokens."""

    policy: Policy
    order: Order = "delta"
    measure: Measure = "entropy"
    draws: int = 72
    """Rollouts of each problem, from which the budget of its prefixes follows."""
    enough: int = 10
    weighted: bool = True
    """Weigh rollouts by their probability; `False` for a policy that gives no log-probabilities."""
    params: SamplingParams = SamplingParams(temperature=0.8)

    @property
    def name(self) -> str:
        settings = f"{self.order},{self.measure},draws={self.draws},enough={self.enough},weighted={self.weighted}"
        return f"unprm({self.policy.name},{settings},{drawn(self.params)})"

    @of_answered
    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The first error of each wrong trace, the least certain steps probed first."""
        done = run_plans([self._plan(trace) for trace in trajectories], RolloutCache(self.policy, self.params))
        return [self._judgement(trace, each) for trace, each in zip(trajectories, done, strict=True)]

    def _plan(self, trace: Trajectory) -> Plan[_Found]:
        if trace.correct:
            return _Found(-1)
        failure = self.refusal(trace)
        if failure is not None:
            return _Found(None, failure=failure)
        course = self._course(trace)
        top = trace.prefix(0)
        (problem,) = yield [Probe(top, self.draws)]
        budget = rollout_budget([rollout.correct for rollout in problem.rollouts], self.enough)
        if budget is None:
            few = f"only {problem.tally.successes} of {self.draws} rollouts of the problem are right"
            return _Found(None, failure=problem.failure or Unjudged(Reason.UNDECIDED, few))
        (problem,) = yield [Probe(top, self.draws + budget)]
        start = self._value([r for r in problem.rollouts if r.completion.index >= self.draws])
        return (yield from self._probe(trace, course, start, budget))

    @property
    def traits(self) -> Traits:
        """It refuses traces without the log-probabilities that its order needs."""
        return Traits(refusal=self.refusal, repeats=(("draws", self.draws),))

    def refusal(self, trace: Trajectory) -> Unjudged | None:
        """Why a graded trace cannot be labelled, whatever its rollouts show; `None` if it can."""
        if trace.correct:
            return None
        if not finished(trace):
            return Unjudged(Reason.NO_REFERENCE, "the trace states no answer, so its last step has no outcome")
        if self.order in ("delta", "uncertainty") and not all(step.logprobs for step in trace.steps):
            return _NO_LOGPROBS
        return None

    def _course(self, trace: Trajectory) -> Generator[int, bool, int]:
        """Where to probe; all steps but the last, whose outcome is known."""
        before_last = len(trace.steps) - 1
        if self.order == "binary":
            return bisect(before_last)
        known = [step.logprobs or () for step in trace.steps]
        uncertain = [step_uncertainty(each, self.measure) if each else 0.0 for each in known]
        return _in_turn([i for i in probe_order(uncertain, self.order) if i < before_last], before_last)

    def _probe(
        self, trace: Trajectory, course: Generator[int, bool, int], start: float | Unjudged, budget: int
    ) -> Plan[_Found]:
        count = 0
        try:
            i = next(course)
            while True:
                (estimate,) = yield [Probe(trace.prefix(i + 1), budget)]
                count += 1
                value = self._value(estimate.rollouts)
                for failure in (start, value):
                    if isinstance(failure, Unjudged):
                        return _Found(None, count, failure)
                assert not isinstance(start, Unjudged) and not isinstance(value, Unjudged)
                i = course.send(value < start)
        except StopIteration as stop:
            return _Found(stop.value, count)

    def _value(self, rollouts: Sequence[Rollout]) -> float | Unjudged:
        """v of these rollouts, or why there is none."""
        if not rollouts:
            return Unjudged(Reason.FAILED_CALL, "all rollouts failed")
        if all(rollout.completion.finish == "length" for rollout in rollouts):
            cut = f"all {len(rollouts)} rollouts were cut before their end: raise max_tokens (--max-tokens)"
            return Unjudged(Reason.CUT, cut)
        weights = []
        for rollout in rollouts:
            tokens = [step.logprobs for step in rollout.completion.steps]
            if self.weighted and (not tokens or None in tokens):
                return _NO_WEIGHTS
            flat = [logprob for step in tokens for logprob in step or ()]
            weights.append(math.exp(sum(flat) / len(flat)) if self.weighted and flat else 1.0)
        return weighted_value(weights, [rollout.correct for rollout in rollouts])

    def _judgement(self, trace: Trajectory, done: Done[_Found]) -> Judgement:
        n = len(trace.steps)
        error, probes, failure = done.result
        if error is None:
            nothing: tuple[float | None, ...] = (None,) * n
            return Judgement(trace.id, nothing, self.name, failures=(failure,) * n, cost=done.cost)
        values = tuple(float(error < 0 or k < error) for k in range(n))
        return Judgement(trace.id, values, self.name, aspects={"probes": (float(probes),) * n}, cost=done.cost)


@register(
    "labeller",
    "unprm",
    Declared(
        study=(
            # The paper has 72 draws and asks for 10 right ones.
            label_row(
                80, "", "draws", (8.0, 16.0, 32.0, 72.0), logprobs=True,
                settings=lambda draws: {"draws": int(draws), "enough": max(1, int(draws) * 10 // 72)},
            ),
        ),
        smoke={"draws": 12, "enough": 4},
    ),
)  # fmt: skip
def unprm(
    policy: Policy,
    order: Order = "delta",
    measure: Measure = "entropy",
    draws: int = 72,
    enough: int = 10,
    weighted: bool = True,
    params: SamplingParams = SamplingParams(temperature=0.8),
) -> Uncertain:
    """The first error by rollouts, the most uncertain steps probed first (UnPRM)."""
    return Uncertain(policy, order, measure, draws, enough, weighted, params)
