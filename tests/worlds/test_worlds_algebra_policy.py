"""The scripted solver of equations: what it writes, and that its values are exact."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.protocol import Policy
from footfall.registry import create
from footfall.types import Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, StepTruth
from footfall.worlds.algebra.reading import State, read_step
from footfall.worlds.algebra.world import Work

WORLD = AlgebraWorld()
POLICY = AlgebraPolicy()
FAULTLESS = AlgebraPolicy(0, 0, 0, 0, 0, 0, 0)
CLUMSY = AlgebraPolicy(0.3, 0.15, 0.15, 0.15, 0.2, 0.2, 0.3)


def sigmas(hits: int, n: int, p: float) -> float:
    return abs(hits - n * p) / math.sqrt(max(n * p * (1 - p), 1e-9))


def test_it_is_a_policy_and_a_named_part() -> None:
    policy: Policy = create("policy", "scripted-algebra", sign=0.5)
    assert policy == AlgebraPolicy(sign=0.5) and "sign=0.5" in policy.name
    with pytest.raises(ValueError, match=r"AlgebraPolicy\.recover"):
        AlgebraPolicy(recover=-0.1)


@pytest.mark.long
def test_without_error_rates_every_step_is_right() -> None:
    for _, trajectory in WORLD.traces(FAULTLESS, 40, seed=1):
        assert set(WORLD.check(trajectory)) == {StepTruth.RIGHT} and trajectory.correct
        assert FAULTLESS.value(trajectory.prefix(0)) == 1


@pytest.mark.long
@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_the_checker_finds_the_first_error_and_stands_where_the_script_stands(seed: int) -> None:
    problem = WORLD.problems(1, seed)[0]
    writer = CLUMSY.writer(problem)
    read, state, rng = State(), Work(), Random(seed)
    steps: list[Step] = []
    errors: list[int] = []
    while state.answer is None:
        move = writer.draw(state, rng)
        if move.kind not in ("right", "skip", "recover", "answer"):
            errors.append(len(steps))
        for text in move.wordings:
            assert writer.work(read_step(writer.problem, read, text)[1]) == move.after, text
        steps.append(Step(rng.choice(move.wordings)))
        read = read_step(writer.problem, read, steps[-1].text)[1]
        state = move.after
    trajectory = Trajectory("t", problem, tuple(steps), separator="\n")
    assert WORLD.first_error(trajectory) == (errors[0] if errors else -1)
    assert None not in WORLD.check(trajectory)
    assert all(WORLD.check(trajectory)[i] is StepTruth.WRONG for i in errors)


@pytest.mark.long
def test_default_difficulty_is_as_documented() -> None:
    values: dict[str, list[float]] = {}
    for problem in WORLD.problems(40, seed=7, split="test"):
        values.setdefault(str(problem.meta["kind"]), []).append(POLICY.value(WORLD.prefix(problem)))
    means = {kind: sum(found) / len(found) for kind, found in values.items()}
    assert means["system"] < means["linear"] < means["quadratic"]
    assert means["system"] > 0.45 and means["quadratic"] < 0.8


@pytest.mark.long
def test_it_makes_every_kind_of_error_it_names() -> None:
    kinds: set[str] = set()
    rng = Random(0)
    for problem in WORLD.problems(60, seed=1):
        writer, state = CLUMSY.writer(problem), Work()
        while state.answer is None:
            move = writer.draw(state, rng)
            kinds.add(move.kind)
            state = move.after
    assert kinds == {"right", "misread", "sign", "slip", "division", "lost-root", "skip", "recover", "answer"}
