"""The strategy of a solution: which operations it is, and what following it is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from footfall.lab.shared.flaws import CAREFUL
from footfall.lab.shared.strategies import Followed, strategy
from footfall.types import Json, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, OpRates

META: dict[str, Json] = {"start": 6, "ops": [["*", 4], ["-", 5]], "tricky": [False, False]}
PROBLEM = Problem("p", "Six, four times as many, five less?", "19", "arithmetic", meta=META)


def solution(*steps: str, name: str = "t", correct: bool = False) -> Trajectory:
    return Trajectory(name, PROBLEM, tuple(map(Step, steps)), correct=correct)


def operations(trace: Trajectory) -> list[tuple[str, int]]:
    return [(line.symbol, line.right) for line in strategy(trace)]


def test_a_strategy_is_the_operations_without_their_results() -> None:
    right = solution("First, 6 * 4 = 24.", "Then 24 - 5 = 19.", "The answer is 19.")
    slipped = solution("First, 6 * 4 = 25.", "Then 25 - 5 = 20.", "The answer is 20.")
    assert operations(right) == operations(slipped) == [("*", 4), ("-", 5)]
    assert operations(solution("I do not know.")) == []


def test_what_is_done_again_takes_the_place_of_what_came_after() -> None:
    redone = solution("First, 6 + 4 = 10.", "Wait, it should be 6 * 4 = 24.", "Then 24 - 5 = 19.")
    assert operations(redone) == [("*", 4), ("-", 5)]
    jumped = solution("First, 6 * 4 = 24.", "Then 30 - 5 = 25.")
    assert operations(jumped) == [("*", 4), ("-", 5)], "who copied a number wrongly still says what to do"


def test_a_strategy_is_worth_what_following_it_gives_and_not_the_outcome_of_the_trace() -> None:
    slipped = solution("First, 6 * 4 = 25.", "Then 25 - 5 = 20.", "The answer is 20.", name="slipped", correct=False)
    misread = solution("First, 6 + 4 = 10.", "Then 10 - 5 = 5.", "The answer is 5.", name="misread", correct=False)
    lucky = solution("First, 6 + 4 = 24.", "Then 24 - 5 = 19.", "The answer is 19.", name="lucky", correct=True)
    silent = solution("I do not know.", name="silent")
    found = Followed(CAREFUL).judge([slipped, misread, lucky, silent])
    assert [j.value for j in found] == [1.0, 0.0, 0.0, 0.0]
    assert [set(j.values) for j in found] == [{None}] * 4
    assert found[0].cost.generated_tokens > 0 == found[3].cost.generated_tokens


def test_who_follows_slips_as_often_as_otherwise() -> None:
    half = ArithmeticPolicy(OpRates(0, 0.5, 0, 0), OpRates(0, 0, 0, 0), OpRates(1, 1, 1, 1), recover=0.0)
    slipped = solution("First, 6 * 4 = 25.", "Then 25 - 5 = 20.")
    (said,) = Followed(half, solutions=400).judge([slipped])
    assert said.value == pytest.approx(0.5, abs=0.08)


def test_the_outcome_of_the_trace_changes_nothing() -> None:
    traces = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 20)]
    turned = [replace(trace, correct=not trace.correct, answer="0") for trace in traces]
    judge = Followed(ArithmeticPolicy())
    found = [j.value for j in judge.judge(traces)]
    assert [j.value for j in judge.judge(turned)] == found and len(set(found)) > 1
    assert found != [float(bool(trace.correct)) for trace in traces]
