"""A policy that says what a script tells it to, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Message, Problem, Step, Trajectory

CUT = "<cut>"
"""A text that ends in this was cut at max_tokens."""
BROKEN = "<broken>"
"""A text that is this was never written."""


@dataclass
class Asked:
    """One prefix: its messages, and what was put in the model's mouth."""

    messages: tuple[Message, ...]
    opening: str

    @property
    def user(self) -> str:
        return self.messages[-1].content


@dataclass
class Scripted:
    """`write(asked, index)` gives the text of a sample, `choose(asked)` the log-probabilities of two options."""

    write: Callable[[Asked, int], str]
    choose: Callable[[Asked], tuple[float | None, float | None]] = lambda asked: (None, None)
    sampled: list[Asked] = field(default_factory=list)
    chosen: list[tuple[Asked, tuple[str, ...]]] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    params: list[SamplingParams] = field(default_factory=list)
    name: str = "scripted"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls.append(len(prefixes))
        self.params.append(params)
        self.sampled += [asked(p) for p in prefixes]
        return [[_completion(self.write(asked(p), i), i) for i in range(first, first + n)] for p in prefixes]

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        self.chosen += [(asked(p), tuple(options)) for p in prefixes]
        return [self.choose(asked(p)) for p in prefixes]


def asked(prefix: Trajectory) -> Asked:
    assert not isinstance(prefix.problem.prompt, str) and prefix.separator == ""
    return Asked(prefix.problem.prompt, prefix.text)


def _completion(text: str, index: int) -> Completion:
    cost = Cost(prompt_tokens=100, generated_tokens=10, calls=1)
    if text == BROKEN:
        return Completion((), "error", index, error="HTTP 500: out of memory", cost=Cost(calls=1))
    finish, text = ("length", text.removesuffix(CUT)) if text.endswith(CUT) else ("end", text)
    return Completion((Step(text),), "length" if finish == "length" else "end", index, cost=cost)


def trace(*steps: str, question: str = "What is 2 + 3 * 4?", id: str = "t") -> Trajectory:
    return Trajectory(id, Problem(f"p-{question}", question), tuple(map(Step, steps)))


THREE = trace("3 * 4 = 12.", "2 + 12 = 15.", "The answer is 15.")
