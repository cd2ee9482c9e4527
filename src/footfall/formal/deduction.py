"""Deductions judged by entailment (FoVer, arXiv 2505.15960): a step is correct iff premises ∧ ¬conclusion has no model.

The premises are those that a step cites, in either of two notations:

    fact1 & int2 -> int3: B & ~A;                 names stand for formulas of the problem and of earlier steps
    Since every dax is a wug, Rex is a wug.       the rule is cited; facts that are given, stated or derived may be used

A rule that is cited must follow from the problem. Labels are local: a step that is drawn rightly from an earlier wrong one is
correct, so a correct step may come after a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from footfall.formal.clauses import cut_argument, read_clause, read_clauses, strip_lead
from footfall.formal.verdict import ANSWER, Verdict, answer_verdict, worst
from footfall.tools.formula import Atom, Formula, FormulaError, Not, parse
from footfall.tools.logic import Entailment, derive, entails
from footfall.types import Problem, Trajectory

_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n+")
_NAMED = re.compile(r"\b((?:fact|int|sent)\d+)\s*:\s*([^;\n]+)", re.IGNORECASE)
_PROOF_LINE = re.compile(
    r"(?P<cited>[\w\s&,]+?)\s*->\s*(?:(?P<name>int\d+)\s*:\s*)?(?P<said>[^;]+);?\s*", re.IGNORECASE
)
_RETRACT = re.compile(
    r"(?:it does not follow|it doesn't follow|we cannot (?:conclude|say|know)|we can't (?:conclude|say|know))"
    r" (that|whether|if) (.+)"
)


@dataclass
class Deduction:
    """Where a trace stands: the problem's formulas, facts claimed since, and formulas that have a name."""

    premises: list[Formula]
    named: dict[str, Formula] = field(default_factory=dict)
    claims: list[Formula] = field(default_factory=list)

    @classmethod
    def of(cls, problem: Problem) -> Deduction:
        named = {}
        for name, text in _NAMED.findall(problem.text):
            formula = read_clause(text.strip()) or _formula(text)
            if formula is not None:
                named[name.lower()] = formula
        if named:
            return cls(list(named.values()), named)
        sentences = [text for text in _SENTENCE.split(problem.text) if not text.rstrip().endswith("?")]
        read = [read_clauses(_plain(text)) for text in sentences]
        return cls([formula for formulas in read for formula in formulas or ()])

    def claim(self, formula: Formula) -> None:
        """A claim replaces its opposite."""
        self.withdraw(_opposite(formula))
        if formula not in self.claims and formula not in self.premises:
            self.claims.append(formula)

    def withdraw(self, formula: Formula) -> None:
        self.claims = [claim for claim in self.claims if claim != formula]

    def facts(self) -> list[Formula]:
        """Facts that are given, claimed, or derived from these by the problem's rules."""
        known = [*self.premises, *self.claims]
        definite = [formula for formula in known if _definite(formula)]
        denied = [formula for formula in known if isinstance(formula, Not) and isinstance(formula.body, Atom)]
        return [*sorted(derive(definite) or (), key=str), *denied]


def judge_deduction(trajectory: Trajectory) -> list[Verdict]:
    """A verdict on each step, by Z3 (Horn clauses by forward chaining)."""
    deduction = Deduction.of(trajectory.problem)
    if not deduction.premises:
        return [Verdict(None, "no fact or rule of the problem can be formalised")] * len(trajectory.steps)
    return [_judge_step(deduction, trajectory.problem, step.text) for step in trajectory.steps]


def _judge_step(deduction: Deduction, problem: Problem, text: str) -> Verdict:
    verdicts = []
    for sentence in _SENTENCE.split(text.strip()):
        try:
            verdicts.append(_judge_sentence(deduction, problem, sentence))
        except FormulaError as error:
            verdicts.append(Verdict(None, f"cannot be formalised: {error}"))
    return worst(verdicts)


