"""Scripted policies: what they write is drawn from known chances, so the exact value of every prefix is known.

A policy has one writer a problem, which lists the moves that may come next; the value is a plain recursion over them

    P(answer | state) = Σ_move P(move | state) · P(answer | state after move),   V(state) = P(reference | state)

for which the moves must never come back to a state. A writer draws a move and then a wording, so the chance of every text
is known too, and the exact log-probability of every word, as a language model gives them. Read word by word,

    P(w_i | w_1 .. w_(i-1)) = Σ P(texts that begin with w_1 .. w_i) / Σ P(texts that begin with w_1 .. w_(i-1))

and the chance that the step ends after its words stands for the separator: as many numbers as the policy counts tokens.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from footfall.policy.protocol import Completion, Finish, Policy, SamplingParams, sample_seed
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds.world import pick

K = TypeVar("K")
V = TypeVar("V")

Words = tuple[str, ...]
Memory = dict[tuple[str, Words], tuple[float, ...] | None]
"""By problem and the texts up to a step."""
_END = "\n"
"""What follows the last word."""

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


@dataclass(slots=True)
class Move(Generic[S]):
    """One step that can be written next: how likely, of what kind, in which wordings, and where it leads."""

    probability: float
    kind: str
    wordings: tuple[str, ...]
    after: S
    said: str | None = None
    """What each wording says at its `%s`; `None` if the wordings are whole."""

    def text(self, wording: str) -> str:
        return wording if self.said is None else wording % self.said


class Writer(ABC, Generic[S]):
    """Writes one problem's traces, and knows the chance of every text and the value of every state.

    A world supplies `read` and `moves`. Visited states are kept: many completions of one prefix are cheap.
    """

    def __init__(self, reference: object) -> None:
        self.reference = reference
        """The right answer."""
        self._tables: dict[S, tuple[list[float], list[Move[S]]]] = {}
        self._mixtures: dict[S, dict[str, float]] = {}
        self._read: dict[tuple[str, ...], S] = {}

    @abstractmethod
    def read(self, prefix: Trajectory) -> S:
        """Where the trace stands after `prefix`, by the world's own reading."""

    @abstractmethod
    def moves(self, state: S) -> list[Move[S]]:
        """All that may come next; the probabilities sum to 1."""

    def state_after(self, prefix: Trajectory) -> S:
        """`read`, but once: a search asks again and again for the same prefixes."""
        steps = tuple(step.written for step in prefix.steps)
        if steps in self._read:
            return self._read[steps]
        return keep(self._read, steps, self.read(prefix))

    def value(self, state: S) -> float:
        """The exact probability of the right answer from `state`."""
        return self.answers(state).get(self.reference, 0.0)

    def answers(self, state: S) -> Mapping[Any, float]:
        """The exact probability of each final answer from `state`."""
        known = self._mixtures.get(state)
        if known is None:
            known = self._mixtures[state] = self._mixture(state)
        return known

    def _mixture(self, state: S) -> dict[str, float]:
        if state.answer is not None:
            return {str(state.answer): 1.0}
        total: dict[str, float] = {}
        for move in self.possible(state):
            for answer, chance in self.answers(move.after).items():
                total[answer] = total.get(answer, 0.0) + move.probability * chance
        return total

    def texts(self, state: S) -> Iterator[tuple[str, float]]:
        """Every text that may come next with its probability, one wording at a time; none after the answer."""
        for move in () if state.answer is not None else self.possible(state):
            yield from ((move.text(wording), move.probability / len(move.wordings)) for wording in move.wordings)

    def next_step(self, state: S, rng: Random | None) -> tuple[str, S]:
        """One step and where it leads; the likeliest move and its first wording if there is no generator."""
        move = self.draw(state, rng)
        return move.text(pick(rng, move.wordings) if rng and len(move.wordings) > 1 else move.wordings[0]), move.after

    def draw(self, state: S, rng: Random | None) -> Move[S]:
        """The next move; the likeliest one if there is no generator."""
        thresholds, found = self._table(state)
        if rng is None:
            return max(found, key=lambda move: move.probability)
        # The last threshold is 1 but for the rounding error of the sum.
        return found[min(bisect_right(thresholds, rng.random()), len(found) - 1)]

    def possible(self, state: S) -> list[Move[S]]:
        """The moves with a chance."""
        return self._table(state)[1]

    def _table(self, state: S) -> tuple[list[float], list[Move[S]]]:
        table = self._tables.get(state)
        if table is None:
            found = [move for move in self.moves(state) if move.probability > 0]
            table = keep(self._tables, state, (list(accumulate(move.probability for move in found)), found))
        return table

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


