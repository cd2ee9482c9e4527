"""Courses: generators about traces that no tree holds and no budget limits, each for one trace or problem.

A course yields requests (`footfall.drive.requests`) and is sent what came of them,

    (row,) = yield Write([prefix], 8)

`run_courses` runs many side by side, in step: what all of them want in a round is one batch, and a call that fails is an error.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from footfall.drive.budget import Account, Budget
from footfall.drive.driver import Driver
from footfall.drive.requests import Request, Task, Write
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Cost, Trajectory

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
