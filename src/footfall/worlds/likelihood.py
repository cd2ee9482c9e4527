"""What a scripted policy's words are worth to it: exact log-probabilities, word by word, as a language model gives them.

A script draws a move and then a wording, so the chance of every text that may come next is known. Read word by word,

    P(w_i | w_1 .. w_(i-1)) = Σ P(texts that begin with w_1 .. w_i) / Σ P(texts that begin with w_1 .. w_(i-1))

and the chance that the step ends after its words stands for the separator: as many numbers as the policy counts tokens.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Problem, Trajectory
from footfall.worlds import _arithmetic_moves, _arithmetic_writer, _code_reading, _code_writer, _scripted
from footfall.worlds._arithmetic_text import ANSWER
from footfall.worlds.arithmetic_policy import ArithmeticPolicy

__all__ = ["WithLogprobs", "has_likelihood", "next_steps", "with_logprobs", "word_logprobs"]

Words = tuple[str, ...]
Memory = dict[tuple[str, Words], tuple[float, ...] | None]
"""By problem and the texts up to a step."""
_END = "\n"
"""What follows the last word."""


def has_likelihood(policy: object) -> bool:
    """Whether the chances of this policy's texts are known here."""
    return isinstance(policy, ArithmeticPolicy | _scripted.ScriptedPolicy)


def next_steps(policy: Any, prefix: Trajectory) -> dict[Words, float]:
    """The words of every step that may come after `prefix`, with their probability; they sum to 1, or nothing comes."""
    writer = _writer(policy, prefix.problem)
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


def _writer(policy: Any, problem: Problem) -> Any:
    if isinstance(policy, ArithmeticPolicy):
        return _arithmetic_writer.writer_of(policy.script, problem)
    if isinstance(policy, _scripted.ScriptedPolicy):
        return policy.writer(problem)
    raise ValueError(f"the chances of what {getattr(policy, 'name', policy)} writes are not known")


@lru_cache(maxsize=1 << 12)
def _table(writer: Any, state: Any) -> dict[Words, float]:
    found: defaultdict[Words, float] = defaultdict(float)
    for text, chance in _texts(writer, state):
        if chance > 0:
            found[tuple(text.split())] += chance
    return dict(found)


def _texts(writer: Any, state: Any) -> Iterator[tuple[str, float]]:
    """Every text that may come next, one wording at a time."""
    if isinstance(writer, _arithmetic_writer.Writer):
        yield from _arithmetic_texts(writer, state)
    elif isinstance(writer, _code_writer.Writer):
        lines = [(move.text, move.probability) for move in writer.moves(state)]
        answered = state.answer is not None
        yield from lines or ([] if answered else [(_code_reading.ANSWER % _answer(writer, state), 1.0)])
    elif writer.script.answer(state) is None:
        for move in writer._table(state)[1]:  # which it keeps
            yield from ((wording, move.probability / len(move.wordings)) for wording in move.wordings)


def _answer(writer: _code_writer.Writer, state: _code_reading.State) -> str:
    return _code_reading.answer_text(writer.task, state)


def _arithmetic_texts(writer: _arithmetic_writer.Writer, state: Any) -> Iterator[tuple[str, float]]:
    if state.answer is not None:
        return
    left = 1.0
    for move in _arithmetic_moves.moves(writer.script, writer.program, state.due, state.value):
        left -= move.probability
        said = writer._sentences
        forms = said.again if move.kind == "recover" else (said.later if state.due else said.first)[move.symbol]
        equation = f"{move.left} {move.symbol} {move.right} = {move.result}"
        for form in forms:
            yield form % equation, move.probability / len(forms)
    if state.due == len(writer.program.ops):
        yield ANSWER % state.value, left
