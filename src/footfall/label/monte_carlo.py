"""Monte Carlo step labels (Math-Shepherd, arXiv 2312.08935) and variants: a step is good if the answer can be reached from it.

Complete the prefix s_1..s_i N times with a policy (the completer), with answers a_j and the reference a*:

    soft estimate  SE_i = (1/N) Σ_j 1[a_j = a*]
    hard estimate  HE_i = 1[SE_i > 0]

The last step of a finished trace is not completed: its label is the outcome itself. What differs from the paper: equal
prefixes share their rollouts, N can adapt to each step, and labelling can stop at the first error.

ER-PRM (arXiv 2412.11006): the value of a step under a KL penalty to the policy that wrote it, as a soft label.

With rewards r_j of n completions of a prefix by the reference policy, and η the inverse strength of the penalty,

    V = (1/η) ln( (1/n) Σ_j exp(η r_j) );   for r in {0, 1} with success rate p:   V = (1/η) ln(1 - p + p e^η)

η → 0 gives p (soft Monte Carlo), η → ∞ gives 1[p > 0] (hard Monte Carlo), η < 0 a soft minimum. So this is one transform
of Monte Carlo labels, and costs what they cost. The last step of a finished trace keeps its outcome. Values are not
rounded to three decimals as the published data is.

Symbolically guided Monte Carlo (logic): reasoning in Thought / Action / Observation steps, labelled by continuation.

A step starts at a "Thought:" line, or at an "Action:" line if the step has an action already. Each step before the last is
continued n = 5 times; its label is the share of continuations that end right (soft), or whether any does (hard). With step
scores p from a PRM that is trained on such labels,

    score of a trajectory  Π_i p_i      preference pairs  score_a − score_b > 0.25
    kept for SFT           all p_i > 0.5 and the answer right

Three answers exist: A (true), B (false), C (uncertain and everything else).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal

from footfall.drive.rollouts import (
    Done,
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
from footfall.judging import IdleSettings, Traits, idle_settings
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import ROLLOUTS, Declared, label_row, register
from footfall.types import AFTER_ERROR, Judge, Judged, Judgement, Trajectory, Unjudged, failures_of

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
    def idle(self) -> IdleSettings:
        few = self.half_width is not None and self.rollouts <= self.round
        return idle_settings(
            (few, "half_width", f"more than the {self.round} rollouts after which the interval is looked at first")
        )

    @property
    def name(self) -> str:
        adaptive = "" if self.half_width is None else f",half_width={self.half_width},round={self.round}"
        rule = f"n={self.rollouts},{self.estimate},{self.until}{adaptive}"
        return f"monte-carlo({self.policy.name},{rule},{drawn(self.params)})"

    @property
    def traits(self) -> Traits:
        return Traits(repeats=(("rollouts", self.rollouts),))

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
        serves=("default",),
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
    def idle(self) -> IdleSettings:
        """That of the judge inside."""
        return getattr(self.rates, "idle", ())

    @property
    def name(self) -> str:
        return f"er-prm(eta={self.eta},{self.rates.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The success rates of the judge inside, transformed."""
        return [self._transform(judgement) for judgement in self.rates.judge(trajectories)]

    def _transform(self, judgement: Judgement) -> Judgement:
        rates = (judgement.initial, *judgement.values)
        initial, *values = (None if p is None else entropy_regularised(p, self.eta) for p in rates)
        aspects = {**judgement.aspects, "success_rate": judgement.values}
        return replace(judgement, values=tuple(values), judge=self.name, aspects=aspects, initial=initial)


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


_BRACKETED = re.compile(r"\[([^\[\]]*)\]")
_VERDICTS = {"true": "A", "yes": "A", "a": "A", "false": "B", "no": "B", "b": "B"}


def react_steps(text: str) -> list[str]:
    """Cut a trace in Thought / Action / Observation form into its steps; text before the first mark belongs to the first."""
    steps: list[list[str]] = [[]]
    acted = marked = False
    for line in text.strip().split("\n"):
        thought, action = (line.lstrip().lower().startswith(mark) for mark in ("thought:", "action:"))
        if marked and (thought or (action and acted)):
            steps.append([])
            acted = False
        marked = marked or thought or action
        acted = acted or action
        steps[-1].append(line)
    return ["\n".join(lines).strip() for lines in steps]


def parse_verdict(text: str) -> Literal["A", "B", "C"]:
    """The last bracketed text as an answer: true, yes, a are A; false, no, b are B; all else is C."""
    found = _BRACKETED.findall(text)
    said = _VERDICTS.get(found[-1].strip().lower(), "C") if found else "C"
    return "A" if said == "A" else "B" if said == "B" else "C"


def trajectory_score(steps: Sequence[float]) -> float:
    """The product of the step scores. It falls with length: ten steps of 0.95 give 0.60."""
    return math.prod(steps)


def preference_pairs(scores: Sequence[float], margin: float = 0.25) -> list[tuple[int, int]]:
    """All (better, worse) among trajectories of one problem whose scores differ by more than `margin`."""
    return [(i, j) for i, j in permutations(range(len(scores)), 2) if scores[i] - scores[j] > margin]


def fit_for_sft(row: Judged, above: float = 0.5) -> bool:
    """Whether every step scores above the cut and the final answer is right; an unjudged step is no good one."""
    if row.judgement is None or not row.trajectory.correct:
        return False
    return all(value is not None and value > above for value in row.judgement.values)


@register(
    "labeller",
    "symbolic-mc",
    Declared(
        study=(label_row(70, budgets=(2.0, 5.0, 8.0, 16.0, 32.0), value="values", worlds=("logic",)),),
        smoke={"rollouts": 2},
    ),
)
def symbolic_mc(
    policy: Policy,
    rollouts: int = 5,
    estimate: Literal["soft", "hard"] = "soft",
    params: SamplingParams = SamplingParams(max_tokens=2048),
) -> MonteCarlo:
    """Five continuations of each step but the last (symbolically guided Monte Carlo)."""
    return MonteCarlo(policy, rollouts, estimate, params=params)
