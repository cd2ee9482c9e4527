"""What the scripted policy may write next on a logic problem, with its probabilities.

It reasons forward from the given facts and its own claims, right or wrong, towards the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from footfall.types import Problem, Trajectory
from footfall.worlds._logic_reading import State, read_trace
from footfall.worlds._logic_text import answer_text, clause, retractions, step_wordings
from footfall.worlds._logic_theory import Literal, Rule, Theory, grounded, known, logic_of
from footfall.worlds._scripted import Move

__all__ = ["LogicRates", "LogicScript", "derivable"]

_CANDIDATES = 2
"""At most so many wrong claims are open to a writer at a time."""


class LogicRates(NamedTuple):
    wrong_rule: float
    flip: float
    skip: float
    recover: float


class _Source(NamedTuple):
    """How a literal is reached: the rule as it is worded, and what it needs."""

    rule: Rule
    body: tuple[Literal, ...]


@lru_cache(maxsize=256)
def _instances(theory: Theory) -> tuple[tuple[Rule, Rule], ...]:
    """Every ground rule with the rule that it is an instance of."""
    people = theory.individuals
    return tuple((instance, rule) for rule in theory.rules for instance in grounded((rule,), people))


def derivable(theory: Theory, claims: frozenset[Literal]) -> dict[Literal, _Source]:
    """All that chaining reaches beyond what is given or claimed, in order. What contradicts a claim is not reached."""
    view = {*theory.facts, *claims}
    found: dict[Literal, _Source] = {}
    waiting = list(_instances(theory))
    grew = True
    while grew:
        grew = False
        for instance, rule in waiting:
            head = instance.head
            if head not in view and head.opposite not in view and view.issuperset(instance.body):
                found[head] = _Source(rule, instance.body)
                view.add(head)
                grew = True
    return found


class LogicScript:
    """The moves on one problem; the errors are those that `LogicPolicy` documents."""

    def __init__(self, rates: LogicRates, problem: Problem) -> None:
        self.rates = rates
        self.theory, self.question = logic_of(problem)
        self.reference = str(problem.answer)

    def state_after(self, prefix: Trajectory) -> State:
        return read_trace(self.theory, self.question, prefix.steps)[1]

    def answer(self, state: State) -> str | None:
        return state.answer

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

    def _pending(self, sources: Mapping[Literal, _Source]) -> list[Literal]:
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
        self, state: State, pending: list[Literal], sources: Mapping[Literal, _Source], rest: float, careless: bool
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

    def _mistakes(self, state: State, sources: Mapping[Literal, _Source]) -> list[tuple[Literal, Rule]]:
        """Claims by a rule whose condition is not met, or by a rule read backwards; those that decide come first."""
        view = {*self.theory.facts, *state.claims, *sources}
        base = known(self.theory)
        found: dict[Literal, Rule] = {}
        for instance, rule in _instances(self.theory):
            converse = instance.body[0] if len(instance.body) == 1 and instance.head in view else None
            for claim in (instance.head, converse):
                if claim is None or claim in view or claim.opposite in view or claim in found:
                    continue
                if not base.entails(claim):
                    found[claim] = rule
        ordered = sorted(found, key=lambda claim: (claim not in self.question.targets, claim))
        return [(claim, found[claim]) for claim in ordered[:_CANDIDATES]]
