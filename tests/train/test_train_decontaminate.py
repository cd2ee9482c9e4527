"""Training problems that are evaluation problems are found; problems of one template are not mistaken for them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
        (r"zeros of $x^4 + jx^2 + kx + 225$", r"zeros of $x^{4}+j x^{2}+k x+225$"),
        (r"Let \(0 \le y \le \frac{\pi}{2}\).", r"Let $0 \leq y \leq \pi / 2$"),
        (r"$ax+by=3,$ $ax^2+by^2=7$", r"$a x+b y=3, a x^{2}+b y^{2}=7$"),
        (r"$\tfrac{a+b}{2c}$", "$(a + b) / (2c)$"),
        (r"$\frac{\sqrt{3}}{x^{2}}$", r"$\sqrt3/x^2$"),
        (r"$256^\frac{1}{2}$", r"$256^{\dfrac12}$"),
        (r"$a_1,$ $a_2,$ $\dots$ and $1 + \cdots + n$", r"$a_{1}, a_{2}, \ldots$ and $1 + ... + n$"),
        (r"\begin{align*} x &= 1 \\ y &\leq 2 \end{align*}", r"$$x = 1$$ $$y \le 2$$"),
        (r"It costs $\$14.40$ and $60\%$ off", "It costs $14.40 and 60% off"),
        (r"the number $3{,}000$ or $3,\!000$", "the number 3000 or 3,000"),
        (r"Read this:\n\nWhat is $\nu \neq 3$?\nIt is real.", "Read this:\n\nWhat is $\\nu \\neq 3$? It is real."),
        ("$f'(x)$ is x² + 3½", r"$f^{\prime}(x)$ is $x^2$ + 3 1/2"),
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
        ("$z^4 - z^2 + 1$", "$z^4 + z^2 + 1$"),
        (r"$\tan 225^\circ$", r"$\tan 22.5^\circ$"),
        ("weighs .5 pounds", "weighs 5 pounds"),
        ("$a-b$", "$ab$"),
        ("$x^{2n}$", "$x^2 n$"),
        ("5²", "52"),
        ("$f'(x)$", "$f(x)$"),
        ("$n!$", "$n$"),
        (r"$\frac{1}{2}x$", r"$\frac{1}{2x}$"),
        (r"$a + \frac{b}{c}$", r"$\frac{a+b}{c}$"),
        (r"$\frac{a}{bc}$", "$a/b c$"),
        (r"$\sin\frac{\pi}{2}$", r"$\frac{\sin\pi}{2}$"),
        (r"$a\frac{-b}{c}$", r"$a - b/c$"),
        (r"\frac{1}{\frac{2}{3}}", r"\frac{\frac{1}{2}}{3}"),
    ],
)
def test_what_changes_the_mathematics_changes_the_normal_form(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)
    assert kinds(one, other) == []


def test_amounts_of_money_open_no_formula() -> None:
    """What stands between two dollars is words, and the formula behind them is one all the same."""
    assert normalise("for $5 or so and $7 an ax; $ax-y$") == (
        "for", "5", "or", "so", "and", "7", "an", "ax", "a", "x", "\u2212", "y",
    )  # fmt: skip


def test_a_formula_without_dollars_is_found() -> None:
    """As benchmarks have it that were written down anew by a model."""
    told = r"What is the intersection of $y=ax-b$ and $-y=bx^2 - ax + \overline{AB}$?"
    assert kinds(told, told.replace("$", "")) == ["exact"]


SPOKEN = st.sampled_from(
    (*"abxyn01279+-=<>()[]{}|!'.,^_/$&\\", r"\frac", r"\frac12", r"\sqrt", r"\dots", r"\le", r"\geq", r"\text{ab}", r"\left(",
     r"\{", r"\}", r"\(", r"\)", r"\[", r"\]", r"\\", r"\$", r"\n", r"\nu", r"\N", r"\prime", r"^{\prime}", r"\begin{align}",
     r"\end{align}", "{,}", ",\\!", " ", " ", "word", "\u2212", "²", "½", "°", "≤", "π", "é", "\u00ad", "的", "ﬁ", "\n")
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(SPOKEN, max_size=20).map("".join) | st.text(max_size=20))
@example(r"$-\frac{x}{2}$ {-x} -{2}")
@example(r"\{2\} \frac\frac 1 2 3")
@example(r"5! n! $n!$")
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    once = normalise(text)
    assert normalise(" ".join(once)) == once


TERMS = st.recursive(
    st.sampled_from(("a", "b", "x", "y", "2", "13", "0.5", r"\pi")),
    lambda inner: st.tuples(
        st.sampled_from(("%s + %s", "%s - %s", r"\frac{%s}{%s}", "{%s}^{%s}", "(%s)(%s)")), inner, inner
    ).map(lambda parts: parts[0] % parts[1:]),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(TERMS)
def test_ways_to_lay_out_a_formula_have_one_normal_form(formula: str) -> None:
    form = normalise(f"Find ${formula} = 0$ now.")
    for layout in (
        f"find \\[{formula}=0\\] now",
        f"Find \\begin{{align*}}{formula} &= 0\\end{{align*}} now.",
        "Find $" + formula.replace("frac", "dfrac").replace(" ", "\\, ") + "\n= 0$ now",
        "Find $$ " + formula.replace("(", "\\left( ").replace(")", " \\right)").replace("^", " ^ ") + r" \; = 0.$$ now",
    ):
        assert normalise(layout) == form


@given(TERMS, TERMS)
def test_a_sign_an_exponent_and_a_side_of_a_fraction_are_seen(one: str, other: str) -> None:
    plus, minus, power = (
        normalise(f"${form}$") for form in (f"{one} + {other}", f"{one} - {other}", f"{{{one}}}^{{{other}}}")
    )
    assert len({plus, minus, power}) == 3
    if normalise(f"${one}$") != normalise(f"${other}$"):
        assert normalise(rf"$\frac{{{one}}}{{{other}}}$") != normalise(rf"$\frac{{{other}}}{{{one}}}$")


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