W = TypeVar("W", bound=Writer[Any])


@dataclass(frozen=True, slots=True)
class ScriptedPolicy(ABC, Generic[W]):
    """A policy with a writer a problem: it samples, and knows the exact value of every prefix. Its fields are rates."""

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            rate = getattr(self, name)
            if not 0 <= rate <= 1:
                raise ValueError(f"{type(self).__name__}.{name} must be a probability, not {rate}")

    @property
    def name(self) -> str:
        """The name that the policy is registered by, with its rates."""
        rates = ",".join(f"{each.name}={getattr(self, each.name):g}" for each in fields(self))
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


def has_likelihood(policy: object) -> bool:
    """Whether the chances of this policy's texts are known here."""
    return isinstance(policy, ScriptedPolicy)


def next_steps(policy: Any, prefix: Trajectory) -> dict[Words, float]:
    """The words of every step that may come after `prefix`, with their probability; they sum to 1, or nothing comes."""
    if not has_likelihood(policy):
        raise ValueError(f"the chances of what {getattr(policy, 'name', policy)} writes are not known")
    writer = policy.writer(prefix.problem)
    return dict(_table(writer, writer.state_after(prefix)))


def word_logprobs(steps: Mapping[Words, float], words: Words) -> tuple[float, ...] | None:
    """The log-probability of each word and of the end after them; `None` if no such step may come."""
    if words not in steps:
        return None
    said, mass, found = (*words, _END), math.fsum(steps.values()), []
    for i in range(1, len(said) + 1):
        rest = math.fsum(p for other, p in steps.items() if (*other, _END)[:i] == said[:i])
        found.append(min(0.0, math.log(rest / mass)))
        mass = rest
    return tuple(found)


def with_logprobs(policy: Any, trajectory: Trajectory, after: int = 0, memory: Memory | None = None) -> Trajectory:
    """The trace with log-probabilities at its steps from `after` on; a step that the policy never writes has none.

    `memory` holds what was found for the same problems before.
    """
    known: Memory = {} if memory is None else memory
    steps, texts = list(trajectory.steps), tuple(step.text for step in trajectory.steps)
    for k in range(after, len(steps)):
        at = trajectory.problem.id, texts[: k + 1]
        if at not in known:
            known[at] = word_logprobs(next_steps(policy, trajectory.prefix(k)), tuple(texts[k].split()))
        steps[k] = replace(steps[k], logprobs=known[at])
    return replace(trajectory, steps=tuple(steps))


@dataclass(frozen=True)
class WithLogprobs:
    """A scripted policy, or a store before one, whose completions have the log-probabilities of their words."""

    policy: Policy
    scripted: Any
    """The policy that knows them."""
    memory: Memory = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.policy.name

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        sampled = self.policy.sample(prefixes, n, params, first=first)
        return [[self._told(p, c) for c in row] for p, row in zip(prefixes, sampled, strict=True)]

    def _told(self, prefix: Trajectory, completion: Completion) -> Completion:
        whole = with_logprobs(self.scripted, prefix.extend(completion.steps), len(prefix.steps), self.memory)
        return replace(completion, steps=whole.steps[len(prefix.steps) :])


@lru_cache(maxsize=1 << 12)
def _table(writer: Any, state: Any) -> dict[Words, float]:
    found: defaultdict[Words, float] = defaultdict(float)
    for text, chance in writer.texts(state):
        if chance > 0:
            found[tuple(text.split())] += chance
    return dict(found)
