"""What the worlds with a free-text checker share: problems by seed in two splits, traces, grading, the class of steps."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import ClassVar, NamedTuple

from footfall.policy.protocol import Policy, SamplingParams
from footfall.types import Problem, Trajectory, content_key
from footfall.worlds.arithmetic import Split
from footfall.worlds.truth import StepTruth

__all__ = ["TEST_SHARE", "TRIES", "DrawnWorld", "GeneratedWorld", "Said", "worst"]

SEPARATOR = "\n"
TEST_SHARE = 8  # one program in so many belongs to the test split
TRIES = 2000  # drawn in a row without one new problem: the world is used up
_BATCH = 64


class Said(NamedTuple):
    """What a world makes of a step: its class, or `None` if it cannot be read, and why."""

    truth: StepTruth | None
    reason: str


def worst(found: list[Said]) -> Said:
    """A step is as bad as the worst thing it says; what could not be read leaves a step without error open."""
    for truth in (StepTruth.WRONG, None, StepTruth.CONSEQUENT, StepTruth.RIGHT):
        for said in found:
            if said.truth is truth:
                return said
    return Said(None, "the step says nothing that can be read")


class DrawnWorld(ABC):
    """Problems by seed in two splits, and traces of them."""

    __slots__ = ()

    @abstractmethod
    def _stream(self, seed: int, split: Split) -> Iterator[Problem]:
        """Different problems of a split, one after the other."""

    @abstractmethod
    def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trace with its answer and whether that is right."""

    def problems(self, n: int, seed: int = 0, split: Split = "train") -> list[Problem]:
        """`n` different problems; the first ones are the same whatever `n` is.

        The split is decided by a hash of what the problem means, not of its wording, so no problem of one split is
        ever seen in the other, for all seeds.
        """
        stream = self._stream(seed, split)
        return [next(stream) for _ in range(n)]

    def traces(
        self, policy: Policy, n: int, seed: int = 0, split: Split = "train"
    ) -> Iterator[tuple[Problem, Trajectory]]:
        """`n` problems, each with one finished and graded trace by `policy`."""
        stream = self._stream(seed, split)
        params = SamplingParams(seed=seed)
        author = policy.name
        for done in range(0, n, _BATCH):
            prefixes = [self.prefix(next(stream)) for _ in range(min(_BATCH, n - done))]
            for prefix, (completion,) in zip(prefixes, policy.sample(prefixes, 1, params), strict=True):
                yield prefix.problem, self.graded(completion.after(prefix, author))

    def prefix(self, problem: Problem) -> Trajectory:
        """The empty trace of a problem, one step a line."""
        return Trajectory(problem.id, problem, separator=SEPARATOR)


class GeneratedWorld(DrawnWorld):
    """Problems drawn from a seed and a checker that reads steps; a world supplies `_draw`, `_meaning` and `said`."""

    __slots__ = ()
    domain: ClassVar[str]

    @abstractmethod
    def _draw(self, rng: Random) -> Problem | None:
        """A random problem, or `None` for a draw that is not fit to be one."""

    @abstractmethod
    def _meaning(self, problem: Problem) -> str:
        """What decides the split: the problem without its wording."""

    @abstractmethod
    def said(self, trajectory: Trajectory) -> list[Said]:
        """The class of every step with the reason, `None` for a step that cannot be read."""

    @abstractmethod
    def answer(self, trajectory: Trajectory) -> str | None:
        """The answer that the trace states last, in the form of the reference answer."""

    def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trace with its answer read and compared with the reference."""
        answer = self.answer(trajectory)
        return replace(trajectory, answer=answer, correct=answer == trajectory.problem.answer)

    def check(self, trajectory: Trajectory) -> list[StepTruth | None]:
        """The class of every step; `None` for one that cannot be read (`reasons` says why)."""
        return [said.truth for said in self.said(trajectory)]

    def reasons(self, trajectory: Trajectory) -> list[str]:
        """Why each step has its class, or why it cannot be read."""
        return [said.reason for said in self.said(trajectory)]

    def first_error(self, trajectory: Trajectory) -> int | None:
        """0-based index of the first wrong step, -1 if there is none; `None` if an unreadable step comes first."""
        for i, truth in enumerate(self.check(trajectory)):
            if truth is None:
                return None
            if truth is StepTruth.WRONG:
                return i
        return -1

    def _stream(self, seed: int, split: Split) -> Iterator[Problem]:
        if split not in ("train", "test"):
            raise ValueError(f"no split is called {split!r}; there are 'train' and 'test'")
        rng = Random(int(content_key(self.domain, seed, split), 16))
        seen: set[str] = set()
        tries = 0
        while tries < TRIES:
            tries += 1
            problem = self._draw(rng)
            if problem is None or problem.id in seen or self._split_of(problem) != split:
                continue
            seen.add(problem.id)
            tries = 0
            yield problem
        raise ValueError(f"{self} has no more than about {len(seen)} {split} problems; allow larger or longer ones")

    def _split_of(self, problem: Problem) -> Split:
        digest = hashlib.sha256(self._meaning(problem).encode()).digest()
        return "test" if digest[0] % TEST_SHARE == 0 else "train"
