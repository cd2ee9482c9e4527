"""Scripted policies: what they write is drawn from known chances, so the exact value of every prefix is known.

A policy has one writer a problem. Where a world's script lists its moves the value is a plain recursion

    P(answer | state) = Σ_move P(move | state) · P(answer | state after move),   V(state) = P(reference | state)

for which a script's moves must never come back to a state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from footfall.policy.protocol import Completion, Finish, SamplingParams, sample_seed
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds.world import pick

K = TypeVar("K")
V = TypeVar("V")

KEPT = 1 << 14
"""Entries of one memo. A search on one problem meets a few thousand prefixes."""


def keep(memo: dict[K, V], key: K, value: V, most: int = KEPT) -> V:
    """Put a new entry into a memo of at most so many; the one that was put in first makes room. Returns the value."""
    while len(memo) >= most:
        del memo[next(iter(memo))]
    memo[key] = value
    return value


class HasAnswer(Protocol):
    """Where a trace stands."""

    @property
    def answer(self) -> object:
        """The answer that was stated, `None` while the trace is open."""
        ...

    def __hash__(self) -> int: ...


S = TypeVar("S", bound=HasAnswer)


class Writer(ABC, Generic[S]):
    """Writes one problem's traces, and knows the chance of every text and the value of every state."""

    @abstractmethod
    def state_after(self, prefix: Trajectory) -> S:
        """Where the trace stands after `prefix`."""

    @abstractmethod
    def value(self, state: S) -> float:
        """The exact probability of the right answer from `state`."""

    @abstractmethod
    def answers(self, state: S) -> Mapping[Any, float]:
        """The exact probability of each final answer from `state`."""

    @abstractmethod
    def texts(self, state: S) -> Iterator[tuple[str, float]]:
        """Every text that may come next with its probability, one wording at a time; none after the answer."""

    @abstractmethod
    def next_step(self, state: S, rng: Random | None) -> tuple[str, S]:
        """One step and where it leads; the likeliest move and its first wording if there is no generator."""

    def tokens(self, text: str) -> int:
        """A token is a word between spaces, or the separator after a step."""
        return text.count(" ") + 2

    def complete(self, state: S, params: SamplingParams, seed: int, index: int) -> Completion:
        """Write on from `state` until the answer, one step, or `max_tokens`: a step that does not fit is left out."""
        rng = Random(seed) if params.temperature > 0 else None
        steps: list[Step] = []
        tokens = 0
        finish: Finish = "end"
        while state.answer is None:
            text, after = self.next_step(state, rng)
            size = self.tokens(text)
            if tokens + size > params.max_tokens:
                finish = "length"
                break
            tokens += size
            steps.append(Step(text))
            state = after
            if params.until == "step":
                finish = "step" if state.answer is None else "end"
                break
        return Completion(tuple(steps), finish, index, cost=Cost(generated_tokens=tokens, calls=1))


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

    def moves(self, state: S) -> list[Move[S]]:
        """All that may come next; the probabilities sum to 1."""
        ...


class MoveWriter(Writer[S]):
    """A writer by a script that lists its moves. Visited states are kept: many completions of one prefix are cheap."""

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
        return self.answers(state).get(self.script.reference, 0.0)

    def answers(self, state: S) -> dict[str, float]:
        known = self._answers.get(state)
        if known is None:
            known = self._answers[state] = self._mixture(state)
        return known

    def _mixture(self, state: S) -> dict[str, float]:
        if state.answer is not None:
            return {str(state.answer): 1.0}
        total: dict[str, float] = {}
        for move in self._table(state)[1]:
            for answer, chance in self.answers(move.after).items():
                total[answer] = total.get(answer, 0.0) + move.probability * chance
        return total

    def texts(self, state: S) -> Iterator[tuple[str, float]]:
        for move in () if state.answer is not None else self._table(state)[1]:
            yield from ((wording, move.probability / len(move.wordings)) for wording in move.wordings)

    def next_step(self, state: S, rng: Random | None) -> tuple[str, S]:
        move = self.draw(state, rng)
        return pick(rng, move.wordings) if rng else move.wordings[0], move.after

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


W = TypeVar("W", bound=Writer[Any])


@dataclass(frozen=True, slots=True)
class ScriptedPolicy(ABC, Generic[W]):
    """A policy with a writer a problem: it samples, and knows the exact value of every prefix. Its fields are rates."""

    def __post_init__(self) -> None:
        for field in fields(self):
            rate = getattr(self, field.name)
            if not 0 <= rate <= 1:
                raise ValueError(f"{type(self).__name__}.{field.name} must be a probability, not {rate}")

    @property
    def name(self) -> str:
        """The name that the policy is registered by, with its rates."""
        rates = ",".join(f"{field.name}={getattr(self, field.name):g}" for field in fields(self))
        return f"{registered_name(self)}({rates})"

    @abstractmethod
    def new_writer(self, problem: Problem) -> W:
        """A writer for a problem that nothing is kept of yet."""

    def writer(self, problem: Problem) -> W:
        """The writer for a problem, kept from one call to the next."""
        found: W = _writers(self, _ByContent(problem))
        return found

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
        return {str(answer): chance for answer, chance in sorted(found.items(), key=lambda item: (-item[1], item[0]))}


def registered_name(part: object) -> str:
    """The name that a part's class is registered by; the class's own if it is not."""
    return str(getattr(type(part), "__footfall_part__", ("", type(part).__name__))[1])


class _ByContent:
    """A problem that is equal to another of the same id: its meta, a dictionary, has no hash."""

    __slots__ = ("key", "problem")

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.key = (problem.id, problem.answer, repr(problem.meta))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByContent) and self.key == other.key


@lru_cache(maxsize=256)
def _writers(policy: ScriptedPolicy[Any], keyed: _ByContent) -> Any:
    return policy.new_writer(keyed.problem)
