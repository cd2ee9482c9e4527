"""The checker of the arithmetic world, by example: the table is the documentation of its rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.types import Problem, Step, Trajectory
from footfall.worlds import ArithmeticWorld, StepTruth

WORLD = ArithmeticWorld()
R, W, C = StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT

# 14 -> 37 -> 32 -> 96
PROBLEM = Problem(
    "p",
    "Mia has 14 stickers. She buys 23 more. She loses 5. Then the number of stickers is multiplied by 3. "
    "How many stickers does Mia have now?",
    answer="96",
    domain="arithmetic",
    meta={"start": 14, "ops": [["+", 23], ["-", 5], ["*", 3]], "tricky": [False, False, False]},
)


def trace(*lines: str, problem: Problem = PROBLEM) -> Trajectory:
    return Trajectory("t", problem, tuple(Step(line) for line in lines), separator="\n")


TABLE: dict[str, tuple[list[str], list[StepTruth]]] = {
    "all right": (
        ["First, 14 + 23 = 37.", "She then has 37 - 5 = 32 stickers.", "Now 32 * 3 = 96.", "The answer is 96."],
        [R, R, R, R],
    ),
    "a slip, then right in itself": (
        ["First, 14 + 23 = 38.", "Then 38 - 5 = 33.", "Now 33 * 3 = 99.", "The answer is 99."],
        [W, C, C, C],
    ),
    "the wrong operation": (["14 + 23 = 37", "37 + 5 = 42", "42 * 3 = 126", "The answer is 126."], [R, W, C, C]),
    "a wrong operand": (["14 + 32 = 46", "46 - 5 = 41", "41 * 3 = 123", "The answer is 123."], [W, C, C, C]),
    "the running value copied wrongly": (["14 + 23 = 37", "73 - 5 = 68", "68 * 3 = 204"], [R, W, C]),
    "an operation skipped": (["14 + 23 = 37", "37 * 3 = 111", "The answer is 111."], [R, W, C]),
    "two operations in the wrong order": (["14 - 5 = 9", "9 + 23 = 32", "32 * 3 = 96", "The answer is 96."], [W, W, R, R]),
    "recovery by redoing the last operation": (
        ["14 + 23 = 38", "Wait, it should be 14 + 23 = 37.", "37 - 5 = 32", "32 * 3 = 96", "The answer is 96."],
        [W, R, R, R, R],
    ),
    "recovery by doing the due operation on the true value": (["14 + 23 = 38", "37 - 5 = 32", "32 * 3 = 96"], [W, R, R]),
    "recovery from further back": (["14 + 23 = 38", "38 - 5 = 33", "No: 14 + 23 = 37.", "37 - 5 = 32"], [W, C, R, R]),
    "recovery after the last operation": (
        ["14 + 23 = 37", "37 - 5 = 32", "32 * 3 = 95", "Wait, 32 * 3 = 96.", "The answer is 96."],
        [R, R, W, R, R],
    ),
    "a recovery with a slip": (["14 + 23 = 38", "Wait, 14 + 23 = 36.", "36 - 5 = 31"], [W, W, C]),
    "a step said twice does no work and no harm": (
        ["14 + 23 = 37", "14 + 23 = 37", "37 - 5 = 32", "14 + 23 = 37", "32 * 3 = 96", "The answer is 96."],
        [R, W, R, W, R, R],
    ),
    "two errors that cancel": (["14 + 23 = 38", "38 - 5 = 32", "32 * 3 = 96", "The answer is 96."], [W, W, R, R]),
    "garbage does not move the state": (["", "Let me think.", "14 + 23 = 37", "$$$", "37 - 5 = 32"], [W, W, R, W, R]),
    "no whole numbers": (["14 + 23 = 37.5", "14.0 + 23 = 37", "14 + 23 = 37"], [W, W, R]),
    "too long for a number": (["14 + 23 = " + "9" * 5000, "14 + 23 = 37"], [W, R]),
    "a chain is no equation": (["1 + 13 + 23 = 37", "37 - 5 = 32 * 3 = 96"], [W, W]),
    "a bullet or bold letters are no chain": (
        ["- 14 + 23 = 37", "**Step 2:** 37 - 5 = 32", "So **32 * 3 = 96**.", "* The answer is 96."],
        [R, R, R, R],
    ),
    "a chain over two lines or by a power": (["9 -\n14 + 23 = 37", "1 ** 37 - 5 = 32", "(2) * 37 - 5 = 32"], [W, W, W]),
    "an answer that is not the running value": (
        ["14 + 23 = 37", "37 - 5 = 32", "32 * 3 = 96", "The answer is 69."],
        [R, R, R, W],
    ),
    "an answer too early": (["14 + 23 = 37", "The answer is 96."], [R, W]),
    "steps after the answer": (
        ["14 + 23 = 37", "37 - 5 = 32", "32 * 3 = 96", "The answer is 96.", "96 + 1 = 97", "The answer is 96."],
        [R, R, R, R, W, W],
    ),
    "one operation too many": (
        ["14 + 23 = 37", "37 - 5 = 32", "32 * 3 = 96", "96 + 7 = 103", "The answer is 103."],
        [R, R, R, W, C],
    ),
    "two equations in one step": (["14 + 23 = 37, then 37 - 5 = 32.", "32 * 3 = 96. The answer is 96."], [R, R]),
    "the worst part of a step counts": (["14 + 23 = 37, then 37 - 5 = 31.", "31 * 3 = 93. The answer is 93."], [W, C]),
    "typographic signs": (["14 + 23 = 37", "37 − 5 = 32", "32 × 3 = 96"], [R, R, R]),
    "nothing written": ([], []),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_each_step_gets_its_class(case: str) -> None:
    lines, expected = TABLE[case]
    assert WORLD.check(trace(*lines)) == expected


@pytest.mark.parametrize("case", TABLE)
def test_the_first_error_is_the_first_wrong_step(case: str) -> None:
    lines, expected = TABLE[case]
    assert WORLD.first_error(trace(*lines)) == (expected.index(W) if W in expected else -1)


def test_a_division_must_come_out() -> None:
    problem = Problem("q", "…", "7", meta={"start": 14, "ops": [["/", 2]], "tricky": [False]})
    assert WORLD.check(trace("14 / 2 = 7", problem=problem)) == [R]
    assert WORLD.check(trace("15 / 2 = 7", problem=problem)) == [W]
    assert WORLD.check(trace("14 / 0 = 0", problem=problem)) == [W]


def test_equal_neighbouring_operations_are_told_apart_by_their_left_side() -> None:
    problem = Problem("q", "…", "24", meta={"start": 14, "ops": [["+", 5], ["+", 5]], "tricky": [False, False]})
    assert WORLD.check(trace("14 + 5 = 19", "19 + 5 = 24", "The answer is 24.", problem=problem)) == [R, R, R]
    assert WORLD.check(trace("14 + 5 = 18", "14 + 5 = 19", "19 + 5 = 24", problem=problem)) == [W, R, R]


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["32 * 3 = 96", "The answer is 96."], "96"),
        (["The answer is -4."], "-4"),
        (["The answer is 95.", "Wait, the answer is 96."], "96"),
        (["The answer is 95. The answer is 96."], "96"),
        (["The answer is 9.5"], None),
        (["14 + 23 = 37"], None),
    ],
)
def test_the_last_stated_answer_counts(lines: list[str], answer: str | None) -> None:
    assert WORLD.answer(trace(*lines)) == answer
    assert WORLD.graded(trace(*lines)).correct is (answer == "96")


STEPS = st.one_of(
    st.text("0123456789 +-*/=.,answer is:×÷−é٣\n", max_size=30),
    st.sampled_from([line for lines, _ in TABLE.values() for line in lines]),
    st.builds(
        lambda a, op, b, c: f"{a} {op} {b} = {c}",
        st.sampled_from([14, 23, 37, 32, 96, 0, -3]), st.sampled_from("+-*/"), st.sampled_from([23, 5, 3, 0, 7]),
        st.sampled_from([37, 32, 96, 38, 0]),
    ),
)  # fmt: skip


@given(st.lists(STEPS, max_size=8))
def test_any_text_has_a_class_and_an_error_comes_before_its_consequences(lines: list[str]) -> None:
    truths = WORLD.check(trace(*lines))
    assert len(truths) == len(lines)
    if C in truths:
        assert W in truths[: truths.index(C)]


@given(st.lists(STEPS, max_size=8))
def test_the_class_of_a_step_does_not_depend_on_later_steps(lines: list[str]) -> None:
    truths = WORLD.check(trace(*lines))
    assert all(WORLD.check(trace(*lines[:i])) == truths[:i] for i in range(len(lines)))


def test_a_problem_of_another_world_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'x1' is not of the arithmetic world.*ArithmeticWorld\(\)\.problems"):
        WORLD.check(trace("1 + 1 = 2", problem=Problem("x1", "What is 1 + 1?", "2")))