def _judge_sentence(deduction: Deduction, problem: Problem, sentence: str) -> Verdict:
    answer = ANSWER.search(sentence)
    if answer:
        return answer_verdict(problem, answer[1])
    proof = _PROOF_LINE.fullmatch(sentence) if deduction.named else None
    if proof:
        return _judge_proof_line(deduction, proof)
    plain = strip_lead(_plain(sentence))
    retracted = _RETRACT.fullmatch(plain)
    if retracted:
        return _judge_retraction(deduction, retracted)
    for conclusion, support in cut_argument(plain):
        stated, cited = read_clauses(conclusion), read_clauses(support) if support else []
        if stated is not None and cited is not None:
            verdict = _judge_argument(deduction, stated, cited)
            for formula in stated:
                deduction.claim(formula)
            return verdict
    return Verdict(None, f"cannot be formalised: {sentence!r}")


def _judge_proof_line(deduction: Deduction, line: re.Match[str]) -> Verdict:
    """FoVer's own notation: only what is cited counts."""
    said = parse(line["said"].strip())
    names = [name.lower() for name in re.findall(r"\w+", line["cited"])]
    unknown = [name for name in names if name not in deduction.named]
    if line["name"]:
        deduction.named[line["name"].lower()] = said
    if unknown:
        return Verdict(None, f"nothing is called {unknown[0]!r}")
    return _said(entails([deduction.named[name] for name in names], said), said)


def _judge_argument(deduction: Deduction, stated: Sequence[Formula], cited: Sequence[Formula]) -> Verdict:
    rules = [formula for formula in cited if not _is_fact(formula)]
    found = [_said(_known(deduction, formula), formula) for formula in cited]
    for formula in stated:
        if not rules:
            found.append(_said(_known(deduction, formula), formula))
            continue
        if formula in deduction.premises:
            continue
        facts = [fact for fact in deduction.facts() if fact not in (formula, _opposite(formula))]
        found.append(_said(entails([*rules, *facts], formula), formula))
    return worst(found, "stated in the problem") if found else Verdict(True, "stated in the problem")


def _known(deduction: Deduction, formula: Formula) -> Entailment:
    """Whether it follows from the problem, or from what is claimed; contradictory claims prove nothing."""
    if formula in deduction.premises:
        return Entailment(True, "stated in the problem")
    by_problem = entails(deduction.premises, formula)
    if by_problem.holds or not deduction.claims:
        return by_problem
    if _is_fact(formula):
        known = formula in deduction.facts()
        return Entailment(known, "it follows with an earlier claim") if known else by_problem
    return by_problem


def _judge_retraction(deduction: Deduction, match: re.Match[str]) -> Verdict:
    formula = read_clause(match[2])
    if formula is None:
        return Verdict(None, f"cannot be formalised: {match[2]!r}")
    denied = [formula] if match[1] == "that" else [formula, _opposite(formula)]
    for each in denied:
        deduction.withdraw(each)
    found = [entails(deduction.premises, each) for each in denied]
    if any(each.holds is None for each in found):
        return Verdict(None, next(each.reason for each in found if each.holds is None))
    follows = [each for each, entailment in zip(denied, found, strict=True) if entailment.holds]
    return Verdict(not follows, f"{follows[0]} does follow" if follows else f"{formula} does not follow")


def _said(entailment: Entailment, formula: Formula) -> Verdict:
    against = f" ({entailment.countermodel})" if entailment.countermodel and len(entailment.countermodel) < 200 else ""
    return Verdict(entailment.holds, f"{formula}: {entailment.reason}{against}")


@lru_cache(maxsize=1 << 14)
def _definite(formula: Formula) -> bool:
    return derive([formula]) is not None


def _formula(text: str) -> Formula | None:
    try:
        return parse(text.strip())
    except FormulaError:
        return None


def _is_fact(formula: Formula) -> bool:
    return isinstance(formula.body if isinstance(formula, Not) else formula, Atom)


def _opposite(formula: Formula) -> Formula:
    return formula.body if isinstance(formula, Not) else Not(formula)


def _plain(text: str) -> str:
    """Small letters and no full stop, unless the text is a formula."""
    bare = text.strip().rstrip(".;!")
    return bare if re.search(r"->|[&|~¬∧∨→∀∃]", bare) else bare.lower()
