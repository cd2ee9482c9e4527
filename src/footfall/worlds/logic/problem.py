"""What a logic problem means and how it is worded: facts, Horn rules, a question; and what follows, by forward chaining.

Every rule has positive conditions, so the theory is Horn and forward chaining decides it completely: an atom follows if
it is chained to, and its negation follows if adding the atom breaks a negative fact or a rule with a negative head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random
from typing import NamedTuple, cast

from footfall.types import Json, Problem
from footfall.worlds.world import pick, require_meta

VARIABLES = ("X", "Y")


class Literal(NamedTuple):
    """A predicate of one or two things, said or denied. The things are names, in a rule also the variables X and Y."""

    predicate: str
    args: tuple[str, ...]
    positive: bool = True

    @property
    def atom(self) -> Literal:
        return Literal(self.predicate, self.args)

    @property
    def opposite(self) -> Literal:
        return Literal(self.predicate, self.args, not self.positive)

    def put(self, names: Mapping[str, str]) -> Literal:
        """With names in place of variables."""
        return Literal(self.predicate, tuple(names.get(arg, arg) for arg in self.args), self.positive)


class Rule(NamedTuple):
    """All of `body` (positive) gives `head`."""

    body: tuple[Literal, ...]
    head: Literal

    def put(self, names: Mapping[str, str]) -> Rule:
        return Rule(tuple(literal.put(names) for literal in self.body), self.head.put(names))

    @property
    def variables(self) -> tuple[str, ...]:
        used = {arg for literal in (*self.body, self.head) for arg in literal.args}
        return tuple(name for name in VARIABLES if name in used)


@dataclass(frozen=True)
class Theory:
    facts: tuple[Literal, ...]
    rules: tuple[Rule, ...]

    @property
    def individuals(self) -> tuple[str, ...]:
        literals = [*self.facts, *(literal for rule in self.rules for literal in (*rule.body, rule.head))]
        return tuple(sorted({arg for literal in literals for arg in literal.args} - set(VARIABLES)))

    @property
    def predicates(self) -> frozenset[str]:
        heads = [literal for rule in self.rules for literal in (*rule.body, rule.head)]
        return frozenset(literal.predicate for literal in (*self.facts, *heads))


class Question(NamedTuple):
    """One literal: is it true, false or unknown? Several: which one follows?"""

    options: tuple[Literal, ...]

    @property
    def targets(self) -> tuple[Literal, ...]:
        """What a solver looks for: one of the options, or the negation of the only one."""
        return (self.options[0], self.options[0].opposite) if len(self.options) == 1 else self.options


def grounded(rules: Iterable[Rule], individuals: Sequence[str]) -> tuple[Rule, ...]:
    """Every instance of the rules over the individuals."""
    found: list[Rule] = []
    for rule in rules:
        names = rule.variables
        found += [rule.put(dict(zip(names, values, strict=True))) for values in product(individuals, repeat=len(names))]
    return tuple(found)


def chained(atoms: Iterable[Literal], rules: Sequence[Rule]) -> frozenset[Literal]:
    """The atoms, and all that ground rules with positive heads give from them."""
    found = set(atoms)
    waiting = [rule for rule in rules if rule.head.positive]
    while True:
        ready = [rule for rule in waiting if found.issuperset(rule.body)]
        if not ready:
            return frozenset(found)
        found.update(rule.head for rule in ready)
        waiting = [rule for rule in waiting if rule.head not in found]


class Knowledge:
    """What follows from a theory and some claims."""

    def __init__(self, theory: Theory, claims: frozenset[Literal] = frozenset()) -> None:
        self._theory, self._claims = theory, claims
        said = {*theory.facts, *claims}
        individuals = sorted({*theory.individuals, *(arg for literal in claims for arg in literal.args)})
        self._rules = grounded(theory.rules, individuals)
        denials = [frozenset({literal.atom}) for literal in said if not literal.positive]
        denials += [frozenset({*rule.body, rule.head.atom}) for rule in self._rules if not rule.head.positive]
        self._denials = denials
        self.atoms = chained((literal for literal in said if literal.positive), self._rules)
        self.broken = self._broken(self.atoms)
        """The denials that the atoms contradict; none if theory and claims are consistent."""

    def _broken(self, atoms: frozenset[Literal]) -> frozenset[int]:
        return frozenset(i for i, denied in enumerate(self._denials) if denied <= atoms)

    def entails(self, literal: Literal) -> bool:
        """Whether it follows. A contradiction elsewhere does not make everything follow."""
        if literal.positive:
            return literal in self.atoms
        return self._broken(chained({*self.atoms, literal.atom}, self._rules)) > self.broken

    def entails_rule(self, rule: Rule) -> bool:
        """Whether the rule holds of any things whatever: its body, assumed of new things, gives its head."""
        fresh = rule.put({name: f"any {name}" for name in VARIABLES})
        assumed = Knowledge(self._theory, self._claims | frozenset(fresh.body))
        return assumed.entails(fresh.head) or len(assumed.broken) > len(self.broken)


@lru_cache(maxsize=4096)
def known(theory: Theory, claims: frozenset[Literal] = frozenset()) -> Knowledge:
    """`Knowledge`, kept from one call to the next."""
    return Knowledge(theory, claims)


class Source(NamedTuple):
    """How a literal is reached: the rule as it is worded, and what it needs."""

    rule: Rule
    body: tuple[Literal, ...]


@lru_cache(maxsize=256)
def instances(theory: Theory) -> tuple[tuple[Rule, Rule], ...]:
    """Every ground rule with the rule that it is an instance of."""
    people = theory.individuals
    return tuple((instance, rule) for rule in theory.rules for instance in grounded((rule,), people))


def derivable(theory: Theory, claims: frozenset[Literal]) -> dict[Literal, Source]:
    """All that chaining reaches beyond what is given or claimed, in order. What contradicts a claim is not reached."""
    view = {*theory.facts, *claims}
    found: dict[Literal, Source] = {}
    waiting = list(instances(theory))
    grew = True
    while grew:
        grew = False
        for instance, rule in waiting:
            head = instance.head
            if head not in view and head.opposite not in view and view.issuperset(instance.body):
                found[head] = Source(rule, instance.body)
                view.add(head)
                grew = True
    return found


def to_meta(theory: Theory, question: Question) -> dict[str, Json]:
    return {
        "facts": [_plain(fact) for fact in theory.facts],
        "rules": [[[_plain(literal) for literal in rule.body], _plain(rule.head)] for rule in theory.rules],
        "options": [_plain(option) for option in question.options],
    }


def _plain(literal: Literal) -> list[Json]:
    return [literal.predicate, list(literal.args), literal.positive]


def _literal(item: Json) -> Literal:
    predicate, args, positive = cast("Sequence[Json]", item)
    return Literal(str(predicate), tuple(str(arg) for arg in cast("Sequence[Json]", args)), bool(positive))


def logic_of(problem: Problem) -> tuple[Theory, Question]:
    """Read what `LogicWorld.problems` left in the problem's `meta`."""
    require_meta(problem, "logic", "facts", "rules", "options")
    meta = problem.meta
    facts = tuple(_literal(item) for item in cast("Sequence[Json]", meta["facts"]))
    rules: list[Rule] = []
    for body, head in cast("Sequence[Sequence[Json]]", meta["rules"]):
        rules.append(Rule(tuple(_literal(item) for item in cast("Sequence[Json]", body)), _literal(head)))
    options = tuple(_literal(item) for item in cast("Sequence[Json]", meta["options"]))
    return Theory(facts, tuple(rules)), Question(options)


