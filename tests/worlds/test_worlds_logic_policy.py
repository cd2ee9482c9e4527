"""The scripted reasoner: what it writes, and that its values are exact."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.protocol import Policy
from footfall.registry import create
from footfall.types import Step, Trajectory
from footfall.worlds import LogicPolicy, LogicWorld, StepTruth
from footfall.worlds.logic.reading import State, read_step

WORLD = LogicWorld(max_depth=4, max_distractors=3)
POLICY = LogicPolicy()
FAULTLESS = LogicPolicy(0, 0, 0, 0)
CLUMSY = LogicPolicy(wrong_rule=0.3, flip=0.3, skip=0.2, recover=0.4)


def sigmas(hits: int, n: int, p: float) -> float:
    return abs(hits - n * p) / math.sqrt(max(n * p * (1 - p), 1e-9))


def test_it_is_a_policy_and_a_named_part() -> None:
    policy: Policy = create("policy", "scripted-logic", flip=0.5)
    assert policy == LogicPolicy(flip=0.5) and "flip=0.5" in policy.name
    with pytest.raises(ValueError, match=r"LogicPolicy\.recover"):
        LogicPolicy(recover=-0.1)


@pytest.mark.long
def test_without_error_rates_every_step_is_right() -> None:
    for _, trajectory in WORLD.traces(FAULTLESS, 40, seed=1):
        assert set(WORLD.check(trajectory)) == {StepTruth.RIGHT} and trajectory.correct
        assert FAULTLESS.value(trajectory.prefix(0)) == 1


@pytest.mark.long
@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_the_checker_finds_the_first_error_and_stands_where_the_script_stands(seed: int) -> None:
    problem = WORLD.problems(1, seed)[0]
    writer = CLUMSY.writer(problem)
    state, rng, steps = State(), Random(seed), list[Step]()
    errors: list[int] = []
    while state.answer is None:
        move = writer.draw(state, rng)
        if move.kind in ("wrong-rule", "flip"):
            errors.append(len(steps))
        for text in move.wordings:
            assert read_step(writer.theory, writer.question, state, text)[1] == move.after
        steps.append(Step(rng.choice(move.wordings)))
        state = move.after
    trajectory = Trajectory("t", problem, tuple(steps), separator="\n")
    assert WORLD.first_error(trajectory) == (errors[0] if errors else -1)
    assert None not in WORLD.check(trajectory)
    assert all(WORLD.check(trajectory)[i] is StepTruth.WRONG for i in errors)


@pytest.mark.long
def test_default_difficulty_is_as_documented() -> None:
    world = LogicWorld()
    values = [POLICY.value(world.prefix(problem)) for problem in world.problems(25, seed=7, split="test")]
    assert 0.6 < sum(values) / len(values) < 0.8
    assert min(values) < 0.55 and max(values) > 0.9
