"""The algebra world: its problems, and its checker by example and against sympy."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from footfall.registry import create
from footfall.types import Json, Problem, Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, StepTruth
from footfall.worlds.algebra.reading import algebra_of
from footfall.worlds.algebra.relation import constant, equation, rational_roots, read_relation, square_free, variable
from footfall.worlds.world import UnreadableError

WORLD = AlgebraWorld()
R, W, C = StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT


def problem(kind: str, *equations: str, answer: str, **solution: str) -> Problem:
    values: list[Json] = [[name[0], value] for name, value in solution.items()]
    meta: dict[str, Json] = {"kind": kind, "equations": list(equations), "worded": False, "solution": values}
    return Problem("p", "…", answer, "algebra", meta=meta)


LINEAR = problem("linear", "2x + 3 = 11", answer="x = 4", x="4")
SYSTEM = problem("system", "x + y = 10", "2x - y = 2", answer="x = 4, y = 6", x="4", y="6")
QUADRATIC = problem("quadratic", "x^2 + 5x = 14", answer="x = -7 or x = 2", x1="-7", x2="2")


def trace(of: Problem, *lines: str) -> Trajectory:
    return Trajectory("t", of, tuple(Step(line) for line in lines), separator="\n")


Table = dict[str, tuple[Problem, list[str], list["StepTruth | None"]]]
TABLE: Table = {
    "solved": (
        LINEAR, ["Subtract 3 from both sides: 2x = 8.", "Divide both sides by 2: x = 4.", "The answer is x = 4."], [R, R, R],
    ),
    "a sign slip": (LINEAR, ["Subtract 3 from both sides: 2x = 14.", "So x = 7.", "The answer is x = 7."], [W, C, C]),
    "a wrong division": (LINEAR, ["2x = 8", "x = 6", "The answer is 6."], [R, W, C]),
    "mended": (LINEAR, ["2x = 9", "Wait, that is wrong: 2x = 8.", "x = 4"], [W, R, R]),
    "the same error after it was mended": (LINEAR, ["2x = 9", "No, 2x = 8.", "2x = 9", "x = 9/2"], [W, R, W, C]),
    "steps done at once, or said twice": (LINEAR, ["We have 2x + 3 = 11.", "So x = 4.", "x = 4"], [R, R, R]),
    "a true equation by an operation that was not done": (LINEAR, ["Add 3 to both sides: 2x = 8."], [W]),
    "two operations in one step": (LINEAR, ["Subtract 3 from both sides and divide by 2: x = 4."], [R]),
    "chains and numbers": (
        LINEAR, ["x = (11 - 3)/2 = 8/2 = 4", "Check: 2*4 + 3 = 11.", "2*4 + 3 = 12"], [R, R, W],
    ),
    "LaTeX and typographic signs": (
        LINEAR, [r"\[ x = \frac{11 - 3}{2} \]", "$2x = 11 − 3$", "- 2x = 8", "1. 2 · x = 8"], [R, R, R, R],
    ),
    "other forms of the answer": (LINEAR, [r"The final answer is $\boxed{\frac{8}{2}}$."], [R]),
    "an arrow is no equals sign": (LINEAR, ["2x = 8 => x = 4", "**Step 2:** 2x = 8 → x = 3"], [R, W]),
    "an answer that nothing leads to": (LINEAR, ["2x = 8", "The answer is x = 5."], [R, W]),
    "after the answer": (LINEAR, ["The answer is x = 4.", "2x = 8", "The answer is x = 4."], [R, W, W]),
    "cannot be read": (
        LINEAR,
        ["Let me see.", "2n = 8", "y = 4", "x = sqrt(16)", "x^3 = 64", "= = =", "The answer is four.", "x > 3", "x = 4/0"],
        [None] * 9,
    ),
    "a system": (
        SYSTEM,
        ["Isolate y: y = 10 - x.", "Substitute for y: 2x - (10 - x) = 2.", "3x = 12", "x = 4", "Then y = 10 - 4 = 6.",
         "The answer is x = 4, y = 6."],
        [R, R, R, R, R, R],
    ),
    "a system by elimination": (SYSTEM, ["Add them: 3x = 12.", "x = 4 and y = 6", "The answer is y = 6 and x = 4."], [R, R, R]),
    "a system with a slip": (
        SYSTEM, ["y = 10 + x", "2x - (10 + x) = 2", "x = 12", "y = 22", "The answer is x = 12, y = 22."], [W, C, C, C, C],
    ),
    "a pair as the answer": (SYSTEM, ["The answer is (4, 6)."], [R]),
    "half an answer": (SYSTEM, ["The answer is x = 4."], [None]),
    "a quadratic": (
        QUADRATIC,
        ["Subtract 14 from both sides: x^2 + 5x - 14 = 0.", "Factor: (x + 7)(x - 2) = 0.", "So x = -7 or x = 2.",
         "The answer is x = 2 or x = -7."],
        [R, R, R, R],
    ),
    "a lost root": (QUADRATIC, ["(x + 7)(x - 2) = 0", "So x = 2.", "The answer is x = 2."], [R, W, C]),
    "wrong factors": (QUADRATIC, ["(x - 7)(x + 2) = 0", "x - 7 = 0 or x + 2 = 0", "x = 7 or x = -2"], [W, C, C]),
    "by the formula": (QUADRATIC, ["x = (-5 ± 9)/2", "x = 2, x = -7", "The answer is 2 and -7."], [R, R, R]),
    "roots in a list, or each with its working": (
        QUADRATIC, ["x = -7, 2", "x = (-5 + 9)/2 = 2 or x = (-5 - 9)/2 = -7", "x = (-5 + 9)/2 = 3 or x = -7"], [R, R, W],
    ),
    "one case of a quadratic": (QUADRATIC, ["If x - 2 = 0, then x = 2.", "x + 7 = 0 gives x = -7."], [None, None]),
    "nothing written": (LINEAR, [], []),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_each_step_gets_its_class(case: str) -> None:
    of, lines, expected = TABLE[case]
    assert WORLD.check(trace(of, *lines)) == expected, WORLD.reasons(trace(of, *lines))


def test_an_unreadable_step_says_why_and_leaves_the_first_error_open() -> None:
    said = WORLD.said(trace(LINEAR, "x^3 = 64", "x = 5"))
    assert said[0].truth is None and "power" in said[0].reason
    assert WORLD.first_error(trace(LINEAR, "x^3 = 64", "x = 5")) is None
    assert WORLD.first_error(trace(LINEAR, "2x = 8", "x = 5")) == 1
    (judgement,) = create("labeller", "truth-algebra").judge([trace(LINEAR, "Hm.", "2x = 7", "2x = 8")])
    assert judgement.values == (None, 0.0, 1.0) and judgement.failures[0] == "the step states no equation"


def sympy_side(text: str) -> Any:
    transformations = (
        *sympy.parsing.sympy_parser.standard_transformations,
        sympy.parsing.sympy_parser.implicit_multiplication,
        sympy.parsing.sympy_parser.convert_xor,
    )
    return sympy.parsing.sympy_parser.parse_expr(text, transformations=transformations)


SMALL = st.integers(-6, 6)
ATOM = st.one_of(
    st.integers(0, 9).map(str), st.just("x"), SMALL.map(lambda n: f"(x + {n})"), SMALL.map(lambda n: f"({n})")
)
TERM = st.one_of(ATOM, st.builds("{}*{}".format, ATOM, ATOM), st.integers(2, 9).map("{}x".format), st.just("x^2"))
SIDE = st.lists(st.tuples(st.sampled_from(["+", "-"]), TERM), min_size=1, max_size=3).map(
    lambda parts: " ".join(f"{sign} {term}" for sign, term in parts)
)


@given(SIDE, SIDE)
@example("- x*x", "+ 0")
@settings(deadline=None, max_examples=60)
def test_an_equation_is_read_as_sympy_reads_it_and_has_the_same_roots(left: str, right: str) -> None:
    relation = read_relation(f"{left} = {right}")[0]
    zero = relation.zero
    x = sympy.Symbol("x")
    theirs = sympy.Poly(sympy_side(left) - sympy_side(right), x)
    if (
        relation.form == "factored"
    ):  # of a product that is zero the factors count, a sign or number before them does not
        theirs, zero = theirs.monic(), zero.scaled(1 / max(zero.terms)[1])
    ours = {(i,): sympy.Rational(c.numerator, c.denominator) for (i, _), c in zero.terms}
    assert {key: value for key, value in theirs.as_dict().items() if value} == ours
    if zero.names:
        roots = rational_roots(zero)
        rational = {root for root in sympy.roots(theirs) if root.is_rational}
        if roots is None:
            assert not rational
        else:
            assert {sympy.Rational(root.numerator, root.denominator) for root in roots} == rational


@pytest.mark.long
@given(st.lists(st.integers(-3, 3), min_size=6, max_size=6))
@settings(deadline=None, max_examples=50)
def test_two_equations_mean_the_same_if_sympy_finds_the_same_solutions(numbers: list[int]) -> None:
    x, own = sympy.Symbol("x"), variable("x")
    keys, solutions = [], []
    for a, b, c in (numbers[:3], numbers[3:]):
        relation = equation(own.product(own).scaled(a).plus(own, b), constant(c))
        keys.append(square_free(relation.zero))
        solutions.append(sympy.solveset(a * x**2 + b * x - c, x, sympy.S.Complexes))
    assert (keys[0] == keys[1]) == (solutions[0] == solutions[1])


@pytest.mark.long
def test_sympy_agrees_with_the_answers() -> None:
    x, y = sympy.symbols("x y")
    for each in WORLD.problems(40, seed=2):
        found = algebra_of(each)
        sides = [[sympy_side(side) for side in text.split("=")] for text in found.texts]
        solved = sympy.solve(
            [left - right for left, right in sides], [x, y] if found.kind == "system" else [x], dict=True
        )
        theirs = {(str(name), Fraction(int(v.p), int(v.q))) for solution in solved for name, v in solution.items()}
        assert theirs == set(found.solution)


STEPS = st.one_of(
    st.text("0123456789xy +-*/^=().,±answer isor", max_size=25),
    st.sampled_from([line for _, lines, _ in TABLE.values() for line in lines]),
)


@pytest.mark.long
@given(st.sampled_from([LINEAR, SYSTEM, QUADRATIC]), st.lists(STEPS, max_size=5))
@settings(deadline=None)
def test_any_text_has_a_class_or_a_reason_whatever_comes_after(of: Problem, lines: list[str]) -> None:
    said = WORLD.said(trace(of, *lines))
    assert len(said) == len(lines) and all(each.reason for each in said)
    assert all(WORLD.said(trace(of, *lines[:i])) == said[:i] for i in range(len(lines)))
    assert AlgebraPolicy().value(trace(of, *lines)) <= 1 + 1e-9


def test_what_is_written_is_read_back() -> None:
    for text in ("2x + 3 = 11", "-x - 1/2 = (3/2)x", "x^2 - 5x + 6 = 0", "(x - 2)(2x + 3) = 0", "y = -2x + 1"):
        assert str(read_relation(text)[0]) == text
    for text in ("x + = 2", "(x = 2", "x^9 = 1", "2 / x = 1", "x = 1" + "0" * 40):
        with pytest.raises(UnreadableError):
            read_relation(text)


def test_the_same_seed_gives_the_same_problems_however_many_are_asked_for() -> None:
    problems = WORLD.problems(80, seed=3)
    assert WORLD.problems(30, seed=3) == problems[:30] != WORLD.problems(30, seed=4)
    assert len({p.id for p in problems}) == 80
    assert {str(p.meta["kind"]) for p in problems} == {"linear", "system", "quadratic"}
    assert any(p.meta["worded"] for p in problems) and any("/" in str(p.answer) for p in problems)
    assert all(WORLD.graded(trace(p, f"The answer is {p.answer}.")).correct for p in problems)
    assert json.loads(json.dumps([p.meta for p in problems])) == [p.meta for p in problems]


@pytest.mark.long
def test_train_and_test_share_no_equations() -> None:
    small = AlgebraWorld(kinds=("linear",), max_root=4, max_coefficient=3)
    train, test = (
        {json.dumps(p.meta["equations"]) for seed in range(3) for p in small.problems(40, seed, split)}
        for split in ("train", "test")
    )
    assert len(train) > 50 and len(test) > 5 and not train & test


def test_the_world_is_a_named_part_and_its_parameters_are_checked() -> None:
    assert create("world", "algebra", max_root=5) == AlgebraWorld(max_root=5)
    wrong: dict[str, Any]
    for wrong in ({"kinds": ()}, {"kinds": ("cubic",)}, {"max_root": 1}, {"words": 2}):
        with pytest.raises(ValueError, match="AlgebraWorld needs"):
            AlgebraWorld(**wrong)


def test_a_problem_of_another_world_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'x1' is not of the algebra world.*AlgebraWorld\(\)\.problems"):
        WORLD.check(trace(Problem("x1", "?", "1"), "x = 1"))
    with pytest.raises(ValueError, match="want 2 for a system"):
        WORLD.check(trace(problem("system", "x = 1", answer="x = 1"), "x = 1"))
