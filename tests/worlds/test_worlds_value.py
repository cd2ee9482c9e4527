"""The exact value of a prefix: by hand, against plain recursion, and against 100,000 simulated completions."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.registry import create
from footfall.types import Json, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge, OpRates, TruthJudge
from footfall.worlds.arithmetic.policy import ArithmeticWriter
from footfall.worlds.arithmetic.problem import program_of
from footfall.worlds.arithmetic.world import State, start_of

WORLD = ArithmeticWorld()
POLICY = ArithmeticPolicy()
CLUMSY = ArithmeticPolicy(OpRates(0.2, 0.3, 0.4, 0.3), OpRates(0.2, 0.1, 0.3, 0.1), recover=0.3)

# 14 -> 37 -> 32 -> 96 -> 24; the second clause is tricky
OPS: list[Json] = [["+", 23], ["-", 5], ["*", 3], ["/", 4]]
PROBLEM = Problem("p", "…", "24", meta={"start": 14, "ops": OPS, "tricky": [False, True, False, False]})

PREFIXES = {
    "empty": [],
    "right": ["First, 14 + 23 = 37.", "Then 37 - 5 = 32."],
    "a slip": ["First, 14 + 23 = 38."],
    "a misreading": ["First, 14 + 23 = 37.", "Then 37 + 5 = 42."],
    "recovered": ["First, 14 + 23 = 38.", "Wait, it should be 14 + 23 = 37."],
    "garbage": ["Let me see.", "14 + 23 = 37", "= = =", "37 - 7 = 30"],
    "an operation skipped": ["14 + 23 = 37", "37 * 3 = 111"],
    "wrong at the end": ["14 + 23 = 37", "37 - 5 = 32", "32 * 3 = 96", "96 / 4 = 25"],
}


def prefix_of(name: str) -> Trajectory:
    return WORLD.prefix(PROBLEM).extend([Step(line) for line in PREFIXES[name]])


def simulate(writer: ArithmeticWriter, state: State, n: int, seed: int) -> int:
    """How many of `n` completions end right, by the policy's own draws but without their wording."""
    rng = Random(seed)
    final = writer.program.truth[-1]
    hits = 0
    for _ in range(n):
        at = state
        while at.answer is None:
            at = writer.draw(at, rng).after
        hits += at.answer == final
    return hits


def sigmas(hits: int, n: int, p: float) -> float:
    return abs(hits - n * p) / math.sqrt(max(n * p * (1 - p), 1e-9))


def test_the_value_by_hand() -> None:
    policy = ArithmeticPolicy(OpRates(0.1, 0, 0, 0), OpRates(0.2, 0, 0, 0), OpRates(0.6, 0, 0, 0), recover=0.25)
    problem = Problem("q", "…", "15", meta={"start": 10, "ops": [["+", 5]], "tricky": [False]})
    empty = WORLD.prefix(problem)
    # Right at once: not misread (.8), no slip (.9); otherwise one chance to redo it before the answer.
    assert policy.value(empty) == pytest.approx(0.72 + 0.28 * 0.25)
    assert policy.value_of_state(problem, 1, 16) == pytest.approx(0.25)
    tricky = Problem("r", "…", "15", meta={"start": 10, "ops": [["+", 5]], "tricky": [True]})
    assert policy.value(WORLD.prefix(tricky)) == pytest.approx(0.36 + 0.64 * 0.25)
    # 5 by misreading, 14, 16 and 25 by a slip (5 again: 15 - 10), the rest right.
    assert policy.answers(empty) == pytest.approx(
        {"15": 0.79, "5": 0.75 * (0.2 + 0.02), "14": 0.015, "16": 0.015, "25": 0.015}
    )


@pytest.mark.parametrize("name", PREFIXES)
def test_the_value_agrees_with_100000_simulated_completions(name: str) -> None:
    each = 100_000 // len(PREFIXES)
    prefix = prefix_of(name)
    writer = POLICY.writer(PROBLEM)
    hits = simulate(writer, writer.state_after(prefix), each, seed=len(name))
    assert 0 < POLICY.value(prefix) < 1
    assert sigmas(hits, each, POLICY.value(prefix)) < 5


@pytest.mark.long
@pytest.mark.parametrize("name", PREFIXES)
def test_the_value_agrees_with_sampled_text(name: str) -> None:
    prefix = prefix_of(name)
    (completions,) = CLUMSY.sample([prefix], 1500)
    hits = sum(WORLD.graded(c.after(prefix, "me")).correct is True for c in completions)
    assert sigmas(hits, 1500, CLUMSY.value(prefix)) < 5


