"""Final answers are found where they are stated and compared as mathematics, never as substrings."""

from __future__ import annotations

import io
import os
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall import answers
from footfall._answers_worker import serve
from footfall.answers import canonical, equal, extract, grade
from footfall.helper import HelperProcess
from footfall.types import Problem, Step, Trajectory


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("so x is \\boxed{\\frac{1}{2}} as wanted", "\\frac{1}{2}"),
        ("first \\boxed{3}, no: \\boxed{4}", "4"),
        ("\\boxed{\\text{the set } \\{1, 2\\}}", "the set \\{1, 2\\}"),
        ("\\boxed{5} and then a cut \\boxed{6", "5"),
        ("\\boxed 5", "5"),
        ("The answer is: 5", "5"),
        ("The answer is 3.5. That was easy.", "3.5"),
        ("The answer is 57,500.", "57,500"),
        ("The final answer is $x = 5$.", "x = 5"),
        ("The answer is:\n\n9", "9"),
        ("The answer is:\n\\[\n9x\n\\]", "9x"),
        ("**Answer:**\n$$\n9\n$$\nas wanted", "9"),
        ("The answer is $\\boxed{7}$.", "7"),
        ("I make 70 of them.\n#### 72", "72"),
        ("# Answer\n\n42", "42"),
        ("**Answer:** 8", "8"),
        ("**Answer**: 8", "8"),
        ("**Final Answer**\n\n8", "8"),
        ("I thought the answer is 5. But the answer is 6.", "6"),
        ("The answer is $34\\text{ sq. units}$.", "34 sq. units"),
        ("\\boxed{5}\n\nThe answer is: 6", "6"),
    ],
)
def test_the_last_stated_answer_is_found(text: str, answer: str) -> None:
    assert extract(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I got 5",
        "#### Common factors\n23 and 5",
        "Answer the question: 5 apples",
        "\\boxed{}",
        "\\boxed{6",
        "# Answer",
    ],
)
def test_a_number_that_merely_stands_somewhere_is_not_an_answer(text: str) -> None:
    assert extract(text) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is (B).", "B"),
        ("The answer is C) 42", "C"),
        ("\\boxed{\\text{D}}", "D"),
        ("Answer: a", "A"),
        ("The answer is option E.", "E"),
        ("\\boxed{42}", None),
        ("The answer is Blue", None),
    ],
)
def test_choices_are_letters(text: str, letter: str | None) -> None:
    assert extract(text, "choice") == letter


EQUAL = [
    ("57,500", "57500"),
    ("\\$57{,}500.00", "57500"),
    ("11,\\! 111", "11111"),
    ("1/2", "0.5"),
    ("\\frac12", "\\dfrac{1}{2}"),
    ("-\\frac{1}{2}", "\\frac{-1}{2}"),
    ("1 1/2", "1.5"),
    ("1\\frac{1}{2}", "3/2"),
    ("50\\%", "0.5"),
    ("50%", "50"),
    ("5 apples", "5"),
    ("10\\text{ cm}", "10 cm"),
    ("90^\\circ", "90 degrees"),
    ("0.333333", "1/3"),
    ("(1, 1/2)", "\\left(1, 0.5\\right)"),
    ("\\text{Even}", "even"),
    ("x=5", "5"),
    ("(x+1)^2", "x^2+2x+1"),
    ("2\\sqrt{3}", "\\sqrt{12}"),
    ("11\\sqrt2", "11\\sqrt{2}"),
    ("\\{1,2\\}", "\\{2,1\\}"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"),
]
DIFFERENT = [
    ("5", "15"),
    ("0.5", "50"),
    ("5 cm", "5 m"),
    ("5 million", "5"),
    ("0.333", "1/3"),
    ("12", "1 2"),
    ("1 2", "3"),
    ("(1,2)", "[1,2)"),
    ("(2,1)", "(3,1)"),
    ("(1,2)", "(1,2,3)"),
    ("listen", "silent"),
    ("x=5", "y=5"),
    ("x^2", "x^3"),
    ("", ""),
    ("no", "yes"),
]


SAME_UNITS = [
    ("864", "864 \\mbox{ inches}^2"),
    ("15\\text{ cm}^2", "15 \\text{ square centimeters}"),
    ("10 miles per hour", "10 \\text{ mph}"),
    ("3 \\text{ m/s}^2", "3"),
    ("12\\sqrt{13}\\text{ feet}", "12\\sqrt{13}"),
    ("164 \\pi \\mbox{ square feet}", "164\\pi\\text{ ft}^2"),
    ("2 hours", "2 hr"),
    ("6 men", "6"),
    ("10cm", "10"),
]
SAME_NUMBERS = [
    ("6\\cdot 7", "42"),
    ("6 \\times 7 = 42", "42"),
    ("1.5\\times 10^3", "1500"),
    ("6.63 \\cdot 10^{-34}", "6.63e-34"),
    ("3.333333e-7", "1/3000000"),
    ("\\log_2 8", "3"),
    ("3 \\pm 2\\sqrt{2}", "3+2\\sqrt{2}, 3-2\\sqrt{2}"),
    ("\\frac{1}{2^{98}}", "2^{-98}"),
    ("1010_2", "10_{10}"),
    ("\\sqrt[3]2", "\\sqrt[3]{2}"),
    ("4 + \\frac\\pi 2", "\\frac{\\pi}{2} + 4"),
    ("4343_6", "4343"),
]
SAME_PRODUCTS = [("6t^2+4t", "4t+6t^2"), ("3ab", "3ba"), ("\\frac12 bh", "\\frac{bh}{2}"), ("2c+1", "1+2c")]


@pytest.mark.parametrize(("a", "b"), [*SAME_UNITS, *SAME_NUMBERS, *SAME_PRODUCTS])
def test_units_powers_of_ten_and_variables_are_read_as_what_they_are(a: str, b: str) -> None:
    assert equal(a, b)
    assert equal(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("15 cm^2", "15 cm^3"),
        ("12\\sqrt{13}\\text{ feet}", "12\\sqrt{13}\\text{ cm}"),
        ("4t", "4"),
        ("2s", "2"),
        ("3ab", "3"),
        ("6t^2+4t", "6t^2+4"),
        ("2\\pi rh", "2\\pi"),
        ("5m^2", "5"),
    ],
)
def test_a_variable_is_no_unit_and_units_may_contradict(a: str, b: str) -> None:
    """Of 4,315 answers of MATH two are `4t` and `2s`: they were equal to `4` and `2`."""
    assert not equal(a, b)
    assert not equal(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("\\frac{1}{2^{68}}", "\\frac{1}{2^{98}}"),
        ("10^{-20}", "10^{-30}"),
        ("6.63\\times10^{-34}", "1.6\\times 10^{-19}"),
        ("1010_2", "1010_3"),
        ("28_3", "28_9"),
    ],
)
def test_small_numbers_and_numbers_of_two_bases_are_told_apart(a: str, b: str) -> None:
    assert not equal(a, b)
    assert not equal(b, a)
    assert canonical(a) != canonical(b)