# Words: made-up nouns, adjectives, verbs and names; literals and rules as clauses.
NOUNS = (
    "dax", "wug", "fep", "blick", "tove", "zorp", "mip", "gorp", "yimp", "sterp", "jelp", "brill", "rax", "vug", "lorn",
    "kiv", "norp", "pim", "quell", "shum", "thrup", "wem", "zill", "crog",
)  # fmt: skip
ADJECTIVES = ("red", "blue", "kind", "loud", "small", "old", "cold", "round", "sharp", "shy", "green", "tall")
VERBS = ("chase", "like", "help", "visit", "follow", "greet")
NAMES = ("Rex", "Tim", "Ada", "Bob", "Fay", "Gus", "Ivy", "Kit", "Lou", "Max", "Zed", "Pia")

ANSWER = "The answer is %s."
OPTION = "The answer is: %s."
STEPS = ("Since {rule}, {fact}.", "{Fact}, because {rule}.", "{Rule}, so {fact}.", "We know that {rule}, so {fact}.")
RETRACTIONS = ("Wait, it does not follow that {fact}.", "No, we cannot conclude that {fact}.")
DECIDE = (
    "Is it true, false or unknown that {fact}?",
    "Is this statement true, false or unknown: {fact}?",
)
CHOOSE = ("Which of these follows: {options}?", "Only one of these follows. Which one: {options}?")


def sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _noun(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _what(word: str) -> str:
    return word if word in ADJECTIVES else _noun(word)


def clause(literal: Literal) -> str:
    """`Rex is not a dax`, `Rex chases Tim`."""
    subject = literal.args[0]
    if literal.predicate in VERBS:
        verb = f"{literal.predicate}s" if literal.positive else f"does not {literal.predicate}"
        return f"{subject} {verb} {literal.args[1]}"
    return f"{subject} is {'' if literal.positive else 'not '}{_what(literal.predicate)}"


def rule_words(rule: Rule) -> str:
    """The rule in its first wording."""
    return rule_clauses(rule)[0]


def rule_clauses(rule: Rule) -> tuple[str, ...]:
    """All wordings of a rule; they mean the same."""
    head = rule.head
    if not rule.variables:
        body = " and ".join(clause(literal) for literal in rule.body)
        return (f"if {body}, then {clause(head)}",)
    what, negation = _what(head.predicate), "" if head.positive else "not "
    first = rule.body[0]
    about = _conditions(rule.body)
    general = f"if something {about}, then it is {negation}{what}"
    if len(rule.body) == 1 and first.predicate in NOUNS:
        if head.positive:
            return f"every {first.predicate} is {what}", f"each {first.predicate} is {what}", general
        return f"no {first.predicate} is {what}", general
    return f"{'everything' if head.positive else 'nothing'} that {about} is {what}", general


def _conditions(body: Sequence[Literal]) -> str:
    """`is a dax and red`, `chases a dax`, `chases something red`."""
    first = body[0]
    if first.predicate in VERBS:
        kind = body[1].predicate
        whom = f"something {kind}" if kind in ADJECTIVES else _noun(kind)
        return f"{first.predicate}s {whom}"
    return "is " + " and ".join(_what(literal.predicate) for literal in body)


def write_problem(theory: Theory, question: Question, rng: Random) -> str:
    """Facts and rules in the order of the theory, then the question."""
    lines = [clause(fact) for fact in theory.facts]
    lines += [pick(rng, rule_clauses(rule)) for rule in theory.rules]
    rng.shuffle(lines)
    said = " ".join(f"{sentence(line)}." for line in lines)
    if len(question.options) == 1:
        return f"{said} {pick(rng, DECIDE).format(fact=clause(question.options[0]))}"
    *others, last = [clause(option) for option in question.options]
    return f"{said} {pick(rng, CHOOSE).format(options=', '.join(others) + ' or ' + last)}"


def step_wordings(fact: Literal, rule: Rule) -> tuple[str, ...]:
    """A step that states `fact` by `rule`. The wording never depends on whether the step is right."""
    words, given = clause(fact), rule_words(rule)
    parts = {"fact": words, "Fact": sentence(words), "rule": given, "Rule": sentence(given)}
    return tuple(wording.format(**parts) for wording in STEPS)


def retractions(fact: Literal) -> tuple[str, ...]:
    return tuple(wording.format(fact=clause(fact)) for wording in RETRACTIONS)


def answer_text(answer: str) -> str:
    return (OPTION if " " in answer else ANSWER) % answer
