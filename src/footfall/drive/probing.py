"""Asking for the value of prefixes, many problems at once.

A method that decides its next rollouts by what the last ones showed (binary search, tree search) is written for one trace,
as a generator: it yields the prefixes it wants rolled out and is sent their estimates. `together` runs many such plans
side by side and puts what they want in each round to the policy as one batch. A `Prober` remembers every rollout: a
prefix met twice, by whichever plan, is completed once, and asking for more rollouts of it adds only those it lacks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from footfall.drive.tally import Tally
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Cost, Trajectory, Unjudged

R = TypeVar("R")


class Probe(NamedTuple):
    """A wish: so many rollouts of a prefix, in all."""

    prefix: Trajectory
    rollouts: int


class Rollout(NamedTuple):
    """A completion that is no failed call, and whether it reached the reference answer."""

    completion: Completion
    correct: bool


@dataclass(slots=True)
class Estimate:
    """What the rollouts of one prefix showed. `rollouts` are in the order of their sample indices."""

    prefix: Trajectory
    tally: Tally = field(default_factory=Tally)
    rollouts: list[Rollout] = field(default_factory=list)

    @property
    def value(self) -> float | None:
        """MC = correct / rollouts; `None` if the rollouts say nothing."""
        tally = self.tally
        return tally.successes / tally.rollouts if tally.rollouts and tally.silence is None else None

    @property
    def failure(self) -> Unjudged | None:
        """Why there is no value."""
        return self.tally.silence

    def add(self, completions: Sequence[Completion], author: str) -> Cost:
        """Count completions in; what they cost."""
        for completion in completions:
            successes = self.tally.successes
            self.tally.add(self.prefix, [completion], author)
            if completion.finish != "error":
                self.rollouts.append(Rollout(completion, self.tally.successes > successes))
        return Cost.total(completion.cost for completion in completions)


Plan: TypeAlias = Generator[Sequence[Probe], Sequence[Estimate], R]
"""One trace's or problem's course: yields probes, is sent their estimates in the same order, returns a result."""


class Prober:
    """Rolls prefixes out to the end with one policy, and remembers what came of it."""

    def __init__(self, policy: Policy, params: SamplingParams = SamplingParams()) -> None:
        if params.until != "end":
            raise ValueError("a rollout goes on to the answer: the sampling parameters need until='end'")
        self.policy, self.params = policy, params
        self.known: dict[str, Estimate] = {}

    def ask(self, probes: Sequence[Probe]) -> list[tuple[Estimate, Cost]]:
        """The estimates, each with what it cost now: a prefix's new rollouts are charged to the first who asks."""
        wanted: dict[str, int] = {}
        keys = [probe.prefix.key for probe in probes]
        for key, probe in zip(keys, probes, strict=True):
            self.known.setdefault(key, Estimate(probe.prefix))
            wanted[key] = max(wanted.get(key, 0), probe.rollouts)
        costs = self._roll_out(wanted)
        return [(self.known[key], costs.pop(key, Cost())) for key in keys]

    def _roll_out(self, wanted: dict[str, int]) -> dict[str, Cost]:
        lacking: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for key, rollouts in wanted.items():
            asked = self.known[key].tally.asked
            if asked < rollouts:
                lacking[asked, rollouts - asked].append(key)
        costs: dict[str, Cost] = {}
        for (first, n), keys in lacking.items():
            prefixes = [self.known[key].prefix for key in keys]
            sampled = self.policy.sample(prefixes, n, self.params, first=first)
            for key, completions in zip(keys, sampled, strict=True):
                costs[key] = self.known[key].add(completions, self.policy.name)
        return costs


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """What a plan returned, and what the rollouts cost that it was the first to ask for."""

    result: R
    cost: Cost


def together(plans: Sequence[Plan[R]], prober: Prober) -> list[Done[R]]:
    """Run all plans to their end, round by round; the probes of one round are one batch."""
    results: dict[int, R] = {}
    costs = [Cost()] * len(plans)
    replies: dict[int, list[Estimate] | None] = dict.fromkeys(range(len(plans)))
    while replies:
        wishes: dict[int, Sequence[Probe]] = {}
        for i, reply in replies.items():
            try:
                wishes[i] = next(plans[i]) if reply is None else plans[i].send(reply)
            except StopIteration as stop:
                results[i] = stop.value
        answered = iter(prober.ask([probe for wish in wishes.values() for probe in wish]))
        replies = {}
        for i, wish in wishes.items():
            pairs = [next(answered) for _ in wish]
            costs[i] = Cost.total((costs[i], *(cost for _, cost in pairs)))
            replies[i] = [estimate for estimate, _ in pairs]
    return [Done(results[i], costs[i]) for i in range(len(plans))]