def recursive(writer: ArithmeticWriter, state: State, memo: dict[State, float]) -> float:
    """The same value by plain recursion over the moves."""
    if state.answer is not None:
        return float(state.answer == writer.program.truth[-1])
    if state not in memo:
        moves = writer.moves(state)
        assert sum(move.probability for move in moves) == pytest.approx(1)
        memo[state] = sum(move.probability * recursive(writer, move.after, memo) for move in moves)
    return memo[state]


@given(st.integers(0, 10_000), st.integers(-20, 1200))
@settings(deadline=None, max_examples=30)
def test_the_value_of_any_state_is_the_mean_over_its_moves(seed: int, value: int) -> None:
    problem = ArithmeticWorld(max_ops=4, max_term=12, max_factor=4, trap_rate=0.3).problems(1, seed)[0]
    program = program_of(problem)
    writer = CLUMSY.writer(problem)
    memo: dict[State, float] = {}
    for due in range(1, len(program.ops) + 1):
        expected = recursive(writer, State(due, value), memo)
        assert CLUMSY.value_of_state(problem, due, value) == pytest.approx(expected, abs=1e-12)
    expected = recursive(writer, start_of(program), memo)
    assert CLUMSY.value(WORLD.prefix(problem)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.long
def test_the_value_of_the_empty_prefix_is_the_mean_outcome_over_problems() -> None:
    pairs = list(WORLD.traces(POLICY, 1500, seed=11))
    values = [POLICY.value(WORLD.prefix(problem)) for problem, _ in pairs]
    spread = math.sqrt(sum(v * (1 - v) for v in values))
    assert abs(sum(t.correct is True for _, t in pairs) - sum(values)) < 5 * spread


@pytest.mark.long
def test_after_the_answer_the_value_is_the_outcome() -> None:
    for problem, trajectory in WORLD.traces(CLUMSY, 100, seed=1):
        assert CLUMSY.value(trajectory) == float(trajectory.answer == problem.answer)
        assert CLUMSY.answers(trajectory) == {trajectory.answer: 1.0}


def test_final_answers_have_probability_one_together() -> None:
    for problem in ArithmeticWorld(min_ops=10, max_ops=10, trap_rate=0.5).problems(5, seed=0):
        answers = POLICY.answers(WORLD.prefix(problem))
        assert sum(answers.values()) == pytest.approx(1.0)
        assert list(answers.values()) == sorted(answers.values(), reverse=True)
        assert answers[str(problem.answer)] == pytest.approx(POLICY.value(WORLD.prefix(problem)))


def test_a_state_that_the_problem_does_not_have_is_refused() -> None:
    assert POLICY.value_of_state(PROBLEM, *start_of(program_of(PROBLEM))) == POLICY.value(WORLD.prefix(PROBLEM))
    with pytest.raises(ValueError, match="has 4 operations"):
        POLICY.value_of_state(PROBLEM, 5, 24)


def test_the_truth_judge_gives_a_value_a_step_and_its_class() -> None:
    wrong = ["14 + 23 = 38", "38 - 5 = 33", "Wait, 37 - 5 = 32."]
    trajectory = WORLD.prefix(PROBLEM).extend([Step(line) for line in wrong])
    (judgement,) = TruthJudge(WORLD, consequent=0.5).judge([trajectory])
    assert judgement.check(trajectory).values == (0.0, 0.5, 1.0)
    assert judgement.rationales == ("wrong", "consequent", "right")
    assert judgement.aspects == {"right": (0, 0, 1), "wrong": (1, 0, 0), "consequent": (0, 1, 0)}
    (default,) = create("labeller", "truth-arithmetic").judge([trajectory])
    assert default.values == (0.0, 0.0, 1.0) and default.judge != judgement.judge


def test_the_exact_value_judge_values_each_prefix() -> None:
    trajectory = prefix_of("a misreading")
    (judgement,) = create("labeller", "exact-value", policy=POLICY).judge([trajectory])
    assert judgement == ExactValueJudge(POLICY).judge([trajectory])[0]
    assert judgement.values == (POLICY.value(trajectory.prefix(1)), POLICY.value(trajectory))
    assert judgement.values[0] > judgement.values[1]
