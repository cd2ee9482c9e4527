"""Self-PRM: the policy checks its own solutions, and those that it finds flawless vote (card: self-prm).

    reward_i = share of checks that find no error in solution i
    answer   = majority among the solutions with the highest reward; among all of them if no reward is above 0

The judge may be any that names first errors. `SelfCheck` is the plainest one that needs no prompt: the policy does every
step again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from footfall.drive.rollouts import write
from footfall.judging import Bound, Traits
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.registry import Declared, register, search_row
from footfall.search.state import Choice, Course, SearchState, described
from footfall.search.votes import Vote, majority
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_FRESH = 1_000_000
"""The first sample index of checks."""


def flawless(said: Judgement | None) -> float | None:
    """The share of checks that say "no error": 1 − Σ `named` of a critic that was asked several times, else 0 or 1.

    `None` if the check cannot be read.
    """
    if said is None or not said.values:
        return None
    named = [share for share in said.aspects.get("named", ()) if share is not None]
    if named:  # rounded, so that fifths that add up to 1 leave nothing, and equal shares are equal
        return round(1.0 - math.fsum(named), 12)
    first = said.first_below(0.5)
    return None if first is None else float(first < 0)


def passing(rewards: Sequence[float | None]) -> list[int]:
    """Who may vote: those with the highest reward; all if none is above 0."""
    most = max((reward for reward in rewards if reward is not None), default=0.0)
    return [i for i, reward in enumerate(rewards) if most <= 0 or reward == most]


def passing_vote(answers: Sequence[str | None], rewards: Sequence[float | None], domain: str = "math") -> Vote:
    """The majority among those who may vote. If none of them has an answer, among all."""
    if len(answers) != len(rewards):
        raise ValueError(f"{len(answers)} answers but {len(rewards)} rewards")
    voters = set(passing(rewards))
    vote = majority([answer if i in voters else None for i, answer in enumerate(answers)], domain)
    return majority(answers, domain) if vote.winner is None else vote


@register("searcher", "self-prm", Declared(study=(search_row(8),), smoke={"n": 4}))
@dataclass(frozen=True)
class SelfPRM:
    """Self-PRM: of N whole solutions those that the judge finds flawless vote.

    `pick` takes the first flawless one, or a random one, instead of the vote.
    """

    judged: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    n: int = 8
    pick: Literal["majority", "first", "random"] = "majority"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n = {self.n}: at least one sample is needed")
        if self.pick not in ("majority", "first", "random"):
            raise ValueError(f'pick is "majority", "first" or "random", not {self.pick!r}')

    @property
    def name(self) -> str:
        return described("self-prm", self)

    def search(self, state: SearchState) -> Course:
        """Draw, check, choose among those that pass."""
        nodes = yield from state.samples(self.n)
        rewards = [flawless(state.judgement(node)) for node in nodes]
        able = passing(rewards)
        state.keep([nodes[i] for i in able], "found flawless, or nothing is", [rewards[i] for i in able])
        answers = [state.trace(node).answer for node in nodes]
        answered = [i for i in able if answers[i] is not None]
        if self.pick == "majority" or not answered:
            winner = passing_vote(answers, rewards, state.problem.domain).winner
        else:
            winner = answered[0] if self.pick == "first" else int(state.rng.choice(answered))
        return Choice(None if winner is None else nodes[winner], nodes, rewards, with_lost=True)


@dataclass(frozen=True)
class SelfCheck:
    """A policy checks a trace by doing each step again from the steps before it; `votes` times, independently.

    A step whose last number differs from the trace's (whose text does, if there is no number) is an error. So the checker errs
    where the writer errs. Values are the share of checks without an error up to there, `named` the share that stop there. A
    check of which a call failed, or was cut in a step, before it found an error says nothing and is left out.
    """

    policy: Policy
    votes: int = 4
    params: SamplingParams = SamplingParams(max_tokens=64)

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise ValueError(f"votes = {self.votes}: at least one check is needed")

    @property
    def name(self) -> str:
        drawn = f"votes={self.votes},temperature={self.params.temperature:g},seed={self.params.seed}"
        return f"self-check({self.policy.name},{drawn})"

    @property
    def traits(self) -> Traits:
        return Traits(
            (self.policy,), at_most=self.at_most, counts_tokens=bool(getattr(self.policy, "counts_tokens", True))
        )

    def at_most(self, steps: int | None) -> Bound | None:
        """Every step `votes` times."""
        return None if steps is None else Bound(steps * self.votes * self.params.max_tokens, steps * self.votes)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """All steps of all traces in one batch."""
        params = replace(self.params, until="step")
        prefixes = [t.prefix(k) for t in trajectories for k in range(len(t.steps))]
        # The first samples of a prefix are those that traces are made of: a check must not read them back.
        redone = iter(write(self.policy, prefixes, self.votes, params, first=_FRESH))
        return [self._judgement(t, [next(redone) for _ in t.steps]) for t in trajectories]

    def _judgement(self, trace: Trajectory, redone: Sequence[Sequence[Completion]]) -> Judgement:
        n, cost = len(trace.steps), Cost.total(c.cost for row in redone for c in row)
        found = [_stops(trace, check) for check in zip(*redone, strict=True)]
        stops = [stop for stop in found if isinstance(stop, int)]
        if not stops:
            reasons = [stop for stop in found if isinstance(stop, Unjudged)][:1] * n
            return Judgement(trace.id, (None,) * n, self.name, failures=tuple(reasons), cost=cost)
        values = tuple(sum(stop > k for stop in stops) / len(stops) for k in range(n))
        named = tuple(stops.count(k) / len(stops) for k in range(n))
        return Judgement(trace.id, values, self.name, aspects={"named": named}, cost=cost)


def _stops(trace: Trajectory, check: Sequence[Completion]) -> int | Unjudged:
    """The first step that was done otherwise, the number of steps if none was; or why the check says nothing."""
    for k, (step, again) in enumerate(zip(trace.steps, check, strict=True)):
        if again.finish == "error":
            return Unjudged(Reason.FAILED_CALL, f"no check was made: {again.error or 'the policy gave no reason'}")
        if again.finish == "length":
            return Unjudged(Reason.CUT, "no check was made: its steps were cut, raise max_tokens")
        if not again.steps or not _same(again.steps[0].written, step.written):
            return k
    return len(trace.steps)


def _same(a: str, b: str) -> bool:
    one, two = _NUMBER.findall(a), _NUMBER.findall(b)
    return one[-1] == two[-1] if one and two else a.strip() == b.strip()
