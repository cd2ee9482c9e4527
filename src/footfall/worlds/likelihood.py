"""What a scripted policy's words are worth to it: exact log-probabilities, word by word, as a language model gives them.

A script draws a move and then a wording, so the chance of every text that may come next is known. Read word by word,

    P(w_i | w_1 .. w_(i-1)) = Σ P(texts that begin with w_1 .. w_i) / Σ P(texts that begin with w_1 .. w_(i-1))

and the chance that the step ends after its words stands for the separator: as many numbers as the policy counts tokens.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Trajectory
from footfall.worlds.scripted import ScriptedPolicy

Words = tuple[str, ...]
Memory = dict[tuple[str, Words], tuple[float, ...] | None]
"""By problem and the texts up to a step."""
_END = "\n"
"""What follows the last word."""


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
