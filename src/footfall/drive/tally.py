"""What labelling by rollouts counts: right completions of a prefix, and the outcome of the trace itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TypeVar, cast

from footfall.answers import grade
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Judge, Judgement, Problem, Reason, Trajectory, Unjudged

F = TypeVar("F", bound=Callable[..., list[Judgement]])


@dataclass(slots=True)
class Tally:
    """The rollouts of one prefix so far. A failed call is no rollout."""

    successes: int = 0
    rollouts: int = 0
    unfinished: int = 0
    """Cut at max_tokens; they did not succeed, for a cut "12" would read as the answer 1. If all were, nobody can say."""
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
    def silence(self) -> Unjudged | None:
        """Why the rollouts say nothing of the prefix: every call failed, or nothing was written to its end."""
        if self.rollouts == 0:
            failed = f"all {self.asked} rollouts failed: {self.failure}"
            return Unjudged(Reason.FAILED_CALL, failed) if self.asked else None
        if self.unfinished == self.rollouts:
            cut = f"all {self.rollouts} rollouts were cut before their end: raise max_tokens (--max-tokens)"
            return Unjudged(Reason.CUT, cut)
        return None

    @property
    def hopeless(self) -> bool:
        """Rolled out, and never to the right answer."""
        return self.rollouts > 0 and self.successes == 0 and self.silence is None


def counts(tallies: Sequence[Tally | None]) -> dict[str, tuple[float | None, ...]]:
    """The aspects that a judgement by rollouts has: what was counted at each step, `None` where nothing was asked.

    By them a summary knows what was cut, and whether rollouts said anything at all.
    """
    return {
        "successes": tuple(None if tally is None else float(tally.successes) for tally in tallies),
        "rollouts": tuple(None if tally is None else float(tally.rollouts) for tally in tallies),
        "unfinished": tuple(None if tally is None else float(tally.unfinished) for tally in tallies),
    }


def ungradable(problem: Problem) -> Unjudged | None:
    """Why rollouts of this problem cannot be graded; `None` if they can."""
    if problem.answer is None:
        words = f"problem {problem.id!r} has no reference answer, so rollouts cannot be graded"
        return Unjudged(Reason.NO_REFERENCE, words)
    return None


def graded(trajectory: Trajectory) -> Trajectory:
    """The trace with its outcome: the given one, or that of its answer."""
    return trajectory if trajectory.correct is not None else grade(trajectory)


def of_answered(judge: F) -> F:
    """For the `judge` of a method of rollouts: it gets graded traces, and those alone whose problem has an answer.

    All others stay unlabelled with the reason, and cost nothing.
    """

    @wraps(judge)
    def judge_answered(self: Judge, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        reasons = [ungradable(trajectory.problem) for trajectory in trajectories]
        rows = zip(trajectories, reasons, strict=True)
        said = iter(judge(self, [graded(trajectory) for trajectory, reason in rows if reason is None]))
        return [
            next(said) if reason is None else unlabelled(trajectory, self.name, reason)
            for trajectory, reason in zip(trajectories, reasons, strict=True)
        ]

    return cast(F, judge_answered)


def unlabelled(trajectory: Trajectory, judge: str, reason: Unjudged) -> Judgement:
    """A judgement without any value, for this reason."""
    n = len(trajectory.steps)
    return Judgement(trajectory.id, (None,) * n, judge, failures=(reason,) * n)


def finished(trajectory: Trajectory) -> bool:
    """Whether the last step's value is the outcome, so that it needs no rollouts."""
    return bool(trajectory.steps) and (trajectory.answer is not None or bool(trajectory.correct))


def drawn(params: SamplingParams) -> str:
    """The sampling parameters of rollouts, for the name of a judge."""
    return (
        f"temperature={params.temperature},top_p={params.top_p},top_k={params.top_k},"
        f"max_tokens={params.max_tokens},seed={params.seed}"
    )
