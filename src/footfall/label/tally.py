"""What labelling by rollouts counts: right completions of a prefix, and the outcome of the trace itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from footfall.answers import grade
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Trajectory

__all__ = ["Tally", "drawn", "finished", "ready"]


@dataclass(slots=True)
class Tally:
    """The rollouts of one prefix so far. A failed call is no rollout."""

    successes: int = 0
    rollouts: int = 0
    unfinished: int = 0
    """Cut at max_tokens; they count as rollouts that did not succeed, for a cut "12" would read as the answer 1."""
    asked: int = 0
    failure: str | None = None
    cost: Cost = field(default_factory=Cost)

    def add(self, prefix: Trajectory, completions: Iterable[Completion], author: str) -> None:
        for completion in completions:
            self.asked += 1
            self.cost += completion.cost
            if completion.finish == "error":
                self.failure = completion.error
                continue
            self.rollouts += 1
            if completion.finish == "length":
                self.unfinished += 1
            else:
                self.successes += bool(grade(completion.after(prefix, author)).correct)

    @property
    def hopeless(self) -> bool:
        """Rolled out, and never to the right answer. Where every call failed, nobody can say."""
        return self.rollouts > 0 and self.successes == 0


def ready(trajectory: Trajectory) -> Trajectory:
    """The trace with its outcome; an error if its problem has no answer to compare rollouts with."""
    if trajectory.problem.answer is None:
        raise ValueError(f"problem {trajectory.problem.id!r} has no reference answer, so rollouts cannot be graded")
    return trajectory if trajectory.correct is not None else grade(trajectory)


def finished(trajectory: Trajectory) -> bool:
    """Whether the last step's value is the outcome, so that it needs no rollouts."""
    return bool(trajectory.steps) and (trajectory.answer is not None or bool(trajectory.correct))


def drawn(params: SamplingParams) -> str:
    """The sampling parameters of rollouts, for the name of a judge."""
    return (
        f"temperature={params.temperature},top_p={params.top_p},top_k={params.top_k},"
        f"max_tokens={params.max_tokens},seed={params.seed}"
    )
