"""The words of the logic world: made-up nouns, adjectives, verbs and names; literals and rules as clauses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from footfall.worlds.logic.theory import Literal, Question, Rule, Theory
from footfall.worlds.world import pick

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
