"""A scripted policy at work on one problem, for any world whose script lists its moves: draws, words, exact values.

    P(answer | state) = Σ_move P(move | state) · P(answer | state after move),   V(state) = P(reference | state)

A script's moves must never come back to a state, so the sum is a plain recursion.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Generic, Protocol, TypeVar

from footfall.policy.protocol import Completion, Finish, SamplingParams, sample_seed
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds._memo import keep

__all__ = ["ByContent", "Move", "Script", "ScriptedPolicy", "Writer", "Writes", "check_rates"]

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Move(Generic[S]):
    """One step that can be written next: how likely, of what kind, in which wordings, and where it leads."""

    probability: float
    kind: str
    wordings: tuple[str, ...]
    after: S


class Script(Protocol[S]):
    """What a policy may do on one problem."""

    @property
    def reference(self) -> str:
        """The right answer."""
        ...

    def state_after(self, prefix: Trajectory) -> S: ...

    def answer(self, state: S) -> str | None:
        """The answer that was stated, `None` while the trace is open."""
        ...

    def moves(self, state: S) -> list[Move[S]]:
        """All that may come next; the probabilities sum to 1."""
        ...


class Writer(Generic[S]):
    """Writes one problem's traces. Visited states are kept: many completions of one prefix are cheap."""

    def __init__(self, script: Script[S]) -> None:
        self.script = script
        self._tables: dict[S, tuple[list[float], list[Move[S]]]] = {}
        self._answers: dict[S, dict[str, float]] = {}
        self._read: dict[tuple[str, ...], S] = {}

    def state_after(self, prefix: Trajectory) -> S:
        """Where the script stands after `prefix`; a search asks again and again for the same ones, which are read once."""
        steps = tuple(step.written for step in prefix.steps)
        if steps in self._read:
            return self._read[steps]
        return keep(self._read, steps, self.script.state_after(prefix))

    def value(self, state: S) -> float:
        """The exact probability of the right answer from `state`."""
        return self.answers(state).get(self.script.reference, 0.0)

    def answers(self, state: S) -> dict[str, float]:
        """The exact probability of each final answer from `state`."""
        known = self._answers.get(state)
        if known is None:
            known = self._answers[state] = self._mixture(state)
        return known

    def _mixture(self, state: S) -> dict[str, float]:
        stated = self.script.answer(state)
        if stated is not None:
            return {stated: 1.0}
        total: dict[str, float] = {}
        for move in self._table(state)[1]:
            for answer, chance in self.answers(move.after).items():
                total[answer] = total.get(answer, 0.0) + move.probability * chance
        return total

    def complete(self, state: S, params: SamplingParams, seed: int, index: int) -> Completion:
        """Write on from `state` until the answer, one step, or `max_tokens`: a step that does not fit is left out."""
        rng = Random(seed) if params.temperature > 0 else None
        steps: list[Step] = []
        tokens = 0
        finish: Finish = "end"
        while self.script.answer(state) is None:
            move = self.draw(state, rng)
            text = move.wordings[int(rng.random() * len(move.wordings))] if rng else move.wordings[0]
            size = text.count(" ") + 2
            if tokens + size > params.max_tokens:
                finish = "length"
                break
            tokens += size
            steps.append(Step(text))
            state = move.after
            if params.until == "step":
                finish = "step" if self.script.answer(state) is None else "end"
                break
        return Completion(tuple(steps), finish, index, cost=Cost(generated_tokens=tokens, calls=1))

    def draw(self, state: S, rng: Random | None) -> Move[S]:
        """The next move; the likeliest one if there is no generator."""
        thresholds, found = self._table(state)
        if rng is None:
            return max(found, key=lambda move: move.probability)
        # The last threshold is 1 but for the rounding error of the sum.
        return found[min(bisect_right(thresholds, rng.random()), len(found) - 1)]

    def _table(self, state: S) -> tuple[list[float], list[Move[S]]]:
        table = self._tables.get(state)
        if table is None:
            found = [move for move in self.script.moves(state) if move.probability > 0]
            table = self._tables[state] = list(accumulate(move.probability for move in found)), found
        return table


class ByContent:
    """A problem that is equal to another of the same id: its meta, a dictionary, has no hash."""

    __slots__ = ("key", "problem")

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.key = (problem.id, problem.answer, repr(problem.meta))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByContent) and self.key == other.key


class Writes(Protocol[S]):
    """What a scripted policy needs of a problem's writer."""

    def state_after(self, prefix: Trajectory) -> S: ...
    def value(self, state: S) -> float: ...
    def answers(self, state: S) -> dict[str, float]: ...
    def complete(self, state: S, params: SamplingParams, seed: int, index: int) -> Completion: ...


class ScriptedPolicy(ABC, Generic[S]):
    """A policy that is a writer a problem: it samples, and knows the exact value of every prefix."""

    __slots__ = ()

    @abstractmethod
    def writer(self, problem: Problem) -> Writes[S]:
        """The writer for a problem, kept from one call to the next."""

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix; each depends on the seed, the prefix's content and its index alone."""
        result = []
        for prefix in prefixes:
            writer = self.writer(prefix.problem)
            state = writer.state_after(prefix)
            indices = range(first, first + n)
            result.append([writer.complete(state, params, sample_seed(params, prefix, i), i) for i in indices])
        return result

    def value(self, prefix: Trajectory) -> float:
        """The exact probability that a completion of `prefix` ends with the reference answer."""
        writer = self.writer(prefix.problem)
        return writer.value(writer.state_after(prefix))

    def answers(self, prefix: Trajectory) -> dict[str, float]:
        """The exact probability of each final answer after `prefix`, likeliest first: what a vote converges to."""
        writer = self.writer(prefix.problem)
        found = writer.answers(writer.state_after(prefix))
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def check_rates(owner: str, **rates: float) -> None:
    """Refuse what is no probability, by name."""
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise ValueError(f"{owner}.{name} must be a probability, not {rate}")
