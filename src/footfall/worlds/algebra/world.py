"""The algebra world: equations to solve, drawn backwards from their solutions by seed, and a checker for any step.

Its scripted writer has error rates as parameters and exact prefix values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any, ClassVar, NamedTuple, get_args

from footfall.registry import Declared, register
from footfall.types import Json, Problem, Trajectory
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
from footfall.worlds.algebra.reading import (
    NO_SOLUTION,
    Equations,
    Kind,
    State,
    algebra_of,
    answer_text,
    read_trace,
    stated_answer,
)
from footfall.worlds.algebra.relation import Poly, Relation, assignment, constant, equation, rational_roots, variable
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer
from footfall.worlds.world import ExplainedWorld, Said, Split, pick, problem_id, require, split_of

X, Y = variable("x"), variable("y")

ASK = ("Solve for x: {eq}.", "Solve the equation {eq}.", "What is x if {eq}?", "Find x: {eq}.")
ASK_ALL = ("Solve for x: {eq}.", "Find all solutions of {eq}.", "Which values of x satisfy {eq}?")
ASK_BOTH = ("Solve for x and y: {eq} and {other}.", "Find x and y if {eq} and {other}.")

# {a} times x, and {b} more or less. The reversed wordings are the ones that are often misread.
MORE = (
    "{a} times a number x, plus {b}, is {c}. What is x?",
    "The sum of {b} and {a} times a number x is {c}. Find x.",
    "{b} more than {a} times a number x is {c}. What is x?",
)
LESS = (
    "{a} times a number x, minus {b}, is {c}. What is x?",
    "If {b} is taken from {a} times a number x, {c} is left. Find x.",
    "{b} less than {a} times a number x is {c}. What is x?",
)
SQUARE = (
    "The square of a number x, {sign} {b} times the number, is {c}. Find all values of x.",
    "Take the square of a number x, {sign} {b} times x: the result is {c}. What can x be?",
)
SUM = ("The sum of two numbers x and y is {s}, and {rest}.", "Two numbers x and y add up to {s}, and {rest}.")
REST = "{a} times x {sign} {b} times y is {c}"


@register("world", "algebra")
@dataclass(frozen=True, slots=True)
class AlgebraWorld(ExplainedWorld):
    """Linear equations, systems of two, and quadratics with rational roots; as equations and in words.

    Difficulty is the kind of problem and the size of roots and coefficients.
    """

    domain: ClassVar[str] = "algebra"
    hard: ClassVar[Mapping[str, Any]] = {
        "kinds": ("system", "quadratic"), "max_root": 30, "max_coefficient": 19, "fractions": 0.4, "words": 0.4
    }  # fmt: skip

    kinds: tuple[Kind, ...] = ("linear", "system", "quadratic")
    max_root: int = 12
    max_coefficient: int = 9
    fractions: float = 0.2
    """Share of problems with a root that is not whole."""
    words: float = 0.3
    """Share of problems told in words."""

    def __post_init__(self) -> None:
        rules = {
            f"kinds among {get_args(Kind)}": bool(self.kinds) and set(self.kinds) <= set(get_args(Kind)),
            "3 <= max_root <= 1000": 3 <= self.max_root <= 1000,
            "2 <= max_coefficient <= 1000": 2 <= self.max_coefficient <= 1000,
            "0 <= fractions <= 1": 0 <= self.fractions <= 1,
            "0 <= words <= 1": 0 <= self.words <= 1,
        }
        require(self, rules)

    def said(self, trajectory: Trajectory) -> list[Said]:
        """The class of every step with the reason; `None` for a step that cannot be read.

        Of a step's text the relations count: equations over x (and y), chains `a = b = c`, products that are zero, and
        values joined by "or". The class of a step is the worst among:
        1. each relation: RIGHT if it has the same solutions as the problem (in a system: if it is true of the solution),
           CONSEQUENT if it says the same as an earlier wrong relation of the trace that was not mended since (in a system
           also: if it is true where two such or given equations meet), otherwise WRONG: so a lost root is WRONG. An
           equation of numbers is RIGHT or WRONG by itself. A relation that skips steps, or was stated before, is no error;
        2. an operation named for both sides ("Subtract 3 from both sides"): WRONG if no earlier equation gives the stated
           one by it;
        3. the answer: RIGHT, CONSEQUENT if it follows from a relation stated before, otherwise WRONG. Everything after an
           answer is WRONG, but the last answer is the one that counts.
        A step without a relation, with an equation that cannot be read (another letter, a root sign), or with one that
        may be meant for one case of a quadratic only, is `None`.
        """
        return read_trace(algebra_of(trajectory.problem), trajectory.steps)[0]

    def answer(self, trajectory: Trajectory) -> str | None:
        """The values in the last "The answer is …" of the trace, as `x = 2`, `x = 2 or x = 3` or `x = 2, y = 3`."""
        return stated_answer(algebra_of(trajectory.problem), trajectory.steps)

    def draw(self, rng: Random, split: Split) -> Problem | None:
        bounds = Bounds(self.max_root, self.max_coefficient, self.fractions, self.words)
        made, prompt = draw_equations(rng, rng.choice(self.kinds), bounds)
        if split_of(json.dumps(list(made.texts))) != split:
            return None
        solution: list[Json] = [[name, str(value)] for name, value in made.solution]
        meta: dict[str, Json] = {
            "kind": made.kind, "equations": list(made.texts), "worded": made.worded, "solution": solution
        }  # fmt: skip
        name = problem_id(self.domain, f"{prompt} {json.dumps(meta)}")
        return Problem(name, prompt, made.answer, self.domain, meta=meta)


class Bounds(NamedTuple):
    """The largest root and coefficient, and the shares of fractional roots and of problems in words."""

    root: int
    coefficient: int
    fractions: float
    words: float


def draw_equations(rng: Random, kind: Kind, bounds: Bounds) -> tuple[Equations, str]:
    """The equations of a problem and its text."""
    if kind == "linear":
        return _linear(rng, bounds)
    return _system(rng, bounds) if kind == "system" else _quadratic(rng, bounds)


def _nonzero(rng: Random, largest: int) -> int:
    return rng.choice((-1, 1)) * rng.randint(1, largest)


def _linear(rng: Random, bounds: Bounds) -> tuple[Equations, str]:
    a = rng.randint(2, bounds.coefficient)
    fractional = rng.random() < bounds.fractions
    root = Fraction(_nonzero(rng, bounds.root * a), a) if fractional else Fraction(_nonzero(rng, bounds.root))
    b = _nonzero(rng, bounds.coefficient)
    form = rng.randrange(3)
    if form == 0:
        c = a * root + b
        worded = c.denominator == 1 and rng.random() < 2 * bounds.words
        made = _made("linear", (f"{_line(a, b)} = {c}",), worded, [root])
        return made, write_linear(a, b, int(c), rng) if worded else write_equations(made.texts, rng)
    if form == 1:
        k = rng.choice([k for k in range(-bounds.coefficient, bounds.coefficient + 1) if k not in (0, a)])
        right = X.scaled(k).plus(constant((a - k) * root + b))
        made = _made("linear", (f"{_line(a, b)} = {right}",), False, [root])
    else:
        made = _made("linear", (f"{a}({_line(1, b)}) = {a * (root + b)}",), False, [root])
    return made, write_equations(made.texts, rng)


def _line(a: int, b: int) -> Poly:
    return X.scaled(a).plus(constant(b))


def _made(kind: Kind, texts: tuple[str, ...], worded: bool, roots: list[Fraction]) -> Equations:
    solution = tuple(("x", root) for root in roots)
    return Equations(kind, texts, worded, answer_text(solution), solution)


def _system(rng: Random, bounds: Bounds) -> tuple[Equations, str]:
    x, y = _nonzero(rng, bounds.root), _nonzero(rng, bounds.root)
    m = _nonzero(rng, max(1, bounds.coefficient // 2))
    a, b = rng.randint(2, bounds.coefficient), _nonzero(rng, bounds.coefficient)
    worded = rng.random() < bounds.words and abs(b) > 1
    if worded:
        m = -1
    if a + b * m == 0:
        a += 1
    if worded or rng.random() < 0.5:  # y - m x = k, to be isolated
        first = equation(X.scaled(-m).plus(Y), constant(y - m * x))
    else:
        first = equation(Y, X.scaled(m).plus(constant(y - m * x)))
    second = equation(X.scaled(a).plus(Y, b), constant(a * x + b * y))
    solution = (("x", Fraction(x)), ("y", Fraction(y)))
    made = Equations("system", (str(first), str(second)), worded, answer_text(solution), solution)
    text = write_system(x + y, a, b, a * x + b * y, rng) if worded else write_equations(made.texts, rng)
    return made, text


def _quadratic(rng: Random, bounds: Bounds) -> tuple[Equations, str]:
    first = Fraction(_nonzero(rng, bounds.root))
    second = Fraction(_nonzero(rng, bounds.root))
    while second == first or first + second == 0:
        second = Fraction(_nonzero(rng, bounds.root))
    worded = rng.random() < bounds.words and abs(first + second) > 1
    if not worded and rng.random() < bounds.fractions:
        second = second + Fraction(1, 2)
    product = X.minus(constant(first)).product(X.minus(constant(second)))
    p = product.scaled(second.denominator)
    roots = sorted((first, second))
    if worded or rng.random() < 0.5:
        right = constant(-p.coefficient())
        made = _made("quadratic", (f"{p.plus(right)} = {right}",), worded, roots)
    else:
        made = _made("quadratic", (f"{p} = 0",), False, roots)
    if worded:
        return made, write_quadratic(int(p.linear("x")), int(-p.coefficient()), rng)
    return made, write_equations(made.texts, rng, all_roots=True)


def write_equations(texts: tuple[str, ...], rng: Random, all_roots: bool = False) -> str:
    if len(texts) == 2:
        return pick(rng, ASK_BOTH).format(eq=texts[0], other=texts[1])
    return pick(rng, ASK_ALL if all_roots else ASK).format(eq=texts[0])


def write_linear(a: int, b: int, c: int, rng: Random) -> str:
    return pick(rng, MORE if b > 0 else LESS).format(a=a, b=abs(b), c=c)


def write_quadratic(b: int, c: int, rng: Random) -> str:
    return pick(rng, SQUARE).format(sign="plus" if b > 0 else "minus", b=abs(b), c=c)


def write_system(total: int, a: int, b: int, c: int, rng: Random) -> str:
    rest = REST.format(a=a, sign="plus" if b > 0 else "minus", b=abs(b), c=c)
    return pick(rng, SUM).format(s=total, rest=rest) + " What are x and y?"


class Work(NamedTuple):
    """Where the writer stands: of a system the isolated unknown, the equation in one unknown, the values found."""

    isolated: Relation | None = None
    current: Relation | None = None
    values: tuple[tuple[str, Fraction], ...] = ()
    answer: str | None = None


@register("policy", "scripted-algebra", Declared(weightless=True, tempered=False))
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
