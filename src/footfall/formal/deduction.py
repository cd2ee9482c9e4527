"""Deductions judged by entailment (FoVer, arXiv 2505.15960): a step is correct iff premises ∧ ¬conclusion has no model.

The premises are those that a step cites, in either of two notations:

    fact1 & int2 -> int3: B & ~A;                 names stand for formulas of the problem and of earlier steps
    Since every dax is a wug, Rex is a wug.       the rule is cited; facts that are given, stated or derived may be used

A rule that is cited must follow from the problem. Labels are local: a step that is drawn rightly from an earlier wrong one is
correct, so a correct step may come after a wrong one.

English clauses as formulas of first-order logic: `Rex is a dax`, `no dax is red`, `if something is old, it is a wug`.

    every dax is a wug                     forall x. (dax(x) implies wug(x))
    nothing that is a dax and red is old   forall x. (dax(x) and red(x) implies not old(x))
    everything that chases a dax is shy    forall x y. (chase(x, y) and dax(y) implies shy(x))

Plurals ("all cats are animals") are not read: which word is whose plural is not known. Where a sentence of the problem was not
read, a step is not wrong because nothing that was read entails it: it has no label unless the problem refutes it.

Nothing is known of a world's vocabulary: any word may be a name, a noun, an adjective or a verb. A text that is a
formula already (`C -> (B & ~A)`) is read as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from footfall.formal.verdict import ANSWER, Verdict, answer_verdict, worst
from footfall.tools.formula import And, Atom, Forall, Formula, FormulaError, Implies, Not, parse
from footfall.tools.logic import Entailment, derive, entails
from footfall.types import Problem, Trajectory

_NOT = r"(?P<no> not|n't)?"
_WHAT = rf"(?:is|are){_NOT}(?: an?)? (?P<what>\w+)"
_ONE = _WHAT.replace("(?:is|are)", "is")
_KIND = re.compile(rf"(?P<all>every|each|any|all|no|an?) (?P<kind>\w+) {_ONE}")
_RELATIVE = re.compile(rf"(?P<all>every|any|no)(?:thing|one|body) (?:that|which|who) (?P<about>.+?) {_WHAT}")
_GENERAL = re.compile(rf"if (?:some|any)(?:thing|one|body) (?P<about>.+?),?(?: then)? (?:it|they|he|she) {_WHAT}")
_IF = re.compile(r"if (?P<body>.+?),? then (?P<head>.+)")
_IS = re.compile(rf"(?P<who>\w+) {_ONE}")
_DOES = re.compile(r"(?P<who>\w+) (?P<no>(?:does not|doesn't) )?(?P<verb>\w+) (?P<whom>\w+)")
_PART_IS = re.compile(r"(?:is )?(?:an? )?(?P<what>\w+)")
_PART_DOES = re.compile(r"(?P<verb>\w+) (?:an? |some(?:thing|one) )(?:that is )?(?P<what>\w+)")
_SIGN = re.compile(r"->|<-|[&|~¬∧∨→↔∀∃]|\b(?:forall|exists)\b")
_NOBODY = frozenset(
    ("if", "then", "every", "each", "any", "all", "no", "something", "someone", "everything", "nothing", "it", "we", "the",
     "this", "that", "there")
)  # fmt: skip
_LEAD = re.compile(
    r"^(?:(?:wait|no|now|then|next|first|finally|also|well|so|therefore|thus|hence)[,:]\s*|(?:so|therefore|thus|hence) "
    r"|(?:and )?(?:we (?:know|have|get|see|can conclude|conclude)|it follows)(?: that)? )"
)
_SINCE = re.compile(r"^(?:since|because|as|given that) ")
_SO = re.compile(r",? (?:and )?(?:so|therefore|thus|hence|which means)(?: that)? ")
_BECAUSE = re.compile(r",? (?:because|since) ")


@lru_cache(maxsize=1 << 14)
def read_clause(text: str) -> Formula | None:
    """The formula that one clause states, `None` if it has no form that is known here."""
    if _SIGN.search(text):
        try:
            return parse(text)
        except FormulaError:
            return None
    plain = text.lower().strip(" .")
    forms: tuple[Callable[[str], Formula | None], ...] = (
        _kind,
        partial(_about, _RELATIVE),
        partial(_about, _GENERAL),
        _ground_rule,
        _fact,
    )
    return next((found for form in forms if (found := form(plain)) is not None), None)


def read_clauses(text: str) -> list[Formula] | None:
    """One clause, or several joined by "and" or commas."""
    whole = read_clause(text)
    if whole is not None:
        return [whole]
    for joint in re.finditer(r",? and (?:that )?|, ", text):
        first, rest = read_clause(text[: joint.start()]), read_clauses(text[joint.end() :])
        if first is not None and rest is not None:
            return [first, *rest]
    return None


def strip_lead(text: str) -> str:
    """Without "Wait,", "So" and "we know that" in front. "No dax is red" keeps its first word."""
    while match := _LEAD.match(text):
        text = text[match.end() :]
    return text


def cut_argument(sentence: str) -> Iterator[tuple[str, str]]:
    """All ways to cut a sentence into a conclusion and what supports it; the last has no support."""
    since = _SINCE.match(sentence)
    if since:
        for comma in re.finditer(r", ", sentence):
            yield strip_lead(sentence[comma.end() :]), sentence[since.end() : comma.start()]
    for match in _SO.finditer(sentence):
        yield sentence[match.end() :], strip_lead(sentence[: match.start()])
    for match in _BECAUSE.finditer(sentence):
        yield strip_lead(sentence[: match.start()]), sentence[match.end() :]
    yield strip_lead(sentence), ""


def _kind(text: str) -> Formula | None:
    match = _KIND.fullmatch(text)
    return _rule(Atom(match["kind"], ("x",)), ["x"], match) if match else None


def _about(form: re.Pattern[str], text: str) -> Formula | None:
    """The rule about whatever meets the conditions of one of these forms."""
    match = form.fullmatch(text)
    conditions = _conditions(match["about"]) if match else None
    return _rule(*conditions, match) if match and conditions else None


def _rule(body: Formula, variables: list[str], match: re.Match[str]) -> Formula:
    """For all x: body implies head; "no" and "not" each turn the head around."""
    head: Formula = Atom(match["what"], ("x",))
    if bool(match["no"]) != (match.groupdict().get("all") == "no"):
        head = Not(head)
    formula: Formula = Implies(body, head)
    for variable in reversed(variables):
        formula = Forall(variable, formula)
    return formula


def _conditions(text: str) -> tuple[Formula, list[str]] | None:
    """What is asked of x, and the variables in it."""
    parts: list[Formula] = []
    variables = ["x"]
    for part in re.split(r",? and |, ", text):
        does, being = _PART_DOES.fullmatch(part), _PART_IS.fullmatch(part)
        if does and does["verb"] != "is":
            variables.append(f"y{len(variables)}")
            parts += [Atom(_verb(does["verb"]), ("x", variables[-1])), Atom(does["what"], (variables[-1],))]
        elif being:
            parts.append(Atom(being["what"], ("x",)))
        else:
            return None
    return _all(parts), variables


def _ground_rule(text: str) -> Formula | None:
    match = _IF.fullmatch(text)
    if not match:
        return None
    body, head = read_clauses(match["body"]), _fact(match["head"])
    return None if body is None or head is None else Implies(_all(body), head)


def _fact(text: str) -> Formula | None:
    match = _IS.fullmatch(text)
    if match:
        atom = Atom(match["what"], (match["who"],))
    else:
        match = _DOES.fullmatch(text)
        if not match or match["verb"] in ("is", "are", "not") or match["whom"] in _NOBODY:
            return None
        if not match["no"] and not match["verb"].endswith("s"):  # "cats chase mice" is about no one cat
            return None
        atom = Atom(_verb(match["verb"]), (match["who"], match["whom"]))
    if match["who"] in _NOBODY:
        return None
    return Not(atom) if match["no"] else atom


def _verb(word: str) -> str:
    return word.removesuffix("s")


def _all(parts: list[Formula]) -> Formula:
    formula = parts[0]
    for part in parts[1:]:
        formula = And(formula, part)
    return formula


_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n+")
_STATES_NOTHING = re.compile(
    r".*[?:]|\W*\w*\W*|(?:only )?one of (?:these|them|the following) (?:follows|is true).*", re.IGNORECASE
)
"""A question, a heading, the number of an item, and what announces the question."""
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
    unread: str | None = None
    """A sentence of the problem that may state a premise and was not read."""

    @classmethod
    def of(cls, problem: Problem) -> Deduction:
        named = {}
        for name, text in _NAMED.findall(problem.text):
            formula = read_clause(text.strip()) or _formula(text)
            if formula is not None:
                named[name.lower()] = formula
        if named:
            return cls(list(named.values()), named)
        sentences = [text for text in _SENTENCE.split(problem.text) if not _STATES_NOTHING.fullmatch(text.strip())]
        read = [read_clauses(_plain(text)) for text in sentences]
        unread = next((text for text, formulas in zip(sentences, read, strict=True) if formulas is None), None)
        return cls([formula for formulas in read for formula in formulas or ()], unread=unread)

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
            verdict = _if_all_was_read(deduction, _judge_argument(deduction, stated, cited), [*cited, *stated])
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


def _if_all_was_read(deduction: Deduction, verdict: Verdict, said: Sequence[Formula]) -> Verdict:
    """A "no" holds with an unread premise only if the others refute something that is said."""
    if deduction.unread is None or verdict.holds is not False:
        return verdict
    if any(entails(deduction.premises, _opposite(formula)).holds for formula in said):
        return verdict
    return Verdict(None, f"{verdict.reason}; but {deduction.unread!r} of the problem cannot be formalised")


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
    if follows or deduction.unread is None:
        return Verdict(not follows, f"{follows[0]} does follow" if follows else f"{formula} does not follow")
    return Verdict(None, f"{deduction.unread!r} of the problem cannot be formalised")


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
