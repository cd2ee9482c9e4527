"""Formal labels: the card's countermodel, agreement with the truth of the worlds, equations in ordinary text."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from footfall.formal import verdicts
from footfall.formal.deduction import read_clause
from footfall.formal.programs import judge_programs, variants
from footfall.formal.programs import tests_of as read_tests
from footfall.formal.reading import worded_equations
from footfall.label.formal import Formal, balanced
from footfall.registry import create
from footfall.reward.readout import Readout
from footfall.tools import Sandbox, why_no_walls
from footfall.tools.algebra import implied
from footfall.types import Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds import AlgebraPolicy, AlgebraWorld, ArithmeticPolicy, ArithmeticWorld, LogicPolicy, LogicWorld
from footfall.worlds.world import StepTruth


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


@pytest.mark.long
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


@pytest.mark.parametrize(
    ("step", "label"),
    [
        # whatever has a name of its own, what it is computed from is equal to what comes of it
        ("Total cost = 3 * 4 = 12", 1.0),
        ("Total cost = 3 * 4 = 13", 0.0),
        (r"\[ \text{Number of green chairs} = 3 \times 10 = 31 \]", 0.0),
        (r"\[AB = \frac{1}{2} \times 12 = 6\]", 1.0),
        ("Red paint = White paint = 1/3 * 6 pints = 3 pints", 0.0),
        ("x = 2 or twice 3 + 2 = 10 = 5 * 2", None),
        ("2 + 2 = 4 and 3! + 2 = 10 = 5 * 3", 0.0),
        # a name alone states no equation between numbers
        ("Total cost = 12", None),
        ("Total cost = apples + pears = 12", None),
        # what is computed before the chain was not read: the rest may be wrong, and is not known to hold
        (r"\(6 \times !5 = 6 \times 44 = 264\)", None),
        (r"\(6 \times !5 = 6 \times 44 = 265\)", 0.0),
        ("The cost of 7 packs = 7 * 2 = 15", 0.0),
        # one equation that cannot be read leaves what stands beside it wrong if it is
        ("Each costs = apples. Together that is 3 * 4 = 13.", 0.0),
        ("Each costs = apples. Together that is 3 * 4 = 12.", None),
        # notes and emphasis are no part of a computation
        ("Total = 5 (man) + 4 (wife) + 2 (son) = 12", 0.0),
        ("Total = 2400 quarts (chocolate) + 600 quarts (vanilla) = 3000 quarts", 1.0),
        ("8 hours/week * 6 weeks = 48 hours", 1.0),
        ("1. **Add what is left:**\n   50 + 32 = **82**", 1.0),
        ("2**3 + 1 = 7", 0.0),
        ("2 ** 3 + 1 = 9", 1.0),
        ("Total = 5 (dozen) + 3 = 8", None),
        ("3 (x + 2) = 12", None),
    ],
)
def test_a_chain_is_checked_whatever_its_first_side_names(step: str, label: float | None) -> None:
    assert labels(trace("How many?", step)) == (label,)


def test_an_answer_that_stands_in_the_next_step_is_not_taken_for_a_colon() -> None:
    given = trace("How many?", "Thus, the final answer is: ", "The answer is: 4.", answer="4")
    assert labels(given) == (None, 1.0)


@pytest.mark.parametrize(
    ("step", "label"),
    [
        ("The value increased by 80,000*1.5=$120,000", 1.0),
        ("The cost of the house went up by 80,000*1.5=$120,000.", 1.0),
        ("There were 5 apples. They increased by 3*2 = 6.", 1.0),
        ("The price was 100, and it dropped by 20*2 = 40 dollars.", 1.0),
        ("So he made a profit of 200,000-130,000=$70,000", 1.0),
        ("He pays a total of 3*4 = 13", 0.0),
        ("She buys 2 boxes of eggs for 3*4 = 12 dollars.", 1.0),
        ("He ran 3 sprints, so that is 3*60 = 190 meters.", 0.0),
        ("Half of them left, which makes 3*4 = 13.", 0.0),
        ("Over 12 months this comes to 150 * 12 = 1800.", 1.0),
        ("It is -3*2 = -6.", 1.0),
    ],
)
def test_words_between_a_number_and_an_equation_settle_that_it_is_complete(step: str, label: float) -> None:
    assert labels(trace("How many?", step)) == (label,)


@pytest.mark.parametrize(
    "step",
    [
        "5 times 80*2 = 800", "5 times 80*2 = 160", "five times 80*2 = 800", "5 times the 80*2 = 800", "5 times -3+1 = -14",
        "half of 4*2 = 4", "half of 4*2 = 8", "twice 3+2=10", "twice 3+2 = 5", "twice the 3+2 = 5", "double 5+3 = 16",
        "8 increased by 2*3 = 14", "8 increased by 2*3 = 6", "The price, 100, reduced by 20*2 = 60", "10 divided by 2*5 = 1",
        "8 divided by -2 = -4", "Multiply by 3*2 = 60", "The price reduced by 20*2 = 60", "It grew by 5 and by 3*2 = 11",
        "Add 5 to 3*2 = 11", "Subtract 3 from 5*2 = 7", "5 more than 3*2 = 11", "The sum of 3 and 4*2 = 11",
        "The average of 3, 5+4 = 6", "The sum of 2*2 = 4 and 3*2 = 10", "The ratio of 6 to 2*1 = 3", "10 raised to 1+1 = 100",
        "a quarter of 4+4 = 2", "The square root of 9+7 = 4", "sqrt(9+7) = 4", "√(9+16) = 5", "floor(7/2) = 3",
        "sin 30 + 1 = 1.5", "7 mod 4+1 = 4", "negative 3*2 = -6", "5! - 3*2 = 114", "2 squared + 1 = 5", "3 dozen + 4 = 40",
        "50 percent * 30 = 15", "AB + 3*2 = 10", "a_1 + 6 = 9", "- 3 * 4 = 12", "5 boxes at 3*2 = 30", "He paid 5 for 3*2 = 30",
        "5 boxes at a cost of 3*2 = 30", "5 groups of 3*2 = 30", "The perimeter of 3*4 = 14", "10 over 2*1 = 5",
    ],
)  # fmt: skip
def test_an_equation_that_may_go_on_from_what_stands_before_it_is_left_open(step: str) -> None:
    assert labels(trace("How many?", step)) == (None,)


@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    [
        # a remainder, or a whole number in place of a quotient
        "7/2 = 3 remainder 1", "7 / 2 = 3, remainder 1", "7 / 2 = 3 with 1 left over", "7 / 2 = 3R1", "7/2 = 3 and 1/2",
        "17 / 5 = 3. The remainder is 2.", r"\(410 \div 333 = 1\) with a remainder of \(77\).", "10/3 = 3", "10 / 4 = 3 buses",
        # the clock, dates, another arithmetic
        "5:30 + 30 minutes = 6:00", "5:30 + 0:30 = 6:00", "9 + 4 = 1 o'clock", "9 + 4 = 1 pm", "12/25 = Christmas",
        "12/25 = 25 December", "12 = 3 mod 9", "7 + 8 = 3 (mod 12)", "Modulo 12 this is 7 + 8 = 3", "In base 5: 4 + 2 = 11",
        "1/8 + 1/16 = 0.0011_2", r"\(2005 \circ 2004 = \frac{1}{2}\)",
        # units
        "2 hours + 30 minutes = 150 minutes", "2 hours + 30 minutes = 32 minutes", "2 dollars + 50 cents = 2.50",
        "50 cents + 50 cents = $1", "50 + 50 = 1 dollar", "30 + 30 = 1 hour", "5 * 2 = 5 pairs", "6 * 4 = 2 dozen",
        "2 dozen + 3 = 27", "5 ft 6 in = 66 in", "5 ft 6 in + 6 in = 72 in", "5'6\" + 6\" = 72\"", "2 km + 500 m = 2500 m",
        "3 weeks - 1 day = 20 days", "1 quart + 2 cups = 6 cups", "5 apples + 3 pears = 1 basket", "5 pairs = 5 * 2 shoes",
        "5 * 5 = 25 cents = $0.25", "Time to heat up to 400 degrees = 20 + 8", "Total in 8 boxes = 8 * 20 = 160 oranges.",
        "90 degrees F - 32 = 58", "3 * 4 = 12 thousand", "100 C = 212 F",
        # per cent
        "10% of 50 = 5", "$5 + 20% = $6", "20 + 5 = 25%", r"3 / 6 = 0.5 = 50\%",
        # rounding
        "(2.8284)^2 = 8", "0.33 * 300 = 100", "3.14 * 25 = 78.54", "1234 * 5 = 6200, rounded to hundreds",
        "19 * 21 = about 400",
        "We estimate. 19 * 21 = 400", r"\frac{10}{3} = 3..",
        # numbers that are written otherwise, or go on
        "1.000 + 5 = 1005", "1 000 + 5 = 1005", "1'000 + 5 = 1005", "3,5 + 2 = 5,5", "7/2 = 3,5", "3 1/2 + 1/2 = 5",
        "3x2 + 5 = 17",
        r"13\frac{1}{2} + 1 = 7.5", r"\frac{2}{9} = 0.\overline{2}", r"4^2 = 2^2 + 3^2 - 2 \cdot 3 \cos C", "5! = 120",
        r"7 = 3 + 2i",
        r"100 - \frac{2500}{81} = 5AD^2", r"\(6 \times !5 = 6 \times 44 = 264\)", r"f'(3) = 3(3)^2 - 6(3) = 9", "8 = 2³ + 1/2³",
        "3 * 4 = 1 2", "1 + 2 = 3 4 = 4", "5 * 3 = 15 + 2 = 17", "6/2(1+2) = 1", "70 + 80 / 2 = 75", "-3^2 = 9",
        "3x = 12, x = 4",
        # numbers of a list
        "Pages 10-15 = 6 pages", "Step 2 - 3 * 4 = 12", "(2) 3 * 4 = 12", "1) 3 * 4 = 12",
        # not claimed
        "It is not true that 2 + 2 = 5.", "2 + 2 = 5 is wrong.", "Is 3 * 4 = 13?", "If 2 + 2 = 5, then all is lost.",
        "Suppose that 2 + 2 = 5.", "It isn't 3 * 4 = 13.", "Wait, 3 * 4 = 13 cannot be.",
    ],
)  # fmt: skip
def test_an_equation_that_may_be_meant_otherwise_is_not_held_against_a_step(step: str) -> None:
    assert labels(trace("How many?", step)) == (None,)


@pytest.mark.parametrize(
    "step",
    [
        "1,000 + 5 = 1005", "3 1/2 + 1/2 = 4", "0.1+0.2=0.3", "1/3 = 0.33", "2/3 = 0.66", "2/3 = 0.67", "2/3 = .66",
        "22/7 = 3.14",
        "5 x 10^3 = 5000",
        r"3\frac{4}{5} = \frac{19}{5}", r"\[ \frac{1}{13} = \frac{4}{52} \] \[ \frac{1}{4} = \frac{13}{52} \]",
        "3 * 4 = 12\n5 + 6 = 11",
        "90 degrees - 30 degrees = 60 degrees", "3 * 4 = 12\nTotal: 5 + 7 = 12", r"$3 + 4 = 7$ and $5 + 5 = 10$",
        "3 + 4 = 7 apples and 2 * 5 = 10 pears", "3 cups + 2 cups = 5 cups", "$1{,}000 + 5 = 1{,}005$",
    ],
)  # fmt: skip
def test_true_equations_are_read_however_they_are_written(step: str) -> None:
    assert labels(trace("How many?", step)) == (1.0,)


@pytest.mark.parametrize(
    "step",
    [
        "48 + 24 = 73", "3 x 4 = 13", "3 * 5 = 16 dollars", "We get 12 + 30 = 43.", r"\[ 12 + 30 = 43 \]", "$12 + 30 = 43$",
        "So $12 + $30 = $43.",
        "The total is 12 + 30 = 43 apples, so 43 - 3 = 40.", "x = 12 + 30 = 43", "0.5 * 12 = 6.5", "2.50 + 1.25 = 3.80",
        "3 * 4 = 12\n5 + 6 = 13", "2 + 3 * 4 = 20", r"$100001 = 7 \cdot 11 \cdot 13 \cdot 101$", "8 hours - 3 hours = 6 hours",
    ],
)  # fmt: skip
def test_plain_slips_are_still_found(step: str) -> None:
    assert labels(trace("How many?", step)) == (0.0,)


@pytest.mark.parametrize("name", ["A", "a", "B", "b", "I", "i", "x"])
def test_an_unknown_may_name_what_a_chain_computes_whatever_its_letter(name: str) -> None:
    for chain, label in (
        ("{} = 3 + 4 = 7", 1.0), ("{} = 3 + 4 = 8", 0.0), ("3 + 4 = {} = 7", 1.0), ("3 + 4 = {} = 8", 0.0),
        ("3 + 4 = 7 = {}", 1.0), ("Let {} = 3 + 4 = 7.", 1.0), ("So the area is $ {} = 3 \\cdot 4 = 13$.", 0.0),
        ("{} = 2 + 2 = 4 = 5", 0.0), ("{} = 3 + 4", None), ("{} = 3 * 4 = 12 \\cos C", None),
    ):  # fmt: skip
        assert labels(trace("How many?", chain.format(name))) == (label,), chain


@pytest.mark.long
def test_what_a_chain_computes_is_known_by_its_name_from_then_on() -> None:
    assert labels(trace("How many?", "A = 3 + 4 = 7", "A + 2 = 9", "A + 2 = 10")) == (1.0, 1.0, None)
    assert labels(trace("How many?", "A = 3 + 4 = 7", "A = 5 + 6 = 11")) == (1.0, None), "another A, or an error"
    assert labels(trace("What is x?", "x = 3 + 4 = 7")) == (None,), "whether the problem's x is 3 + 4 is not seen"
    assert labels(trace("Solve for x: 2x = 14.", "x = 14 / 2 = 7", "x = 14 - 2 = 12", domain="algebra")) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("step", "label"),
    [
        ("I have 3 + 4 = 7", 1.0), ("I have 3 + 4 = 8", 0.0), ("3 + 4 = 7 I think", 1.0), ("3 + 4 = 8 a week", 0.0),
        ("In plan A 3 + 4 = 8", 0.0), ("3 + 4 = 7 + a bit", None), ("6 = 2a", None),
        ("(1 + i) * 2 = 4", None), ("i + 3 = 7", None),
    ],
)  # fmt: skip
def test_words_of_one_letter_are_no_unknowns_and_i_may_be_imaginary(step: str, label: float | None) -> None:
    assert labels(trace("How many?", step)) == (label,)


def test_a_problem_about_another_arithmetic_has_no_false_equations() -> None:
    assert labels(trace("What time is it 8 hours after 7 o'clock?", "7 + 8 = 3")) == (None,)
    assert labels(trace("What is 4 + 2 in base 5?", "4 + 2 = 11")) == (None,)


def test_on_processbench_no_right_step_is_refuted_by_a_misreading() -> None:
    """Steps before the first error that annotators found; the equations with unknowns, which refute nothing, are slow."""
    folder = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "processbench"
    if not folder.exists():
        pytest.skip("ProcessBench is not here")
    rows = json.loads(gzip.decompress((folder / "gsm8k.json.gz").read_bytes()))
    said: Counter[bool | None] = Counter()
    for row in rows:
        right = row["steps"] if row["label"] < 0 else row["steps"][: row["label"]]
        plain = [text for text in right if not re.search(r"\b[b-hj-zB-HJ-Z]\b", text)]
        said.update(verdict.holds for verdict in verdicts(trace(row["problem"], *plain)))
    assert said[False] == 0 and said[True] > 150


def test_the_final_answer_is_compared_with_the_reference() -> None:
    steps = ("3 * 4 = 12", "The answer is 13.")
    assert labels(trace("How many?", *steps, answer="12")) == (1.0, 0.0)
    assert labels(trace("How many?", *steps)) == (1.0, None)


@pytest.mark.long
@pytest.mark.parametrize(
    ("said", "reference", "label"),
    [
        ("The answer is 5. I hope it is correct.", "5", 1.0),
        ("The answer is 2 hours.", "2", 1.0),
        ("The answer is 5 because 2 and 3 make 5.", "5", None),
        ("The answer is not 4 but 5.", "5", None),
        ("The answer is 18 dollars per day.", "18", 1.0),
        ("The answer is 18 dollars for each of them.", "18", None),
        ("The answer is B) Paris.", "B", None),
        ("The answer is 120 minutes.", "2 hours", None),
        ("The answer is -5.", "5", 0.0),
        ("The answer is 15.", "5", 0.0),
        ("The answer is 5.5.", "5", 0.0),
        ("The answer is 3 hours.", "2 hours", 0.0),
    ],
)
def test_an_answer_with_more_to_it_than_the_reference_is_left_open(
    said: str, reference: str, label: float | None
) -> None:
    assert labels(trace("How many?", said, answer=reference)) == (label,)


def test_names_that_permute_in_a_product_are_not_the_same_answer() -> None:
    given = trace("Rex is a dax.", "The answer is: Rex is a pim.", domain="logic", answer="Rex is a mip")
    assert labels(given) == (0.0,)


@pytest.mark.parametrize(
    ("premise", "step", "label"),
    [
        ("Every cat is an animal.", "Tom is an animal.", 1.0),
        ("Every cat is an animal.", "Tom is a dog.", 0.0),
        ("All cats are animals.", "Tom is an animal.", None),
        ("Cats are animals.", "Tom is an animal.", None),
        ("Cats chase Pia.", "Tom chases Pia.", None),
        ("Tom is black or Tom is white. Tom is not black.", "Tom is white.", None),
        ("Only cats are furry. No cat is a dog.", "Tom is a dog.", 0.0),
        ("Premises:\n1. Every cat is an animal.\nOnly one of these follows.", "Tom is a dog.", 0.0),
    ],
)
def test_with_a_premise_that_is_not_read_only_what_the_others_refute_is_wrong(
    premise: str, step: str, label: float | None
) -> None:
    assert labels(trace(f"{premise} Tom is a cat. What follows?", step, domain="logic")) == (label,)


def test_that_nothing_follows_is_not_known_where_a_premise_is_not_read() -> None:
    given = trace("Rex is a dax. All daxes are wugs.", "It does not follow that Rex is a wug.", domain="logic")
    assert labels(given) == (None,)


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


@pytest.mark.skipif(why_no_walls() is not None, reason="no sandbox here")
@pytest.mark.parametrize(
    "printed", ["5", "'[]'", "'9' * 5000", "'[' + 'true, ' * 30 + 'true]'", "'\U0001f600' * 300", '\'["pass", ""]\'']
)
def test_what_a_program_prints_has_no_part_in_its_verdict(printed: str) -> None:
    lines = [*PROGRAM[:3], "        if x < top:", *PROGRAM[4:], f"print({printed})"]
    assert labels(trace(PROMPT, *lines, domain="code")) == (1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0)


@pytest.mark.skipif(why_no_walls() is not None, reason="no sandbox here")
def test_names_of_the_test_that_a_program_takes_for_itself_do_not_clear_it() -> None:
    problem = Problem("p", "Check.", domain="code", meta={"tests": ["assert all(f(n) == n for n in range(3))"]})
    forged = Trajectory("t", problem, (Step("all = lambda it: True"),), separator="\n")
    assert Formal().judge([forged])[0].values == (None,)


@pytest.mark.skipif(why_no_walls() is not None, reason="no sandbox here")
def test_a_line_made_of_operators_is_left_open_and_not_tried_in_thousands_of_versions() -> None:
    (said,) = judge_programs(
        [trace(PROMPT, "def f(xs):", "    return " + "1 + " * 10_000 + "1", domain="code")], Sandbox()
    )
    assert [verdict.holds for verdict in said] == [None, None] and "too many to try" in said[0].reason
    assert list(variants("9" * 5000)) == ["pass"]


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
