"""The logic world: deductions about made-up things, by seed, a checker for any step, and a scripted reasoner.

A problem is a chain of rules from a fact to the question, with side conditions and distractors around it.

The reasoner has error rates as parameters and exact prefix values. It reasons forward from the given facts and its own
claims, right or wrong, towards the question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast
from typing import Literal as Choice

from footfall.registry import Declared, register
from footfall.types import Json, Problem, Trajectory
from footfall.worlds.logic.problem import (
    ADJECTIVES,
    NAMES,
    NOUNS,
    VERBS,
    Literal,
    Question,
    Rule,
    Source,
    Theory,
    answer_text,
    clause,
    derivable,
    instances,
    known,
    logic_of,
    retractions,
    step_wordings,
    to_meta,
    write_problem,
)
from footfall.worlds.logic.reading import State, read_trace, stated_answer
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer
from footfall.worlds.world import ExplainedWorld, Said, Split, problem_id, require, split_of

Kind: TypeAlias = Choice["true", "false", "unknown", "choose"]
KINDS: tuple[Kind, ...] = ("true", "false", "unknown", "choose")


@register("world", "logic")
@dataclass(frozen=True, slots=True)
class LogicWorld(ExplainedWorld):
    """Facts and rules about made-up things, and a question about what follows from them.

    Asked is whether a fact is true, false or unknown, or which fact follows.

    Difficulty is the length of the proof, the share of rules with two conditions, and the number of rules beside it.
    """

    domain: ClassVar[str] = "logic"
    hard: ClassVar[Mapping[str, Any]] = {
        "min_depth": 6, "max_depth": 7, "two_premises": 0.5, "min_distractors": 4, "max_distractors": 5
    }  # fmt: skip

    min_depth: int = 2
    max_depth: int = 5
    two_premises: float = 0.3
    min_distractors: int = 2
    max_distractors: int = 5

    def __post_init__(self) -> None:
        rules = {
            "1 <= min_depth <= max_depth <= 8": 1 <= self.min_depth <= self.max_depth <= 8,
            "0 <= two_premises <= 1": 0 <= self.two_premises <= 1,
            "1 <= min_distractors <= max_distractors <= 6": 1 <= self.min_distractors <= self.max_distractors <= 6,
        }
        require(self, rules)

    def said(self, trajectory: Trajectory) -> list[Said]:
        """The class of every step with the reason; `None` for a step that cannot be read.

        A sentence of a step states facts ("Rex is a dax") or rules ("every dax is a wug"), alone or as conclusion and
        support ("Since every dax is a wug, Rex is a wug"). Its class is the worst among:
        1. each fact or rule in it: RIGHT if it follows from the premises, CONSEQUENT if it follows only together with
           what the trace claimed before, otherwise WRONG. A true fact that skips steps, or was said before, is RIGHT;
        2. with a rule as support, the conclusion: WRONG if the rules given do not lead to it;
        3. "it does not follow that …": RIGHT if it does not, and the claim is taken back; otherwise WRONG;
        4. the answer: RIGHT if the premises decide so, CONSEQUENT if they do with the claims, otherwise WRONG.
           Everything after an answer is WRONG, but the last answer is the one that counts.
        A claim replaces its opposite. A sentence that fits no form, or speaks of what the problem does not, is not
        read: the step is `None` unless another sentence of it is WRONG.
        """
        theory, question = logic_of(trajectory.problem)
        return read_trace(theory, question, trajectory.steps)[0]

    def answer(self, trajectory: Trajectory) -> str | None:
        """`true`, `false`, `unknown` or the fact in the last "The answer is …" of the trace."""
        return stated_answer(logic_of(trajectory.problem)[0], trajectory.steps)

    def draw(self, rng: Random, split: Split) -> Problem | None:
        depth = rng.randint(self.min_depth, self.max_depth)
        size = Size(depth, self.two_premises, rng.randint(self.min_distractors, self.max_distractors))
        drawn = draw_theory(rng, size)
        if drawn is None:
            return None
        theory, question, answer = drawn
        prompt = write_problem(theory, question, rng)
        meta = to_meta(theory, question)
        if split_of(meaning_of(meta)) != split:
            return None
        name = problem_id(self.domain, f"{prompt} {json.dumps(meta)}")
        return Problem(name, prompt, answer, self.domain, meta=meta)


def meaning_of(meta: Mapping[str, Json]) -> str:
    """What decides the split; sorted, since the order of premises is wording."""
    lists = [cast("Sequence[Json]", meta[key]) for key in ("facts", "rules", "options")]
    return json.dumps([sorted(json.dumps(item) for item in each) for each in lists])


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


def draw_theory(rng: Random, size: Size) -> tuple[Theory, Question, str] | None:
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


_CANDIDATES = 2
"""At most so many wrong claims are open to a writer at a time."""


@register("policy", "scripted-logic", Declared(weightless=True, tempered=False))
@dataclass(frozen=True, slots=True)
class LogicPolicy(ScriptedPolicy["LogicWriter"]):
    """Writes deductions with given error rates; the true value of any prefix is known.

    After any prefix it stands on what `LogicWorld` reads there: the given facts and the trace's claims, right or wrong. It
    1. takes a wrong claim back with probability `recover` (once in a trace);
    2. answers if the question is decided by what is given or claimed. If it cannot be decided by chaining on, it derives
       all it can and then answers "unknown", or one of the options at random;
    3. otherwise derives the next fact on the way. With probability `wrong_rule` it claims instead what a rule gives
       whose condition is not met, or a rule read backwards; with `flip` it states the opposite of the fact; with `skip`
       it leaves the fact out and states the next one, which is sound. While a wrong claim stands no other is made.
    Wordings are drawn evenly and tell nothing. Temperature 0 takes the likeliest move and the first wording; any other
    temperature, top_p and top_k change nothing. A token is a word between spaces, or the separator after a step.
    """

    wrong_rule: float = 0.2
    flip: float = 0.16
    skip: float = 0.1
    recover: float = 0.1

    def new_writer(self, problem: Problem) -> LogicWriter:
        return LogicWriter(self, problem)


class LogicWriter(Writer[State]):
    """The moves on one problem; the errors are those that `LogicPolicy` documents."""

    def __init__(self, rates: LogicPolicy, problem: Problem) -> None:
        super().__init__(str(problem.answer))
        self.rates = rates
        self.theory, self.question = logic_of(problem)

    def read(self, prefix: Trajectory) -> State:
        return read_trace(self.theory, self.question, prefix.steps)[1]

    def moves(self, state: State) -> list[Move[State]]:
        wrong = [claim for claim in sorted(state.claims) if not known(self.theory).entails(claim)]
        found: list[Move[State]] = []
        rest = 1.0
        if wrong and not state.retracted:
            after = state._replace(claims=state.claims - {wrong[0]}, retracted=True)
            found.append(Move(self.rates.recover, "recover", retractions(wrong[0]), after))
            rest -= self.rates.recover
        sources = derivable(self.theory, state.claims)
        view = {*self.theory.facts, *state.claims}
        target = next((each for each in self.question.targets if each in view), None)
        if target is not None:
            return [*found, self._answers(state, self._named(target), rest)]
        pending = self._pending(sources)
        if not pending:
            guesses = [clause(option) for option in self.question.options] if self._chooses else ["unknown"]
            return [*found, *(self._answers(state, guess, rest / len(guesses)) for guess in guesses)]
        return found + self._attempts(state, pending, sources, rest, careless=not wrong)

    @property
    def _chooses(self) -> bool:
        return len(self.question.options) > 1

    def _named(self, target: Literal) -> str:
        if self._chooses:
            return clause(target)
        return "true" if target == self.question.options[0] else "false"

    def _answers(self, state: State, answer: str, probability: float) -> Move[State]:
        return Move(probability, "answer", (answer_text(answer),), state._replace(answer=answer))

    def _pending(self, sources: Mapping[Literal, Source]) -> list[Literal]:
        """What is still to write: the proof of a target that can be reached, otherwise all that can be derived."""
        for target in self.question.targets:
            if target in sources:
                needed = {target}
                for literal in reversed(list(sources)):
                    if literal in needed:
                        needed.update(sources[literal].body)
                return [literal for literal in sources if literal in needed]
        return list(sources)

    def _attempts(
        self, state: State, pending: list[Literal], sources: Mapping[Literal, Source], rest: float, careless: bool
    ) -> list[Move[State]]:
        due, rates = pending[0], self.rates
        mistakes = self._mistakes(state, sources) if careless else []
        p_wrong = rates.wrong_rule if mistakes else 0.0
        p_flip = (1 - p_wrong) * rates.flip if careless else 0.0
        p_skip = (1 - p_wrong - p_flip) * rates.skip if len(pending) > 1 else 0.0
        p_right = 1 - p_wrong - p_flip - p_skip
        found = [
            self._states(state, rest * p_right, "right", due, sources[due].rule),
            self._states(state, rest * p_flip, "flip", due.opposite, sources[due].rule),
        ]
        if p_skip:
            found.append(self._states(state, rest * p_skip, "skip", pending[1], sources[pending[1]].rule))
        share = rest * p_wrong / max(1, len(mistakes))
        return found + [self._states(state, share, "wrong-rule", claim, rule) for claim, rule in mistakes]

    def _states(self, state: State, probability: float, kind: str, fact: Literal, rule: Rule) -> Move[State]:
        claims = (state.claims - {fact.opposite}) | {fact}
        return Move(probability, kind, step_wordings(fact, rule), state._replace(claims=claims))

    def _mistakes(self, state: State, sources: Mapping[Literal, Source]) -> list[tuple[Literal, Rule]]:
        """Claims by a rule whose condition is not met, or by a rule read backwards; those that decide come first."""
        view = {*self.theory.facts, *state.claims, *sources}
        base = known(self.theory)
        found: dict[Literal, Rule] = {}
        for instance, rule in instances(self.theory):
            converse = instance.body[0] if len(instance.body) == 1 and instance.head in view else None
            for claim in (instance.head, converse):
                if claim is None or claim in view or claim.opposite in view or claim in found:
                    continue
                if not base.entails(claim):
                    found[claim] = rule
        ordered = sorted(found, key=lambda claim: (claim not in self.question.targets, claim))
        return [(claim, found[claim]) for claim in ordered[:_CANDIDATES]]
