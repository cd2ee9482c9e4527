"""The logic world: its problems, and its checker by example and against Z3."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import z3  # type: ignore[import-untyped, unused-ignore]
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.registry import create
from footfall.tools import logic
from footfall.tools.formula import And, Atom, Forall, Formula, Implies, Not
from footfall.types import Problem, Step, Trajectory
from footfall.worlds import LogicPolicy, LogicWorld, StepTruth, TruthJudge
from footfall.worlds.logic.problem import (
    NOUNS,
    Literal,
    Question,
    Rule,
    Theory,
    clause,
    grounded,
    known,
    logic_of,
    rule_clauses,
    to_meta,
)
from footfall.worlds.logic.world import meaning_of

WORLD = LogicWorld()
R, W, C = StepTruth.RIGHT, StepTruth.WRONG, StepTruth.CONSEQUENT


def is_(word: str, who: str = "X", positive: bool = True) -> Literal:
    return Literal(word, (who,), positive)


THEORY = Theory(
    facts=(is_("dax", "Rex"), is_("red", "Rex"), Literal("chase", ("Tim", "Rex"))),
    rules=(
        Rule((is_("dax"),), is_("wug")),
        Rule((is_("wug"), is_("red")), is_("fep")),
        Rule((is_("fep"),), is_("tove", positive=False)),
        Rule((Literal("chase", ("X", "Y")), is_("dax", "Y")), is_("mip")),
        Rule((is_("zorp"),), is_("blick")),
        Rule((is_("mip", "Tim"),), is_("old", "Rex")),
    ),
)
PROBLEM = Problem("p", "…", "false", "logic", meta=to_meta(THEORY, Question((is_("tove", "Rex"),))))


def trace(*lines: str, problem: Problem = PROBLEM) -> Trajectory:
    return Trajectory("t", problem, tuple(Step(line) for line in lines), separator="\n")


TABLE: dict[str, tuple[list[str], list[StepTruth | None]]] = {
    "a proof": (
        ["Since every dax is a wug, Rex is a wug.", "Rex is a fep, because everything that is a wug and red is a fep.",
         "No fep is a tove, so Rex is not a tove.", "The answer is false."],
        [R, R, R, R],
    ),
    "the support may name facts too": (
        ["Rex is a dax and every dax is a wug, so Rex is a wug.", "Since Rex is a wug and Rex is red, Rex is a fep."],
        [R, R],
    ),
    "other wordings of rules": (
        ["All daxes are wugs. So Rex is a wug.", "If something is a wug and it is red, then it is a fep.",
         "Any fep is not a tove, therefore Rex isn't a tove.", "Whatever chases a dax is a mip, hence Tim is a mip.",
         "If Tim is a mip, then Rex is old, so Rex is old."],
        [R, R, R, R, R],
    ),
    "other writers' habits": (
        ["1. Rex is a dax (given), and all daxes are wugs. Therefore, Rex must be a wug.", "Daxes are wugs.",
         "From the rule that every dax is a wug, we can conclude that Rex is a wug.",
         "Rex is a wug (since every dax is a wug).", "Rex is both a wug and red, so Rex is a fep.",
         "Thus, Rex is a fep and not a tove.", "Tim cannot be a zorp.",
         "Hence the statement 'Rex is a tove' is false.", "The answer is **false**."],
        [R, R, R, R, R, R, W, R, R],
    ),
    "a skipped step is sound": (["Rex is not a tove.", "Rex is a fep."], [R, R]),
    "a rule whose condition is not met": (["Since every zorp is a blick, Rex is a blick."], [W]),
    "a rule read backwards": (["Rex is a wug.", "Tim is a dax, because every dax is a wug."], [R, W]),
    "the wrong sign": (["Rex is not a wug, because every dax is a wug.", "The answer is unknown."], [W, W]),
    "a rule that is not given": (["Since every dax is a tove, Rex is a tove.", "The answer is true."], [W, C]),
    "a rule that follows from others is fine": (["Everything that is a dax and red is a fep, so Rex is a fep."], [R]),
    "right, but not by the rule named": (["Rex is a wug, because every zorp is a blick."], [W]),
    "built on an error": (["Rex is a zorp.", "Since every zorp is a blick, Rex is a blick."], [W, C]),
    "a claim taken back": (
        ["Rex is a zorp.", "Wait, it does not follow that Rex is a zorp.", "Rex is a blick."], [W, R, W],
    ),
    "taking back what is true": (["It does not follow that Rex is a wug."], [W]),
    "nothing says so": (["Nothing says whether Tim is a zorp.", "We cannot conclude that Rex is a zorp."], [R, R]),
    "a contrapositive": (["Tim is a tove.", "Tim is not a fep, because no fep is a tove."], [W, C]),
    "several sentences: the worst counts": (["Rex is a wug. Rex is a zorp.", "Rex is a wug. Hm!"], [W, None]),
    "after the answer": (["The answer is false.", "Rex is a wug.", "The answer is true."], [R, W, W]),
    "cannot be read": (
        ["Let me think about it.", "Rex is purple.", "Rita is a dax.", "", "42", "The answer is perhaps."], [None] * 6,
    ),
    "what only follows from a condition is not stated": (
        ["If Tim is a dax, then Tim is a wug and Tim is a mip.", "If Tim is a dax, then Tim is a wug and Tim is not red."],
        [None, None],
    ),
    "a condition that is stated after its rule": (
        ["If Tim is a mip, then Rex is old and Tim is a mip, so Rex is old.",
         "If Tim is a mip, then Rex is old, and Rex is a dax.", "If something is a dax, it is a wug and Rex is a dax."],
        [R, R, R],
    ),
    "not both is not a denial of each": (
        ["Rex is not both a fep and a tove.", "Rex is not a zorp and a dax.", "Rex isn't both a tove and a fep."], [None] * 3,
    ),
    "each is denied, or has a clause of its own": (
        ["Rex is not a tove and Rex is a dax.", "Rex is a fep and not a tove."], [R, R],
    ),
    "nothing written": ([], []),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_each_step_gets_its_class(case: str) -> None:
    lines, expected = TABLE[case]
    assert WORLD.check(trace(*lines)) == expected, WORLD.reasons(trace(*lines))


def test_an_unreadable_step_says_why_and_leaves_the_first_error_open() -> None:
    said = WORLD.said(trace("Rex is purple.", "Rex is a zorp."))
    assert said[0].truth is None and "purple" in said[0].reason
    assert WORLD.first_error(trace("Rex is purple.", "Rex is a zorp.")) is None
    assert WORLD.first_error(trace("Rex is a wug.", "Rex is a zorp.", "Hm.")) == 1
    assert WORLD.first_error(trace("Rex is a wug.")) == -1


def test_the_judge_gives_none_and_the_reason_for_what_cannot_be_read() -> None:
    trajectory = trace("Rex is a zorp.", "Rex is a blick.", "Hm.", "Rex is a wug.")
    (judgement,) = TruthJudge(WORLD, consequent=0.5).judge([trajectory])
    assert judgement.check(trajectory).values == (0.0, 0.5, None, 1.0)
    assert judgement.failures[2] is not None and "hm" in judgement.failures[2]
    assert judgement.failures[:2] == (None, None)
    assert judgement.aspects["wrong"] == (1.0, 0.0, None, 0.0)
    (default,) = create("labeller", "truth-logic").judge([trajectory])
    assert default.judge == "truth-logic(consequent=0)" and default.values == (0.0, 0.0, None, 1.0)


def solver_of(theory: Theory, claims: frozenset[Literal]) -> z3.Solver:
    solver = z3.Solver()
    said = [*theory.facts, *claims]
    solver.add([as_z3(literal) for literal in said])
    for rule in grounded(theory.rules, theory.individuals):
        solver.add(z3.Implies(z3.And([as_z3(literal) for literal in rule.body]), as_z3(rule.head)))
    return solver


def as_z3(literal: Literal) -> z3.BoolRef:
    atom = z3.Bool(f"{literal.predicate} {literal.args}")
    return atom if literal.positive else z3.Not(atom)


@pytest.mark.long
@given(st.integers(0, 10_000), st.data())
@settings(deadline=None, max_examples=25)
def test_what_follows_is_what_z3_says_follows(seed: int, data: st.DataObject) -> None:
    problem = WORLD.problems(1, seed)[0]
    theory, _ = logic_of(problem)
    unary = sorted(theory.predicates & {*NOUNS})
    literals = [Literal(word, (who,), sign) for word in unary for who in theory.individuals for sign in (True, False)]
    claims = frozenset(data.draw(st.lists(st.sampled_from(literals), max_size=2)))
    solver = solver_of(theory, claims)
    knowledge = known(theory, claims)
    assert (solver.check() == z3.sat) == (not knowledge.broken)
    if not knowledge.broken:
        for literal in literals:
            assert knowledge.entails(literal) == (solver.check(z3.Not(as_z3(literal))) == z3.unsat), literal


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_the_answer_is_what_z3_says(seed: int) -> None:
    for problem in WORLD.problems(6, seed):
        theory, question = logic_of(problem)
        solver = solver_of(theory, frozenset())

        def follows(literal: Literal, solver: z3.Solver = solver) -> bool:
            return bool(solver.check(z3.Not(as_z3(literal))) == z3.unsat)

        if len(question.options) > 1:
            assert [clause(option) for option in question.options if follows(option)] == [problem.answer]
        else:
            held, denied = (follows(target) for target in question.targets)
            assert problem.answer == ("true" if held else "false" if denied else "unknown")


def as_formula(rule: Rule) -> Formula:
    """The rule with its quantifiers, for the first-order prover."""
    body = [Atom(literal.predicate, tuple(arg.lower() for arg in literal.args)) for literal in rule.body]
    head: Formula = Atom(rule.head.predicate, tuple(arg.lower() for arg in rule.head.args))
    formula: Formula = Implies(body[0] if len(body) == 1 else And(*body), head if rule.head.positive else Not(head))
    for name in rule.variables:
        formula = Forall(name.lower(), formula)
    return formula


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_rule_follows_if_it_follows_in_first_order_logic(seed: int) -> None:
    theory, _ = logic_of(LogicWorld(max_depth=2, max_distractors=2).problems(1, seed)[0])
    nouns = sorted(theory.predicates & {*NOUNS})
    rules = [
        Rule((is_(below),), is_(above, positive=sign)) for below in nouns for above in nouns for sign in (True, False)
    ]
    premises = [as_formula(rule) for rule in theory.rules]
    premises += [Atom(fact.predicate, tuple(arg.lower() for arg in fact.args)) for fact in theory.facts]
    verdicts = {rule: logic.entails(premises, as_formula(rule), method="z3").holds for rule in rules}
    assert {rule: known(theory).entails_rule(rule) for rule in rules} == verdicts
    assert True in verdicts.values() and False in verdicts.values()


@pytest.mark.long
def test_every_wording_of_a_rule_is_read_as_that_rule() -> None:
    for problem in WORLD.problems(30, seed=1):
        for rule in logic_of(problem)[0].rules:
            for words in rule_clauses(rule):
                assert WORLD.check(trace(f"We know that {words}.", problem=problem)) == [R], words


STEPS = st.one_of(
    st.text("Rexdaxwugisno .,;sobecause", max_size=30),
    st.sampled_from([line for lines, _ in TABLE.values() for line in lines]),
)


@pytest.mark.long
@given(st.lists(STEPS, max_size=6))
@settings(deadline=None)
def test_any_text_has_a_class_or_a_reason_whatever_comes_after(lines: list[str]) -> None:
    said = WORLD.said(trace(*lines))
    assert len(said) == len(lines) and all(each.reason for each in said)
    assert all(WORLD.said(trace(*lines[:i])) == said[:i] for i in range(len(lines)))
    assert 0 <= LogicPolicy().value(trace(*lines)) <= 1 + 1e-9
    truths = [each.truth for each in said]
    if C in truths:
        # Unless a step that was left open had claimed something wrong besides.
        assert W in truths[: truths.index(C)] or None in truths[: truths.index(C)]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("The answer is true.", "true"),
        ("So the answer is: Unknown", "unknown"),
        ("The answer is: Rex is a wug.", "Rex is a wug"),
        ("The answer is: Rex is nice.", None),
        ("True.", None),
    ],
)
def test_the_stated_answer(line: str, answer: str | None) -> None:
    assert WORLD.answer(trace("Rex is a wug.", line)) == answer


def test_the_same_seed_gives_the_same_problems_however_many_are_asked_for() -> None:
    problems = WORLD.problems(60, seed=3)
    assert WORLD.problems(20, seed=3) == problems[:20] != WORLD.problems(20, seed=4)
    assert len({p.id for p in problems}) == 60
    assert json.loads(json.dumps([p.meta for p in problems])) == [p.meta for p in problems]
    kinds = {p.answer if p.answer in ("true", "false", "unknown") else "choose" for p in problems}
    assert kinds == {"true", "false", "unknown", "choose"}


@pytest.mark.long
def test_train_and_test_share_no_problem() -> None:
    small = LogicWorld(max_depth=2, two_premises=0, max_distractors=2)
    train, test = (
        {meaning_of(p.meta) for seed in range(3) for p in small.problems(40, seed, split)}
        for split in ("train", "test")
    )
    assert len(train) > 50 and len(test) > 50 and not train & test
    with pytest.raises(ValueError, match="no split is called 'dev'"):
        small.problems(1, split="dev")  # type: ignore[arg-type]


def test_the_world_is_a_named_part_and_its_parameters_are_checked() -> None:
    assert create("world", "logic", max_depth=3) == LogicWorld(max_depth=3)
    wrong: dict[str, Any]
    for wrong in ({"min_depth": 0}, {"two_premises": 2}, {"max_distractors": 9}):
        with pytest.raises(ValueError, match="LogicWorld needs"):
            LogicWorld(**wrong)


def test_a_problem_of_another_world_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'x1' is not of the logic world.*LogicWorld\(\)\.problems"):
        WORLD.check(trace("Rex is a dax.", problem=Problem("x1", "?", "true")))


def test_traces_come_graded_and_by_seed() -> None:
    pairs = list(WORLD.traces(LogicPolicy(), 30, seed=5))
    assert pairs == list(WORLD.traces(LogicPolicy(), 30, seed=5))
    for problem, trajectory in pairs:
        assert trajectory.problem is problem and trajectory.separator == "\n"
        assert trajectory.correct is (trajectory.answer == problem.answer)


@pytest.mark.long
def test_the_room_is_imported_without_solvers() -> None:
    code = "import sys, footfall.worlds; sys.exit(bool({'torch', 'z3', 'sympy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
