"""Rollouts: completions of a prefix to its end, what they show of its value, and plans that decide by them what to ask next.

A method whose next rollouts depend on what the last ones showed (binary search, tree search) is written for one trace, as a
generator: it yields the prefixes that it wants rolled out and is sent their estimates,

    (estimate,) = yield [Probe(prefix, 8)]

`run_plans` runs many such plans side by side. A `RolloutCache` remembers every rollout: a prefix met twice, by whichever plan,
is completed once, asking for more rollouts of it adds only those it lacks, and who asks first pays.

Both are courses: generators about traces that no tree holds and no budget limits, each for one trace or problem, that yield
requests (`footfall.drive.requests`) and are sent what came of them, `(row,) = yield Write([prefix], 8)`. `run_courses` runs
many side by side, in step: what all of them want in a round is one batch, and a call that fails is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from footfall.answers import grade
from footfall.drive.budget import Account, Budget
from footfall.drive.driver import Driver
from footfall.drive.requests import Request, Task, Unit, Write
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Cost, Judge, Judgement, Problem, Reason, Trajectory, Unjudged, content_key, problem_rest

R = TypeVar("R")
Course: TypeAlias = Generator[Request, Any, R]


class CourseTask(Task[R]):
    """One course while it runs."""

    result: R

    def __init__(self, course: Generator[Any, Any, R]) -> None:
        super().__init__(course, Account(Budget()))

    def _end(self, result: R) -> None:
        self.result = result


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """What a course returned, and what was written for it cost."""

    result: R
    cost: Cost


def run_tasks(tasks: Sequence[CourseTask[R]], policies: Mapping[str, Policy], params: SamplingParams) -> list[Done[R]]:
    """Run all tasks to their end, round by round."""
    Driver(policies, params=params, apart=False, timed=True).run(tasks)
    return [Done(task.result, task.account.policy) for task in tasks]


def run_courses(courses: Sequence[Course[R]], policy: Policy, params: SamplingParams) -> list[Done[R]]:
    """Run all courses to their end; what they want written, this policy writes."""
    return run_tasks([CourseTask(course) for course in courses], {"policy": policy}, params)


def write(
    policy: Policy, prefixes: Sequence[Trajectory], n: int, params: SamplingParams, first: int = 0
) -> list[list[Completion]]:
    """`n` completions of each prefix, as `Policy.sample` gives them, from sample `first` on."""

    def course(prefix: Trajectory) -> Course[list[Completion]]:
        (row,) = yield Write([prefix], n, params.until, first=[first])
        return list(row)

    return [done.result for done in run_courses([course(prefix) for prefix in prefixes], policy, params)]


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
        """Grade completions and count them in."""
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


class Probe(NamedTuple):
    """A wish: so many rollouts of a prefix, in all."""

    prefix: Trajectory
    rollouts: int


class Rollout(NamedTuple):
    """A completion that is no failed call, and whether it reached the reference answer."""

    completion: Completion
    correct: bool


@dataclass(slots=True)
class Estimate:
    """What the rollouts of one prefix showed. `rollouts` are in the order of their sample indices."""

    prefix: Trajectory
    tally: Tally = field(default_factory=Tally)
    rollouts: list[Rollout] = field(default_factory=list)

    @property
    def value(self) -> float | None:
        """MC = correct / rollouts; `None` if the rollouts say nothing."""
        tally = self.tally
        return tally.successes / tally.rollouts if tally.rollouts and tally.silence is None else None

    @property
    def failure(self) -> Unjudged | None:
        """Why there is no value."""
        return self.tally.silence

    def add(self, completion: Completion, author: str) -> None:
        """Count a completion in."""
        successes = self.tally.successes
        self.tally.add(self.prefix, [completion], author)
        if completion.finish != "error":
            self.rollouts.append(Rollout(completion, self.tally.successes > successes))


Plan: TypeAlias = Generator[Sequence[Probe], Sequence[Estimate], R]
"""One trace's or problem's course: yields probes, is sent their estimates in the same order, returns a result."""


class RolloutCache:
    """The rollouts of prefixes by one policy, and what came of them."""

    def __init__(self, policy: Policy, params: SamplingParams = SamplingParams()) -> None:
        if params.until != "end":
            raise ValueError("a rollout goes on to the answer: the sampling parameters need until='end'")
        self.policy, self.params = policy, params
        self.known: dict[str, Estimate] = {}
        self.wanted: dict[str, _Wanted] = {}
        """By prefix, until it is there: who asked first, and how many rollouts there shall be."""


class _Wanted(NamedTuple):
    task: _PlanTask[Any]
    rollouts: int


class _PlanTask(CourseTask[R]):
    """One plan while it runs. All plans go in step, one request a round, so that the first in order is the first to ask."""

    def __init__(self, plan: Plan[R], cache: RolloutCache) -> None:
        super().__init__(plan)
        self.cache, self.keys = cache, list[str]()

    def begin(self) -> None:
        self._step(None)

    def advance(self) -> None:
        self._step(self.replies)

    def _take(self, request: Sequence[Probe]) -> None:
        cache, self.keys = self.cache, [_outcomes_key(probe.prefix) for probe in request]
        for key, probe in zip(self.keys, request, strict=True):
            cache.known.setdefault(key, Estimate(probe.prefix))
            task, rollouts = cache.wanted.get(key, (self, 0))
            cache.wanted[key] = _Wanted(task, max(rollouts, probe.rollouts))
        self.replies = [cache.known[key] for key in self.keys]
        self.request = Write([estimate.prefix for estimate in self.replies], until="end")

    @property
    def scope(self) -> int:
        return id(self.cache)

    def aim(self) -> int:
        """What the prefixes lack, for which it was the first to ask."""
        self.until, self.todo = "end", []
        for slot, (key, estimate) in enumerate(zip(self.keys, self.replies, strict=True)):
            wanted = self.cache.wanted.get(key)
            if wanted is not None and wanted.task is self:
                lacking = range(estimate.tally.asked, wanted.rollouts)
                self.todo += [Unit(slot, estimate.prefix, sample, key) for sample in lacking]
                del self.cache.wanted[key]
        return len(self.todo)

    def receive(self, unit: Unit, completion: Completion, author: str) -> None:
        self.cache.known[unit.key].add(completion, author)


def _outcomes_key(prefix: Trajectory) -> str:
    """Names the rollouts of a prefix and what came of them: problems with one id and text may have other answers or tests."""
    return content_key(prefix.key, prefix.problem.answer, problem_rest(prefix.problem))


def run_plans(plans: Sequence[Plan[R]], cache: RolloutCache) -> list[Done[R]]:
    """Run all plans to their end, round by round; the probes of one round are one batch. Who asked first for a rollout pays."""
    tasks = [_PlanTask(plan, cache) for plan in plans]
    cache.wanted.clear()
    return run_tasks(tasks, {"policy": cache.policy}, cache.params)


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