@pytest.mark.parametrize(
    ("a", "b"), [("-(\\frac{2}{5}, \\frac{1}{2})", "(\\frac25, \\frac12)"), ("\\frac12 < < \\frac34", "\\frac34")]
)
def test_a_text_that_cannot_be_read_whole_is_not_taken_for_a_fraction_in_it(a: str, b: str) -> None:
    assert not equal(a, b)
    assert not equal(b, a)


@pytest.mark.long
@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_as_mathematics(a: str, b: str) -> None:
    assert equal(a, b)
    assert equal(b, a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_as_mathematics(a: str, b: str) -> None:
    assert not equal(a, b)
    assert not equal(b, a)


def test_other_domains_compare_letters_or_text() -> None:
    assert equal("(B)", "b", "choice")
    assert not equal("B", "C", "choice")
    assert not equal("42", "42", "choice")
    assert equal("New  York", "new york", "agent")
    assert not equal("x+x", "2x", "agent")
    assert equal("1,000", "1000", "agent")


@pytest.mark.parametrize(
    ("a", "b"), [("1/2", "0.50"), ("(x+1)^2", "x^2+2x+1"), ("(1, 1/2)", "(1,0.5)"), ("3:2", "1.5")]
)
def test_equal_answers_mostly_share_a_canonical_string(a: str, b: str) -> None:
    assert canonical(a) == canonical(b)


def test_a_word_is_no_product_of_variables() -> None:
    assert equal("\\text{odd}", "Odd") and not equal("\\text{odd}", "ddo")
    assert equal("VW", "WV"), "letters that are not said to be a word are a product, as to math-verify"


def test_a_long_run_of_spaces_costs_time_in_proportion() -> None:
    assert not equal("\\sqrt" + " " * 100_000 + ".", "2")


def test_different_equations_do_not_share_a_canonical_string() -> None:
    assert canonical("x=5") != canonical("y=5")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="0123456789.,/%-+$ xyE\\{}()[]frac^!\x00é", max_size=12), st.sampled_from(["5", "1/2", "x"]))
def test_garbage_is_never_an_error_and_equality_is_symmetric(text: str, other: str) -> None:
    assert equal(text, other) == equal(other, text)
    assert isinstance(canonical(text), str)


@given(st.text(max_size=200))
def test_any_text_may_be_searched_for_an_answer(text: str) -> None:
    answer = extract("The answer is " + text)
    assert answer is None or isinstance(answer, str)


@given(st.fractions(max_denominator=1000))
def test_a_fraction_equals_itself_in_latex(number: object) -> None:
    over, _, under = str(number).partition("/")
    assert equal(str(number), f"\\frac{{{over}}}{{{under or 1}}}")


