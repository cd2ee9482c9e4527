"""A completer whose every rollout is written down beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Problem, Step, Trajectory

PROBLEM = Problem("p1", "What is 3 + 4?", "7")

Outcome = str
"""`right`, `wrong`, `cut` (at max_tokens, though the right answer seems to stand there) or `error: why`."""


@dataclass
class Scripted:
    """`outcome(steps before, sample index)` says how a rollout ends. Remembers what it was asked for."""

    outcome: Callable[[int, int], Outcome]
    asked: list[tuple[str, int]] = field(default_factory=list)
    name: str = "scripted"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._complete(prefix, i) for i in range(first, first + n)] for prefix in prefixes]

    def _complete(self, prefix: Trajectory, index: int) -> Completion:
        self.asked.append((prefix.text, index))
        outcome = self.outcome(len(prefix.steps), index)
        cost = Cost(generated_tokens=4, calls=1)
        if outcome.startswith("error: "):
            return Completion((), "error", index, error=outcome.removeprefix("error: "), cost=cost)
        step = Step("The answer is 8." if outcome == "wrong" else "The answer is 7.")
        return Completion((step,), "length" if outcome == "cut" else "end", index, cost=cost)


def successes(*counts: int) -> Scripted:
    """After step k, the first `counts[k - 1]` rollouts are right and the rest wrong."""
    return Scripted(lambda k, index: "right" if index < counts[k - 1] else "wrong")


def trace(*texts: str, id: str = "t1", correct: bool | None = None) -> Trajectory:
    return Trajectory(id, PROBLEM, tuple(map(Step, texts)), correct=correct)


FOUR_STEPS = trace("First.", "Second.", "Third.", "The answer is 7.")
