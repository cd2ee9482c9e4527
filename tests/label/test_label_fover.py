"""Formal labels: the card's countermodel, agreement with the truth of the worlds, equations in ordinary text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from footfall.label._formal_clauses import read_clause
from footfall.label._formal_code import tests_of as read_tests
from footfall.label._formal_code import variants
from footfall.label._formal_words import worded_equations
from footfall.label.formal import Formal, balanced, verdicts
from footfall.registry import create
from footfall.reward.readout import Readout
from footfall.tools.algebra import implied
from footfall.tools.sandbox import why_no_walls
from footfall.types import Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, ArithmeticPolicy, ArithmeticWorld, LogicPolicy, LogicWorld
from footfall.worlds.truth import StepTruth


def trace(prompt: str, *steps: str, domain: str = "math", answer: str | None = None) -> Trajectory:
    return Trajectory("t", Problem("p", prompt, answer, domain), tuple(map(Step, steps)), separator="\n")


def labels(given: Trajectory) -> tuple[float | None, ...]:
    return Formal().judge([given])[0].values


FACTS = "fact1: C -> (B & ~A); fact2: C; hypothesis: ~A"


def test_a_step_is_right_iff_what_it_cites_entails_it_so_labels_are_not_monotone() -> None:
    given = trace(FACTS, "fact1 -> int1: B & ~A;", "int1 -> int2: ~A;", domain="logic")
    assert labels(given) == (0.0, 1.0)
    assert "countermodel" in verdicts(given)[0].reason


def test_the_same_step_is_right_with_the_missing_premise_cited() -> None:
    assert labels(trace(FACTS, "fact1 & fact2 -> int1: B & ~A;", domain="logic")) == (1.0,)


def test_a_name_that_stands_for_nothing_leaves_the_step_unlabelled() -> None:
    said = Formal().judge([trace(FACTS, "fact7 -> int1: B;", domain="logic")])[0]
    assert said.values == (None,) and said.failures == ("nothing is called 'fact7'",)


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("Rex is not a dax", "not dax(rex)"),
        ("Rex does not chase Tim", "not chase(rex, tim)"),
        ("No dax is red", "forall x. (dax(x) implies not red(x))"),
        ("if something is old, then it is a wug", "forall x. (old(x) implies wug(x))"),
        ("if Ada is a fep, then Tim is loud", "fep(ada) implies loud(tim)"),
    ],
)
def test_clauses_of_english_become_formulas(text: str, formula: str) -> None:
    assert read_clause(text) == read_clause(formula.replace("implies", "->").replace("not ", "~"))


def test_clauses_that_have_no_known_form_are_not_read() -> None:
    assert read_clause("the weather was rather nice on Sunday") is None


@pytest.mark.parametrize(
    ("world", "policy"), [(LogicWorld(), LogicPolicy()), (AlgebraWorld(), AlgebraPolicy())], ids=["logic", "algebra"]
)
def test_labels_agree_with_the_truth_of_the_world_though_they_read_text_alone(
    world: LogicWorld | AlgebraWorld, policy: LogicPolicy | AlgebraPolicy
) -> None:
    wrong = 0
    for _, given in world.traces(policy, 20, seed=5):
        bare = replace(given, problem=replace(given.problem, meta={}))
        truth = [step is not StepTruth.WRONG for step in world.check(given)[:-1]] + [given.correct]
        assert [verdict.holds for verdict in verdicts(bare)] == truth
        wrong += truth.count(False)
    assert wrong > 5


def test_of_arithmetic_every_slip_is_found_and_no_true_equation_is_refuted() -> None:
    world = ArithmeticWorld()
    for _, given in world.traces(ArithmeticPolicy(), 30, seed=5):
        said, truth = verdicts(given)[:-1], world.check(given)[:-1]
        assert all(step is StepTruth.WRONG for verdict, step in zip(said, truth, strict=True) if verdict.holds is False)


@pytest.mark.parametrize(
    ("step", "label"),
    [
        ("3 * 4 = 12", 1.0),
        ("Natalia sold 48/2 = <<48/2=24>>24 clips in May.", 1.0),
        ("So 5 apples + 3 apples = 9 apples.", 0.0),
        ("That is $1,200 / 4 = $300 a week.", 1.0),
        ("$5 × 3 = $15", 1.0),
        ("2 + 3 = 5 = 6 - 1", 1.0),
        ("2 + 3 = 5 = 7 - 1", 0.0),
        ("2 + 3 = 5 = 5", 1.0),
        ("2 + 3 = 5 = 6", 0.0),
        ("4 = 5 = 2 + 3", 0.0),
        ("10 / 3 = 3.33 = 333 / 100", 1.0),
        ("10 / 3 = 3.33", 1.0),
        ("10 / 3 = 3.43", 0.0),
        (r"\frac{1}{2} + \frac{1}{3} = \frac{5}{6}", 1.0),
        ("7 / 0 = 0", 0.0),
        ("that's .20*10 = $2.00", 1.0),
        ("the chances are 3 / 6 = 50%.", 1.0),
        ("That is 3 / 6 * 100 = 50%.", None),
        ("20% of 50 = 10", None),
        ("We think about the problem first.", None),
        ("There are 12 of them.", None),
        ("(x + 1)^2 = x^2 + 2x + 1", None),
    ],
)
def test_equations_in_ordinary_text_are_checked_and_the_rest_is_left_open(step: str, label: float | None) -> None:
    assert labels(trace("How many?", step)) == (label,)


def test_the_final_answer_is_compared_with_the_reference() -> None:
    steps = ("3 * 4 = 12", "The answer is 13.")
    assert labels(trace("How many?", *steps, answer="12")) == (1.0, 0.0)
    assert labels(trace("How many?", *steps)) == (1.0, None)


def test_names_that_permute_in_a_product_are_not_the_same_answer() -> None:
    given = trace("Rex is a dax.", "The answer is: Rex is a pim.", domain="logic", answer="Rex is a mip")
    assert labels(given) == (0.0,)


def test_what_follows_from_an_earlier_error_is_right_and_the_error_is_not() -> None:
    given = trace("Solve for x: 2x = 14.", "x = 8", "x + 1 = 9", domain="algebra")
    assert labels(given) == (0.0, 1.0)


def test_an_equation_that_may_be_new_is_wrong_in_algebra_only() -> None:
    assert labels(trace("Solve 2x = 14.", "Hence x = 8.", domain="math")) == (None,)


@pytest.mark.parametrize(
    ("text", "equation"),
    [
        ("7 less than 3 times a number x is 11. What is x?", "(3)x - (7) = 11"),
        ("If 5 is taken from 2 times a number x, 9 is left. Find x.", "(2)x - (5) = 9"),
        ("The square of a number x, minus 3 times the number, is 10.", "x^2 - (3)x = 10"),
    ],
)
def test_problems_in_words_become_equations(text: str, equation: str) -> None:
    assert worded_equations(text) == [equation]


def test_two_equations_imply_what_holds_at_their_common_solution() -> None:
    system = ["x + y = 5", "x - y = 1"]
    assert implied(system, "2x = 6").holds is True
    assert implied(system, "x = 2").holds is False
    assert implied(["x + y = 5", "2x + 2y = 10"], "x = 2").holds is None


PROMPT = "Return the largest element of xs.\nf([1, 5, 2]) == 5\nf([4]) == 4\nf([-3, -1]) == -1"
PROGRAM = (
    "def f(xs):",
    "    top = xs[0]",
    "    for x in xs:",
    "        if x > top:",
    "            top = x",
    "    return top",
)


def test_tests_are_read_from_the_text_of_the_problem() -> None:
    assert read_tests(Problem("p", PROMPT)) == [
        "assert f([1, 5, 2]) == 5",
        "assert f([4]) == 4",
        "assert f([-3, -1]) == -1",
    ]
    asked = Problem("p", "End with a comment that lists what it gives for g(1), g([2, 3]).", "[1, 4]")
    assert read_tests(asked) == ["assert g(1) == 1", "assert g([2, 3]) == 4"]


def test_variants_of_a_line_change_one_thing() -> None:
    assert set(variants("    if x < 5:")) == {
        "    if x <= 5:",
        "    if x > 5:",
        "    if x >= 5:",
        "    if x < 6:",
        "    if x < 4:",
    }


@pytest.mark.skipif(why_no_walls() is not None, reason="no sandbox here")
def test_execution_clears_a_program_that_passes_and_finds_the_line_that_mends_one_that_fails() -> None:
    assert labels(trace(PROMPT, *PROGRAM, domain="code")) == (1.0,) * 6
    broken = [*PROGRAM[:3], "        if x < top:", *PROGRAM[4:]]
    assert labels(trace(PROMPT, *broken, domain="code")) == (1.0, 1.0, 1.0, 0.0, 1.0, 1.0)


@pytest.mark.skipif(why_no_walls() is not None, reason="no sandbox here")
def test_a_program_that_no_single_line_mends_is_left_open_with_the_reason() -> None:
    said = Formal().judge([trace(PROMPT, "def f(xs):", "    return None", domain="code")])[0]
    assert said.values == (None, None) and "no change of one line" in str(said.failures[0])


def test_training_labels_are_balanced_by_leaving_right_ones_out() -> None:
    given = [trace("How many?", "1 + 1 = 2", "2 + 2 = 4", "3 + 3 = 7", "4 + 4 = 8")]
    (row,) = balanced(list(map(Judged, given, Formal().judge(given))))
    assert row.judgement is not None
    assert sorted(value for value in row.judgement.values if value is not None) == [0.0, 1.0]
    assert row.judgement.failures.count("left out for balance") == 2


def test_the_labeller_is_found_by_name() -> None:
    judgement: Judgement = create("labeller", "formal").judge([trace("How many?", "1 + 1 = 3")])[0]
    assert judgement.values == (0.0,) and judgement.rationales == ("1 + 1 is 2, not 3",)


def test_the_cards_logits_are_a_score_of_0_9089() -> None:
    readout = Readout("good", classes=("incorrect", "correct"), good=("correct",))
    assert float(readout.values(torch.tensor([[0.2, 2.5]]))) == pytest.approx(0.9089, abs=5e-5)


def test_the_label_of_a_step_does_not_depend_on_those_before_it() -> None:
    steps = ("2 + 2 = 5.", "3 * 4 = 12.")
    assert labels(trace("?", *steps))[1] == labels(trace("?", "2 + 2 = 4.", steps[1]))[1] == 1.0
