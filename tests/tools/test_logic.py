"""Entailment: Z3 and forward chaining agree, a "no" comes with a countermodel, "not known" with a reason."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.tools.formula import And, Atom, Equal, Exists, Forall, Formula, FormulaError, Iff, Implies, Not, Or, parse
from footfall.tools.logic import consistent, derive, entails

SOCRATES = ["forall x. (man(x) implies mortal(x))", "man(socrates)"]
ORDER = ["forall x y z. (lt(x, y) and lt(y, z)) -> lt(x, z)", "forall x. not lt(x, x)"]


@pytest.mark.parametrize(
    ("premises", "conclusion", "holds"),
    [
        (["p -> q", "p"], "q", True),
        (["p -> q", "not q"], "not p", True),
        (["p -> q", "q"], "p", False),
        (["p or q", "not p"], "q", True),
        (["p or q"], "p", False),
        ([], "p or not p", True),
        (["p", "not p"], "q", True),
        (["p iff q", "q iff r"], "p iff r", True),
        (SOCRATES, "mortal(socrates)", True),
        (SOCRATES, "mortal(plato)", False),
        (SOCRATES, "exists x. mortal(x)", True),
        (["exists x. p(x)"], "forall x. p(x)", False),
        (["forall x. p(x)"], "exists x. p(x)", True),
        (["exists y. forall x. loves(x, y)"], "forall x. exists y. loves(x, y)", True),
        (["forall x. exists y. loves(x, y)"], "exists y. forall x. loves(x, y)", False),
        (["a = b", "p(a)"], "p(b)", True),
        (["p(a)", "not p(b)"], "a != b", True),
        (["forall x y. x = y", "p(a)"], "p(b)", True),
        ([*ORDER, "lt(a, b)", "lt(b, c)"], "lt(a, c)", True),
        ([*ORDER, "lt(a, b)"], "lt(b, a)", False),
        ([*ORDER, "lt(a, b)"], "not lt(b, a)", True),
        (["forall x. (p(x) -> forall x. q(x))", "p(a)"], "q(b)", True),
    ],
)
def test_what_follows_and_what_does_not(premises: list[str], conclusion: str, holds: bool) -> None:
    for method in ("auto", "z3"):
        found = entails(premises, conclusion, method=method)
        assert found.holds is holds, found
        assert (found.model is None) is holds and found.reason
        if found.model is not None:
            assert all(found.model.satisfies(parse(premise)) for premise in premises)
            assert not found.model.satisfies(parse(conclusion))


def test_a_countermodel_is_readable() -> None:
    assert entails(["p or q", "p -> r"], "r").countermodel == "true: q\nall else is false"
    found = entails(["man(socrates)"], "man(plato)")
    assert found.countermodel == "elements: plato, socrates\ntrue: man(socrates)\nall else is false"


def test_what_z3_cannot_decide_is_not_known() -> None:
    endless = [*ORDER, "forall x. exists y. lt(x, y)"]  # true in infinite models only
    found = entails(endless, "p", timeout_ms=200)
    assert found.holds is None and found.reason.startswith("Z3 does not know")


def test_an_entailment_is_not_a_truth_value() -> None:
    with pytest.raises(TypeError, match="three values"):
        assert entails(["p"], "p")


def test_all_facts_that_follow_from_horn_clauses() -> None:
    clauses = ["edge(a, b)", "edge(b, c)", "forall x y. edge(x, y) -> path(x, y)"]
    clauses.append("forall x y z. (edge(x, y) and path(y, z)) -> path(x, z)")
    facts = derive(clauses)
    assert facts is not None
    assert {str(fact) for fact in facts if fact.predicate == "path"} == {"path(a, b)", "path(b, c)", "path(a, c)"}
    assert derive(["p or q"]) is None


def test_a_rule_whose_head_has_its_own_variable_holds_for_every_constant() -> None:
    assert entails(["forall x. likes(x, ann)"], "likes(bob, ann)", method="horn").holds is True
    assert entails(["forall x y. (rich(y) -> happy(x))", "rich(ann)"], "happy(bob)", method="horn").holds is True


def test_forward_chaining_with_too_many_matches_is_left_to_z3() -> None:
    clauses = [f"e(c{n}, c{n})" for n in range(16)] + [
        "forall a b c d. (e(a, a) and e(b, b) and e(c, c) and e(d, d)) -> q"
    ]
    assert derive(clauses) is None
    assert entails(clauses, "q", timeout_ms=10_000).holds is True


def test_without_horn_form_the_fast_path_does_not_answer() -> None:
    found = entails(["p or q"], "p", method="horn")
    assert found.holds is None and "not Horn" in found.reason


def test_consistency_comes_with_a_model() -> None:
    found = consistent(["exists x. p(x)", "exists x. not p(x)"])
    assert found.holds is True and found.model is not None and len(found.model.elements) >= 2
    assert consistent(["p", "not p"]).holds is False


NAMES = st.sampled_from(["a", "b", "c"])
VARIABLES = st.sampled_from(["x", "y"])
TERMS = st.one_of(NAMES, VARIABLES)
ATOMS = st.one_of(
    st.builds(Atom, st.sampled_from(["p", "q"])),
    st.builds(lambda t: Atom("r", (t,)), TERMS),
    st.builds(lambda s, t: Atom("s", (s, t)), TERMS, TERMS),
    st.builds(Equal, TERMS, TERMS),
)


def _larger(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    pairs = [st.builds(kind, parts, parts) for kind in (And, Or, Implies, Iff)]
    quantified = [st.builds(kind, VARIABLES, parts) for kind in (Forall, Exists)]
    return st.one_of(st.builds(Not, parts), *pairs, *quantified)


FORMULAS: st.SearchStrategy[Formula] = st.recursive(ATOMS, _larger, max_leaves=6)


@settings(max_examples=200, deadline=None)
@given(FORMULAS)
def test_what_is_printed_is_read_back(formula: Formula) -> None:
    assert parse(str(formula)) == formula


@settings(max_examples=40, deadline=None)
@given(st.lists(FORMULAS, max_size=3), FORMULAS)
def test_a_formula_and_its_negation_do_not_both_follow_from_what_has_a_model(
    premises: list[Formula], wanted: Formula
) -> None:
    yes, no = (entails(premises, formula, timeout_ms=300) for formula in (wanted, Not(wanted)))
    if yes.holds is True and no.holds is True:
        assert consistent(premises, timeout_ms=300).holds is not True
    for found, formula in ((yes, wanted), (no, Not(wanted))):
        if found.model is not None:
            assert all(map(found.model.satisfies, premises)) and not found.model.satisfies(formula)


GROUND = st.one_of(st.builds(Atom, st.sampled_from(["p", "q"])), st.builds(lambda t: Atom("r", (t,)), NAMES))
OPEN = st.one_of(st.builds(lambda t: Atom("r", (t,)), TERMS), st.builds(lambda s, t: Atom("s", (s, t)), TERMS, TERMS))


def _rule(body: list[Atom], head: Atom) -> Formula:
    formula: Formula = head
    if body:
        left: Formula = body[0]
        for atom in body[1:]:
            left = And(left, atom)
        formula = Implies(left, formula)
    return Forall("x", Forall("y", formula))


RULES = st.builds(_rule, st.lists(st.one_of(GROUND, OPEN), max_size=3), st.one_of(GROUND, OPEN))
FACTS = st.one_of(GROUND, st.builds(lambda s, t: Atom("s", (s, t)), NAMES, NAMES))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(RULES, FACTS), max_size=6), FACTS)
def test_forward_chaining_agrees_with_z3(premises: list[Formula], fact: Atom) -> None:
    horn, z3 = entails(premises, fact, method="horn"), entails(premises, fact, method="z3")
    assert horn.holds is not None
    assert z3.holds in (horn.holds, None)


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("p and q or r", Or(And(Atom("p"), Atom("q")), Atom("r"))),
        ("p -> q -> r", Implies(Atom("p"), Implies(Atom("q"), Atom("r")))),
        ("not p and q", And(Not(Atom("p")), Atom("q"))),
        ("∀x. ¬p(x) ∨ x ≠ a", Forall("x", Or(Not(Atom("p", ("x",))), Not(Equal("x", "a"))))),
        ("forall x, y: s(x, y)", Forall("x", Forall("y", Atom("s", ("x", "y"))))),
        ("exists x. p & q", Exists("x", And(Atom("p"), Atom("q")))),
    ],
)
def test_how_formulas_are_written(text: str, formula: Formula) -> None:
    assert parse(text) == formula


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p and and q", "character 7 .*`and` instead of a proposition"),
        ("p(", "the end instead of a term"),
        ("(p", r"the end instead of `\)`"),
        ("forall . p", "instead of a variable"),
        ("p q", "`q` instead of the end of the formula"),
        ("__import__('os')", "instead of a term"),
        ("not " * 200 + "p", "at most 100 levels"),
        ("p" * 30_000, "at most 20000"),
        ("", "the end instead of a proposition"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        parse(text)


EIGHT = " ".join(f"x{i}" for i in range(8))
MANY = [f"q(c{i})" for i in range(12)]
"""Eight quantifiers over twelve things: 12^8 cases, hours of them."""


@pytest.mark.parametrize(
    "rule",
    [
        f"forall {EIGHT}. (({' and '.join(f'p(x{i})' for i in range(8))}) implies r(x0))",
        f"forall {EIGHT}. (not p(x7) or p(x7))",
    ],
    ids=["forward chaining", "Z3"],
)
def test_a_countermodel_that_would_take_hours_to_check_is_none(rule: str) -> None:
    apart = [f"c{i} != c{k}" for i in range(12) for k in range(i)] if "not" in rule else []
    said = entails([*MANY, *apart, rule], "r(c0)")
    assert said.holds is None and "too large to check" in said.reason
    assert entails([*MANY, rule], "q(c3)").holds is True


def test_a_predicate_has_one_number_of_arguments() -> None:
    with pytest.raises(FormulaError, match=r"`p\(a, b\)`: elsewhere `p` has 1 arguments"):
        entails(["p(a)"], "p(a, b)")


def test_the_room_loads_neither_z3_nor_sympy_before_they_are_needed() -> None:
    script = "import sys, footfall.tools; print(sorted({'z3', 'sympy', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