def helper(module: str = "footfall._answers_worker", cpu_seconds: float = 3.0) -> HelperProcess:
    return HelperProcess(module, cpu_seconds, "run it")


@pytest.mark.long
def test_a_hostile_power_costs_its_time_limit_and_not_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_worker", helper(cpu_seconds=0.3))
    # Simplifying this is one big-integer call that no signal handler can interrupt.
    tower = "9^{9^{9^9}}"
    assert canonical(tower) == tower
    assert not equal(tower, "\\sqrt{2}")
    assert equal("x+x", "2x")  # and the next question is answered
    answers._worker.close()


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("3", "\\sin 80^\\circ (4 \\cos 80^\\circ - 1)", False),
        ("\\frac{1 + \\sqrt{5}}{2}", "\\frac{2}{\\sqrt{5} - 1}", True),
        ("10^{-20}", "10^{-30}", False),
        ("0.333333", "1/3", True),
        ("9\\%", "9", True),
    ],
)
def test_numbers_are_compared_by_value_and_not_by_how_long_a_proof_takes(a: str, b: str, same: bool) -> None:
    """Of the first pair sympy has no proof in its time, so that a faster machine said more; a percentage ended the helper."""
    assert answers._ask("same", a, b) is same


def test_the_first_question_has_its_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sympy builds once took a third of it, and all of it where the machine was busy."""
    asked: list[str] = []
    monkeypatch.setattr("footfall._answers_worker._limit_time", lambda seconds: asked.append("limit"))
    monkeypatch.setattr("sys.stdin", io.StringIO('"a question"\n'))
    monkeypatch.setattr("footfall._answers_worker._limit_memory", lambda: None)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    serve(lambda request: asked.append(str(request)), 3.0, first="what is built once")
    assert asked == ["what is built once", "limit", "a question", "limit"]


def test_long_answers_do_not_stay_in_memory() -> None:
    """A model may write megabytes in a box, and a run compares thousands of answers."""
    tracemalloc.start()
    try:
        for k in range(60):
            text = extract(rf"\boxed{{{k} {'x' * 100_000}}}")
            assert text is not None and not equal(text, str(k))
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


def test_answers_are_compared_in_threads_too() -> None:
    said: list[bool] = []
    threads = [
        threading.Thread(target=lambda k=k: said.append(equal(f"\\sqrt{{{k * k}}}", str(k)))) for k in range(2, 8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [True] * 6


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="needs fork")
def test_a_forked_child_asks_a_process_of_its_own() -> None:
    assert equal("\\sqrt{75}", "5\\sqrt{3}")
    child = os.fork()
    if child == 0:
        os._exit(0 if equal("\\sqrt{48}", "4\\sqrt{3}") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert equal("\\sqrt{27}", "3\\sqrt{3}")


@pytest.mark.long
def test_a_folder_with_a_types_module_does_not_break_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "types.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(answers, "_worker", helper())
    assert answers.same_expression("\\sqrt{20}", "2\\sqrt{5}")
    answers._worker.close()


def test_a_missing_helper_process_is_an_error_and_not_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_worker", helper("footfall._no_such_module"))
    with pytest.raises(RuntimeError, match="does not start"):
        answers._ask("reads", "x+1")


def trajectory(*steps: str, answer: str | None = "12", domain: str = "math") -> Trajectory:
    return Trajectory("t", Problem("p", "6 + 6?", answer, domain), tuple(map(Step, steps)))


def test_grade_sets_answer_and_verdict() -> None:
    right = grade(trajectory("6 + 6 = 12.", "The answer is 12."))
    assert (right.answer, right.correct) == ("12", True)
    wrong = grade(trajectory("6 + 6 = 112.", "The answer is 112."))
    assert (wrong.answer, wrong.correct) == ("112", False)


def test_grade_without_reference_gives_no_verdict_and_without_answer_is_wrong() -> None:
    assert grade(trajectory("The answer is 12.", answer=None)).correct is None
    silent = grade(trajectory("6 + 6 = 12."))
    assert (silent.answer, silent.correct) == (None, False)


def test_grade_reads_choices_by_the_problem_s_domain() -> None:
    assert grade(trajectory("The answer is (B).", answer="B", domain="choice")).correct is True


def test_what_a_tool_or_a_person_says_is_not_the_solver_s_answer() -> None:
    asked = Step("I ask the tool.", "calculate(6 + 6)", "The answer is 12.")
    problem = Problem("p", "6 + 6?", "12")
    heard = grade(Trajectory("t", problem, (asked,)))
    assert (heard.answer, heard.correct) == (None, False)
    hinted = grade(Trajectory("t", problem, (Step("The answer is 12.", author="person"), asked)))
    assert hinted.answer is None
    told = grade(Trajectory("t", problem, (asked, Step("So the answer is 13.", None, "The answer is 12."))))
    assert (told.answer, told.correct) == ("13", False)
