"""A scripted policy as one that writes word by word, as a language model does: greedy texts, and what else could have come.

A token is a word, with the space before it, or the end of a line:

    P(w | line so far) = Σ P(lines that go on with w) / Σ P(lines that begin so), by `footfall.worlds.scripted`
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from footfall.policy.protocol import Completion, SamplingParams, only_greedy
from footfall.segment.tokens import entropy_of
from footfall.types import Cost, Problem, Step, Trajectory, sampled_ids
from footfall.worlds.scripted import next_steps

_END = "\n"
Chance = tuple[float, str]


class WordThoughts(NamedTuple):
    """What the policy thought before each word."""

    entropy: tuple[float, ...]
    second: tuple[int, ...]
    """-1 where there was but one."""
    second_logprob: tuple[float, ...]


@dataclass(frozen=True)
class WordWriter:
    """The scripted policy of a world whose lines are words with one space between."""

    scripted: Any
    _words: list[str] = field(default_factory=list, repr=False, compare=False)
    _ids: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    _known: dict[tuple[str, tuple[int, ...]], list[Chance]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        return str(self.scripted.name)

    @property
    def vocabulary(self) -> str:
        return f"words of {self.name}"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The likeliest word after each word, to the end of the answer's line."""
        only_greedy(self.name, n, params)
        return [[self._finish(prefix.problem, sampled_ids(prefix.steps), params.max_tokens)] for prefix in prefixes]

    def thoughts(self, trajectories: Sequence[Trajectory]) -> list[WordThoughts]:
        return [self._thoughts(trace.problem, sampled_ids(trace.steps)) for trace in trajectories]

    def ends(self, token: int) -> bool:
        """A text ends by itself after its answer: there is no word for it."""
        return token < 0

    def text(self, ids: Sequence[int]) -> str:
        return "".join(self._words[i] for i in ids)

    def in_lines(self, trajectory: Trajectory) -> Trajectory:
        """One step a line; its ids hold the line's end."""
        steps = tuple(Step(self.text(line).removesuffix(_END), token_ids=line) for line in self._lines(trajectory))
        return replace(trajectory, steps=steps, separator=_END)

    def _lines(self, trajectory: Trajectory) -> Iterator[tuple[int, ...]]:
        ids, start = sampled_ids(trajectory.steps), 0
        for at, i in enumerate(ids, 1):
            if self._words[i] == _END or at == len(ids):
                yield ids[start:at]
                start = at

    def _finish(self, problem: Problem, begun: tuple[int, ...], max_tokens: int) -> Completion:
        ids, logprobs = list(begun), list[float]()
        while (chances := self.chances(problem, tuple(ids))) and len(logprobs) < max_tokens:
            chance, word = chances[0]
            ids.append(self._id(word))
            logprobs.append(math.log(chance))
        own = tuple(ids[len(begun) :])
        step = Step(self.text(own), token_ids=own, logprobs=tuple(logprobs))
        cost = Cost(generated_tokens=len(own), calls=1)
        return Completion((step,) if own else (), "length" if chances else "end", tokenizer=self.vocabulary, cost=cost)

    def _thoughts(self, problem: Problem, ids: tuple[int, ...]) -> WordThoughts:
        rows = [self.chances(problem, ids[:at]) for at in range(len(ids))]
        seconds = [row[1] if len(row) > 1 else None for row in rows]
        return WordThoughts(
            tuple(entropy_of(chance for chance, _ in row) for row in rows),
            tuple(-1 if second is None else self._id(second[1]) for second in seconds),
            tuple(-math.inf if second is None else math.log(second[0]) for second in seconds),
        )

    def chances(self, problem: Problem, ids: tuple[int, ...]) -> list[Chance]:
        """Every token that may come after these, likeliest first, in alphabetical order where it is a tie."""
        at = problem.id, ids
        if at not in self._known:
            self._known[at] = self._chances(problem, self.text(ids).split(_END))
        return self._known[at]

    def _chances(self, problem: Problem, lines: Sequence[str]) -> list[Chance]:
        prefix = Trajectory(problem.id, problem, tuple(map(Step, lines[:-1])), separator=_END)
        begun = tuple(lines[-1].split())
        found: defaultdict[str, float] = defaultdict(float)
        for words, chance in next_steps(self.scripted, prefix).items():
            if words[: len(begun)] == begun:
                word = (*words, _END)[len(begun)]
                found[word if word == _END or not begun else f" {word}"] += chance
        total = math.fsum(found.values())
        # Sums of equal chances differ in their last digits.
        ranked = sorted(found.items(), key=lambda item: (-round(item[1] / total, 9), item[0]))
        return [(min(1.0, chance / total), word) for word, chance in ranked]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]
