"""Courses: generators about traces, run in step; what they all want in a round is one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from footfall.drive import Course, Reread, Write, run_courses
from footfall.drive.rollouts import write
from footfall.label.edu_prm import EntropyTrees
from footfall.label.hrm_hnc import FullTrees
from footfall.label.pav import explore
from footfall.policy.protocol import Completion, Run, SamplingParams
from footfall.search import SelfCheck
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from footfall.worlds.word_writer import WordWriter

PROBLEMS = [Problem("p", "What is 3 + 4?", "7"), Problem("q", "What is 1 + 1?", "2")]
STARTS = [Trajectory(problem.id, problem) for problem in PROBLEMS]


class Thought(NamedTuple):
    entropy: tuple[float, ...]


@dataclass
class Noted:
    """Writes its sample's index as a step, takes runs, and notes every call."""

    calls: list[list[tuple[str, int, int]]] = field(default_factory=list)
    """Of each call, by run: the problem, the first sample and how many."""
    name: str = "noted"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        raise AssertionError("everything comes by runs, in one batch")

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        self.calls.append([(run.prefix.problem.id, run.first, run.n) for run in runs])
        return [
            [Completion((Step(f"{params.until} {i}"),), "step", i, cost=Cost(generated_tokens=2)) for i in run.indices]
            for run in runs
        ]

    def thoughts(self, trajectories: Sequence[Trajectory]) -> list[Thought]:
        self.calls.append([("thoughts", len(trajectories), 0)])
        return [Thought((0.0,) * len(t.steps)) for t in trajectories]


def test_courses_go_in_step_and_each_has_its_own_indices_and_cost() -> None:
    policy = Noted()

    def course(start: Trajectory) -> Course[list[str]]:
        (first,) = yield Write([start], 2)
        (second,) = yield Write([start], 1)
        (chosen,) = yield Write([start], 1, first=[40])
        (thought,) = yield Reread([start.extend(first[0].steps)])
        assert len(thought.entropy) == 1
        return [completion.steps[0].text for completion in (*first, *second, *chosen)]

    done = run_courses([course(start) for start in STARTS], policy, SamplingParams())
    assert [each.result for each in done] == [["step 0", "step 1", "step 2", "step 40"]] * 2
    assert [each.cost for each in done] == [Cost(prompt_tokens=1, generated_tokens=8)] * 2
    assert policy.calls == [
        [("p", 0, 2), ("q", 0, 2)], [("p", 2, 1), ("q", 2, 1)], [("p", 40, 1), ("q", 40, 1)], [("thoughts", 2, 0)],
    ]  # fmt: skip


def test_texts_for_judges_are_those_that_the_policy_samples() -> None:
    policy, params = ArithmeticPolicy(), SamplingParams(seed=3)
    prefixes = [ArithmeticWorld().prefix(problem) for problem in ArithmeticWorld().problems(3)]
    prefixes += prefixes[:1]
    assert write(policy, prefixes, 3, params, first=7) == policy.sample(prefixes, 3, params, first=7)
    assert write(policy, [], 3, params) == []


def test_full_trees_of_all_problems_grow_in_one_call_a_level() -> None:
    policy = Noted()
    FullTrees(policy, branch=2, depth=2).grow(PROBLEMS)
    assert policy.calls == [[("p", 0, 2), ("q", 0, 2)], [("p", 0, 2), ("p", 0, 2), ("q", 0, 2), ("q", 0, 2)]]


def test_explored_traces_and_self_checks_are_batched_by_the_driver() -> None:
    policy = Noted()
    with pytest.raises(RecursionError):
        explore(policy, STARTS, _until_two_steps, width=3)
    assert policy.calls == [[("p", 0, 3), ("q", 0, 3)]] * 3
    policy.calls.clear()
    SelfCheck(policy, votes=2).judge([start.extend([Step("a"), Step("b")]) for start in STARTS])
    ((first, *_),) = policy.calls
    assert len(policy.calls[0]) == 4 and first == ("p", 1_000_000, 2)


def _until_two_steps(before: Trajectory, after: Trajectory) -> float:
    if len(after.steps) > 2:
        raise RecursionError
    return 0.0


def test_entropy_trees_write_and_reread_all_problems_in_step() -> None:
    world = ArithmeticWorld()
    writer, calls = WordWriter(ArithmeticPolicy()), list[tuple[str, int]]()

    class Counted(WordWriter):
        def sample(
            self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
        ) -> list[list[Completion]]:
            calls.append(("write", len(prefixes)))
            return super().sample(prefixes, n, params, first)

    problems = world.problems(2)
    grown = EntropyTrees(Counted(writer.scripted), 3).grow(problems)
    alone = [EntropyTrees(writer, 3).grow([problem])[0] for problem in problems]
    assert [[t.text for t in each.solutions] for each in grown] == [[t.text for t in each.solutions] for each in alone]
    assert [each.cost for each in grown] == [each.cost for each in alone]
    assert calls == [("write", 2)] * 3
    with pytest.raises(ValueError, match="writes greedily"):
        writer.sample([world.prefix(problems[0])], 2, SamplingParams(0.0))
