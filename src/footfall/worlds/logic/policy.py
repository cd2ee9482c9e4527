"""A scripted reasoner for the logic world, with error rates as parameters and exact prefix values.

It reasons forward from the given facts and its own claims, right or wrong, towards the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from footfall.registry import Declared, register
from footfall.types import Problem, Trajectory
from footfall.worlds.logic.problem import (
    Literal,
    Rule,
    Source,
    answer_text,
    clause,
    derivable,
    instances,
    known,
    logic_of,
    retractions,
    step_wordings,
)
from footfall.worlds.logic.reading import State, read_trace
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer

_CANDIDATES = 2
"""At most so many wrong claims are open to a writer at a time."""


@register("policy", "scripted-logic", Declared(weightless=True))
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
