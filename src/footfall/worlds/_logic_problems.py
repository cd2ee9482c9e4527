"""Draws logic problems: a chain of rules from a fact to the question, with side conditions and distractors around it."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Literal as Choice
from typing import NamedTuple, TypeAlias

from footfall.worlds._logic_moves import derivable
from footfall.worlds._logic_text import ADJECTIVES, NAMES, NOUNS, VERBS, clause
from footfall.worlds._logic_theory import Literal, Question, Rule, Theory, known

__all__ = ["Kind", "Size", "draw"]

Kind: TypeAlias = Choice["true", "false", "unknown", "choose"]
KINDS: tuple[Kind, ...] = ("true", "false", "unknown", "choose")


class Size(NamedTuple):
    """How long the chain is, how many rules ask for two things, how many rules lead nowhere."""

    depth: int
    two_premises: float
    distractors: int


class _Words:
    """Words not used yet in this problem."""

    def __init__(self, rng: Random) -> None:
        self.nouns = rng.sample(NOUNS, len(NOUNS))
        self.adjectives = rng.sample(ADJECTIVES, len(ADJECTIVES))
        self.names = rng.sample(NAMES, 3)
        self.verb = rng.choice(VERBS)


def draw(rng: Random, size: Size) -> tuple[Theory, Question, str] | None:
    """A theory, a question and its answer; `None` if a distractor spoiled it (rare)."""
    words = _Words(rng)
    kind = rng.choice(KINDS)
    main = words.names[0]
    chain = [words.nouns.pop() for _ in range(size.depth + 1)]
    facts, rules = [_is(chain[0], main)], []
    for i, (below, above) in enumerate(pairwise(chain)):
        denies = kind == "false" and i == size.depth - 1
        rule, given = _link(rng, size, words, below, Literal(above, ("X",), not denies))
        rules.append(rule)
        facts += given
    dead_ends = []
    for _ in range(size.distractors):
        rule, given, dead_end = _distractor(rng, words, chain)
        rules.append(rule)
        facts += given
        dead_ends += dead_end
    theory = Theory(tuple(facts), tuple(rng.sample(rules, len(rules))))
    return _asked(rng, kind, theory, _is(chain[-1], main), dead_ends)


def _is(word: str, who: str) -> Literal:
    return Literal(word, (who,))


def _link(rng: Random, size: Size, words: _Words, below: str, head: Literal) -> tuple[Rule, list[Literal]]:
    """A rule of the chain, and the facts that its side condition needs."""
    first = Literal(below, ("X",))
    if rng.random() >= size.two_premises:
        return Rule((first,), head), []
    adjective = words.adjectives.pop()
    return Rule((first, Literal(adjective, ("X",))), head), [_is(adjective, words.names[0])]


def _distractor(rng: Random, words: _Words, chain: list[str]) -> tuple[Rule, list[Literal], list[Literal]]:
    """A rule beside the chain, the facts it brings, and a fact that looks near but does not follow."""
    main, other, third = words.names
    form = rng.randrange(4)
    new = words.nouns.pop()
    if form == 0:  # its condition is met, but it leads away
        return Rule((_is(rng.choice(chain[:-1]), "X"),), _is(new, "X")), [], []
    if form == 1:  # its condition is not met
        gone = words.nouns.pop()
        return Rule((_is(gone, "X"),), _is(new, "X")), [], [_is(new, main)]
    if form == 2:  # of two things: the other one is of the right kind only sometimes
        met = rng.random() < 0.5
        rule = Rule((Literal(words.verb, ("X", "Y")), _is(chain[0], "Y")), _is(new, "X"))
        facts = [Literal(words.verb, (other, main if met else third))]
        return rule, facts, [] if met else [_is(new, other)]
    return Rule((_is(new, other),), _is(words.adjectives.pop(), main)), [], [_is(new, other)]


def _asked(
    rng: Random, kind: Kind, theory: Theory, end: Literal, dead_ends: list[Literal]
) -> tuple[Theory, Question, str] | None:
    """The question of the kind wanted, checked: what chaining finds must be all that follows."""
    goal = end
    if kind == "unknown":
        if not dead_ends:
            return None
        goal = rng.choice(dead_ends)
    if kind == "choose":
        others = [literal for literal in dict.fromkeys(dead_ends) if literal != end][:2]
        question = Question(tuple(rng.sample([end, *others], len(others) + 1)))
        answer = clause(end)
        sound = len(others) == 2
    else:
        denied = kind != "unknown" and rng.random() < 0.3
        question = Question((goal.opposite if denied else goal,))
        answer = kind if not denied else {"true": "false", "false": "true"}[kind]
        sound = True
    base = known(theory)
    found = {*theory.facts, *derivable(theory, frozenset())}
    agree = all((target in found) == base.entails(target) for target in (*question.targets, goal, goal.opposite))
    decided = [target for target in question.targets if target in found]
    wanted = 0 if kind == "unknown" else 1
    named = all(arg in theory.individuals for option in question.options for arg in option.args)
    return (
        (theory, question, answer) if sound and agree and named and len(decided) == wanted and not base.broken else None
    )
