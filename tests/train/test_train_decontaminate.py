"""Training problems that are evaluation problems are found; problems of one template are not mistaken for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from footfall.train.decontaminate import find_overlaps, normalise
from footfall.types import Problem

LONG = (
    "A farmer has 12 cows and 7 pigs on a field near the river. Every morning he milks each cow twice and sells the "
    "milk for 3 dollars a litre. If each cow gives 5 litres a day, how much money does the farmer make in a week?"
)


def kinds(train: str, evaluation: str, **options: object) -> list[str]:
    found = find_overlaps([Problem("t", train)], [Problem("e", evaluation)], **options)  # type: ignore[arg-type]
    return [overlap.kind for overlap in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 3 + 4?", "  what IS\n3+4 ."),
        (r"Compute $\frac{1}{2}\,x$", r"compute \frac {1} {2} x"),
        (r"Solve \(x^2 = 4\).", r"Solve $x^2=4$"),
        ("There are 1,000 apples", "There are 1000 apples"),
        ("ｆｕｌｌ width ①", "full width 1"),
        ("it’s 3 − 2", "it's 3 - 2"),
        (r"Compute $\dfrac{1}{2}x^{2}$", r"Compute $\frac12 x^2$"),
        (r"How many \text{red} balls?", "how many red balls?"),
        ("What\u200b is the nu\u00adm\u00adber?", "What is the number?"),
    ],
)
def test_layout_case_and_punctuation_do_not_hide_a_problem(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)
    assert kinds(one, other) == ["exact"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 + 4", "3 * 4"),
        ("3 - 4", "3 4"),
        ("x = 3.5", "x = 35"),
        ("5!", "5"),
        ("f(-2)", "f(2)"),
        ("a_1", "a_2"),
        (r"\{2\}", "2"),
        (r"\frac{1}{23}", r"\frac{12}{3}"),
        (r"a \leftarrow b", r"a \rightarrow b"),
    ],
)
def test_what_changes_the_mathematics_changes_the_normal_form(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_a_problem_inside_a_longer_prompt_is_found() -> None:
    (overlap,) = find_overlaps([Problem("t", f"Think hard. {LONG} Show your work.")], [Problem("e", LONG)])
    assert (overlap.train_id, overlap.eval_id, overlap.kind, overlap.overlap) == ("t", "e", "ngram", 1.0)


def test_a_light_edit_is_found_with_the_shared_part() -> None:
    (overlap,) = find_overlaps([Problem("t", LONG.replace("farmer make", "man earn"))], [Problem("e", LONG)])
    assert 0.5 <= overlap.overlap < 1


def test_other_numbers_make_another_problem_unless_told_otherwise() -> None:
    other = LONG.replace("5 litres", "6 litres")
    assert kinds(other, LONG) == []
    assert kinds(other, LONG, same_numbers=False) == ["ngram"]


def test_a_short_problem_needs_a_larger_shared_part() -> None:
    short = "Anna has 3 apples and buys 4 more apples"
    assert kinds("Anna has 3 apples and buys 4 more apples today", short) == ["ngram"]
    assert kinds("Anna has 3 apples and eats 4 more apples", short) == []
    assert kinds("3 + 4", "4 + 3") == []


def test_a_problem_asked_many_times_is_reported_once() -> None:
    assert len(find_overlaps([Problem("t", "What is 3 + 4?")] * 5, [Problem("e", "what is 3+4")])) == 1


def test_importing_it_loads_no_torch() -> None:
    code = "import sys, footfall.train, footfall.reward, footfall.train.decontaminate; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
