"""A scripted writer for the algebra world, with error rates as parameters and exact prefix values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from footfall.registry import Declared, register
from footfall.types import Problem, Trajectory
from footfall.worlds.algebra.moves import (
    AGAIN,
    ANSWER,
    Rewrite,
    expansions,
    form_of,
    is_solved,
    isolates,
    isolations,
    rewrites,
    said,
    set_ups,
    substitutions,
    values_of_other,
)
from footfall.worlds.algebra.reading import NO_SOLUTION, State, algebra_of, answer_text, read_trace
from footfall.worlds.algebra.relation import Relation, assignment, rational_roots
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer


class Work(NamedTuple):
    """Where the writer stands: of a system the isolated unknown, the equation in one unknown, the values found."""

    isolated: Relation | None = None
    current: Relation | None = None
    values: tuple[tuple[str, Fraction], ...] = ()
    answer: str | None = None


@register("policy", "scripted-algebra", Declared(weightless=True))
@dataclass(frozen=True, slots=True)
class AlgebraPolicy(ScriptedPolicy["AlgebraWriter"]):
    """Solves equations with given error rates; the true value of any prefix is known.

    After any prefix it goes on from the last relation that `AlgebraWorld` reads there (in a system: from the isolated
    unknown, the equation in one unknown and the values found), right or wrong. If that is wrong it restates it rightly
    with probability `recover`; otherwise it writes the next step. Where they can happen it
    - `misread`: sets up a problem in words with a wrong sign, or turned round;
    - `sign`: turns a sign when it moves a term, divides, factors or reads off roots;
    - `slip`: is off by 1, or forgets to multiply the second term in brackets;
    - `division`: subtracts instead of dividing, or divides the wrong way round;
    - `lost_root`: states only one of two roots;
    - `skip`: does two steps at once, rightly.
    While it stands on an error it makes no other one.
    A quadratic without rational roots, which only another writer's error can leave, is answered "no solution".
    Wordings are drawn evenly and tell nothing. Temperature 0 takes the likeliest move and the first wording; any other
    temperature, top_p and top_k change nothing. A token is a word between spaces, or the separator after a step.
    """

    misread: float = 0.2
    sign: float = 0.1
    slip: float = 0.06
    division: float = 0.08
    lost_root: float = 0.1
    skip: float = 0.1
    recover: float = 0.08

    def new_writer(self, problem: Problem) -> AlgebraWriter:
        return AlgebraWriter(self, problem)


class AlgebraWriter(Writer[Work]):
    """The moves on one problem; the errors are those that `AlgebraPolicy` documents."""

    def __init__(self, rates: AlgebraPolicy, problem: Problem) -> None:
        self.rates = rates
        self.problem = algebra_of(problem)
        super().__init__(self.problem.answer)
        self._system = self.problem.kind == "system"

    def read(self, prefix: Trajectory) -> Work:
        return self.work(read_trace(self.problem, prefix.steps)[1])

    def work(self, state: State) -> Work:
        """What of a trace's claims the writer goes on from: the latest of each kind."""
        work = Work()
        for claim in state.claims:
            work = self.noted(work, claim)
        return work._replace(answer=state.answer)

    def noted(self, work: Work, claim: Relation) -> Work:
        """Where the writer stands after one more relation."""
        names = claim.zero.names
        if not self._system:
            return work._replace(current=claim) if names else work
        if len(names) == 2:
            return Work(isolated=claim) if isolates(claim) else work
        if not names:
            return work
        others = tuple(pair for pair in work.values if pair[0] != names[0])
        if is_solved(claim):
            found = (*others, (names[0], claim.sides[1].coefficient()))
            return work._replace(current=None, values=tuple(sorted(found)))
        return work._replace(current=claim, values=others)

    def moves(self, state: Work) -> list[Move[Work]]:
        found: list[Move[Work]] = []
        rest = 1.0
        mended = self._mended(state)
        if mended is not None:
            found.append(Move(self.rates.recover, "recover", said(AGAIN, mended), self.noted(state, mended)))
            rest -= self.rates.recover
        ways = self._ways(state)
        if not ways:
            answer = self._final(state)
            wordings = (ANSWER.format(answer=answer),)
            return [*found, Move(rest, "answer", wordings, state._replace(answer=answer))]
        if mended is not None:
            ways = [way for way in ways if way.kind in ("right", "skip")]
        return found + self._shared(state, ways, rest)

    def _shared(self, state: Work, ways: Sequence[Rewrite], rest: float) -> list[Move[Work]]:
        """Each kind of error has its rate, shared evenly; what is not an error after all is left out."""
        right = ways[0]
        kinds: dict[str, list[Rewrite]] = {}
        for way in ways[1:]:
            if way.kind == "skip" or way.result.meaning != right.result.meaning:
                kinds.setdefault(way.kind, []).append(way)
        found: list[Move[Work]] = []
        left = 1.0
        for kind, same in kinds.items():
            share = min(left, float(getattr(self.rates, kind.replace("-", "_"))))
            left -= share
            found += [self._move(state, rest * share / len(same), way) for way in same]
        return [self._move(state, rest * left, right), *found]

    def _move(self, state: Work, probability: float, way: Rewrite) -> Move[Work]:
        return Move(probability, way.kind, way.wordings, self.noted(state, way.result))

    def _ways(self, state: Work) -> list[Rewrite]:
        """What can be written next, the right way first; nothing if it is time to answer."""
        if self._system:
            return self._system_ways(state)
        if state.current is not None:
            return rewrites(state.current)
        given, text = self.problem.given[0], self.problem.texts[0]
        if self.problem.worded:
            return set_ups(given)
        return expansions(given, text) if "(" in text else rewrites(given)

    def _system_ways(self, state: Work) -> list[Rewrite]:
        first, second = self.problem.given
        isolated = state.isolated or (first if isolates(first) else None)
        if len(state.values) == 2:
            return []
        if state.values:
            return values_of_other(isolated or first, *state.values[0])
        if state.current is not None:
            return rewrites(state.current)
        if isolated is None:
            return isolations(first)
        other = first if isolated.meaning == second.meaning else second
        return substitutions(isolated, other)

    def _final(self, state: Work) -> str:
        if self._system:
            return answer_text(state.values) if len(state.values) == 2 else NO_SOLUTION
        if state.current is None or not state.current.zero.names:
            return NO_SOLUTION
        roots = rational_roots(state.current.zero) if is_solved(state.current) else None
        return answer_text([("x", root) for root in roots]) if roots else NO_SOLUTION

    def _mended(self, state: Work) -> Relation | None:
        """The true relation in place of the first wrong one; `None` if all is true."""
        holds = self.problem.holds
        if state.isolated is not None and not holds(state.isolated):
            return self._plan[0]
        for name, value in state.values:
            if not holds(assignment(name, value)):
                return assignment(name, dict(self.problem.solution)[name])
        if state.current is None or holds(state.current):
            return None
        if self._system and state.current.zero.names == ("y",):
            return assignment("y", dict(self.problem.solution)["y"])
        solving = self._plan[1:] if self._system else self._plan
        return next((each for each in solving if form_of(each) >= form_of(state.current)), solving[-1])

    @cached_property
    def _plan(self) -> list[Relation]:
        """The relations of the faultless trace: of a system the isolated unknown, then those that give x."""
        state = Work()
        found = [self.problem.given[0]] if self._system and isolates(self.problem.given[0]) else []
        while not state.values and (ways := self._ways(state)):
            found.append(ways[0].result)
            state = self.noted(state, ways[0].result)
        return found
