"""What every world is: problems by seed in two splits, traces of a policy, grading, the class of each step."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice
from random import Random
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from footfall.formats.ids import Once
from footfall.policy.protocol import Policy, SamplingParams
from footfall.types import Problem, Step, Trajectory, content_key

T = TypeVar("T")
S = TypeVar("S")
W = TypeVar("W", bound="World")
Split = Literal["train", "test"]
Tier = Literal["default", "hard"]

SEPARATOR = "\n"
TEST_SHARE = 8  # one problem in so many belongs to the test split
TRIES = 2000  # drawn in a row without one new problem: the world is used up
_BATCH = 64


class StepTruth(str, Enum):
    """The class of one step, given the steps before it."""

    RIGHT = "right"
    """True, and the trace is on the true path after it."""
    WRONG = "wrong"
    """An error is made here, or the step does no work."""
    CONSEQUENT = "consequent"
    """Right in itself, but built on an earlier error."""


class Said(NamedTuple):
    """What a world makes of a step: its class, or `None` if it cannot be read, and why."""

    truth: StepTruth | None
    reason: str


class UnreadableError(Exception):
    """A text cannot be read; the message is the reason."""


class World(ABC):
    """Problems drawn from a seed, traces of them, and a checker; a world supplies `draw`, `answer` and `check`."""

    __slots__ = ()
    domain: ClassVar[str]
    remedy: ClassVar[str] = "allow larger or longer ones"
    """What to do when a world has no more problems."""
    hard: ClassVar[Mapping[str, Any]] = {}
    """What the harder tier sets: longer chains, larger numbers, deeper formulas."""

    @classmethod
    def at(cls: type[W], tier: Tier = "default", **options: Any) -> W:
        """The world at a tier, with other parameters on top."""
        tiers = ("default", "hard") if cls.hard else ("default",)
        if tier not in tiers:
            raise ValueError(f"{cls.__name__} has no tier called {tier!r}; there is {' and '.join(map(repr, tiers))}")
        return cls(**{**(cls.hard if tier == "hard" else {}), **options})

    @abstractmethod
    def draw(self, rng: Random, split: Split) -> Problem | None:
        """A random problem, or `None` for a draw that is not fit to be one or belongs to the other split."""

    @abstractmethod
    def answer(self, trajectory: Trajectory) -> str | None:
        """The answer that the trace states last, in the form of the reference answer."""

    @abstractmethod
    def check(self, trajectory: Trajectory) -> Sequence[StepTruth | None]:
        """The class of every step; `None` for one that cannot be read."""

    def problems(self, n: int, seed: int = 0, split: Split = "train") -> list[Problem]:
        """`n` different problems; the first ones are the same whatever `n` is.

        The split is decided by a hash of what the problem means, not of its wording, so no problem of one split is
        ever seen in the other, for all seeds.
        """
        return list(self.iter_problems(n, seed, split))

    def iter_problems(self, n: int, seed: int = 0, split: Split = "train") -> Iterator[Problem]:
        """The same one by one, for who does not hold them all."""
        return islice(self._stream(seed, split), n)

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

    def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trace with its answer read and compared with the reference."""
        answer = self.answer(trajectory)
        return replace(trajectory, answer=answer, correct=answer == trajectory.problem.answer)

    def _stream(self, seed: int, split: Split) -> Iterator[Problem]:
        """Different problems of a split, one after the other."""
        if split not in ("train", "test"):
            raise ValueError(f"no split is called {split!r}; there are 'train' and 'test'")
        rng = Random(int(content_key(self.domain, seed, split), 16))
        seen = Once()
        found = tries = 0
        while tries < TRIES:
            tries += 1
            problem = self.draw(rng, split)
            if problem is not None and problem.id not in seen:
                seen.put(problem.id, 0)
                found, tries = found + 1, 0
                yield problem
        raise ValueError(f"{self} has no more than about {found} {split} problems; {self.remedy}")


class ExplainedWorld(World):
    """A world that gives a reason for the class of each step, and may leave a step open; it supplies `said`."""

    __slots__ = ()

    @abstractmethod
    def said(self, trajectory: Trajectory) -> list[Said]:
        """The class of every step with the reason, `None` for a step that cannot be read."""

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


def first_wrong(truths: Sequence[StepTruth]) -> int:
    """0-based index of the first error, -1 if there is none."""
    return next((i for i, truth in enumerate(truths) if truth is StepTruth.WRONG), -1)


def worst(found: list[Said]) -> Said:
    """A step is as bad as the worst thing it says; what could not be read leaves a step without error open."""
    for truth in (StepTruth.WRONG, None, StepTruth.CONSEQUENT, StepTruth.RIGHT):
        for said in found:
            if said.truth is truth:
                return said
    return Said(None, "the step says nothing that can be read")


LONGEST_STEP = 1_000


def read_steps(read: Callable[[S, str], tuple[T, S]], state: S, steps: Sequence[Step]) -> tuple[list[T], S]:
    """What `read` makes of each step in the state that the steps before it left, and the state after the last one.

    A step of more than `LONGEST_STEP` characters is read as an empty one: no world writes such, and rules that read prose
    may take more than linear time.
    """
    found = []
    for step in steps:
        said, state = read(state, step.text if len(step.text) <= LONGEST_STEP else "")
        found.append(said)
    return found, state


def pick(rng: Random, choices: Sequence[T]) -> T:
    """One of `choices`, evenly; several times as fast as `Random.choice`, which matters for millions of traces."""
    return choices[int(rng.random() * len(choices))]


def split_of(meaning: str) -> Split:
    """The split of a problem by what it means, its wording aside."""
    return "test" if hashlib.sha256(meaning.encode()).digest()[0] % TEST_SHARE == 0 else "train"


def problem_id(domain: str, content: str) -> str:
    """The id of a problem: its world, and a hash of its text and meaning."""
    return f"{domain}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def require(world: World, rules: Mapping[str, bool]) -> None:
    """Refuse the parameters of a world that break a rule, by the rule's words."""
    for rule, holds in rules.items():
        if not holds:
            raise ValueError(f"{type(world).__name__} needs {rule}; got {world}")


def require_meta(problem: Problem, domain: str, *names: str) -> None:
    """Refuse a problem whose `meta` lacks what the world of this domain leaves there."""
    missing = [name for name in names if name not in problem.meta]
    if missing:
        raise ValueError(
            f"problem {problem.id!r} is not of the {domain} world: meta has no {missing[0]!r}; "
            f"make problems with {domain.capitalize()}World().problems(n, seed)"
        )
