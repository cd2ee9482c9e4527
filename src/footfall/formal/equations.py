"""Equations judged by computer algebra: those between numbers by their value, those with unknowns by their solutions.

A step's equation between numbers ("3 * 4 = 12") holds if both sides are equal; a decimal may be rounded. It is wrong only if
nothing in the text lets it be read otherwise: no unit, remainder, rounding or other arithmetic. One with unknowns
holds if it is an identity, has the same solutions as the problem's equation or an earlier one, or, with two unknowns, is
implied by two of them. Labels are local: what follows rightly from an earlier wrong equation holds. An equation that
follows from nothing is wrong only where it has to follow (domain `algebra`); elsewhere it may define something new.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

from footfall.formal.context import another_arithmetic
from footfall.formal.reading import computes, equations_in, letters_in, names_in, worded_equations
from footfall.formal.verdict import ANSWER, Verdict, answer_verdict, worst
from footfall.tools.algebra import AlgebraError, Tree, equivalent, implied, parse_expression, step_follows
from footfall.types import Trajectory

_ONE_CASE = re.compile(r"\b(?:if|when|case|suppose|assume|let(?! me\b)|either)\b|±", re.IGNORECASE)
_AMBIGUOUS = re.compile(
    r"\(\s*\d+\s*\)\s*[\d(]|\d\s+\(|/\s*\d+(?:\.\d+)?\s*\(|(?:^|=)\s*-\s*\d+\s*\^|\^[^-+*/=]*\^|(?<![\d.])[1-9]\d{0,2}\.\d{3}(?!\d)"
)
"""A number of a list or a product, what is divided by, what is raised, a point between thousands or before decimals."""
_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*")
_LIST_ITEM = re.compile(r"\s*\d+\s+-\s+(?=[\d(])")
_FIRST = re.compile(r"\s*(\d+(?:\.\d+)?)\s*[-+*/]")
_DECIMAL = re.compile(r"(?<![\d.])(\d*\.(\d{2,}))(?![\d.])")
_WHOLE = re.compile(r"\s*-?\d+\s*")


_GAP = re.compile(r"[^\S\n]{3,}")
"""Read as two spaces: what may follow a number is looked for across them."""
_MOST_QUESTIONS = 2_000
_WEIGHT_OF_LATE = 1_000
"""A question that used up its time counts for so many."""


@dataclass
class _Algebra:
    """Where a trace stands: the problem's equations, and those stated since with whether the problem implies them."""

    given: list[str]
    closed: bool
    """Whether every equation has to follow from the problem."""
    known: set[str] = field(default_factory=set)
    """Unknowns that the problem or a step has spoken of."""
    claims: list[tuple[str, bool]] = field(default_factory=list)
    asked: int = 0
    """Questions so far; pairs of equations grow with the square of what a trace states, so they are limited."""

    def judge(self, equation: str) -> Verdict:
        """One equation with unknowns; it is then known, for better or worse."""
        verdict, grounded = self._follows(equation)
        self.known |= names_in([equation])
        if grounded:  # what is true now takes the place of what was wrong
            self.claims = [claim for claim in self.claims if claim[1]]
        self.claims.append((equation, grounded))
        return verdict

    def name(self, equation: str) -> None:
        """A new unknown names what is computed: that is neither right nor wrong, but known from then on."""
        self.known |= names_in([equation])
        self.claims.append((equation, False))

    def _follows(self, equation: str) -> tuple[Verdict, bool]:
        unknown: list[str] = []
        if not self.given and not self.claims:
            return Verdict(None, "no equation of the problem can be formalised, and none was stated before"), False
        if self.given:
            by_problem = self._by(self.given, equation, unknown)
            if by_problem:
                return Verdict(True, "it has the solutions of the problem"), True
        earlier = [claim for claim, _ in reversed(self.claims)]
        rows = [*earlier, *self.given]
        if any(self._by([row], equation, unknown) for row in earlier):
            return Verdict(True, "it follows from an earlier equation"), False
        if len(names_in(rows)) > 1 and any(self._by(pair, equation, unknown) for pair in combinations(rows, 2)):
            return Verdict(True, "it follows from two earlier equations"), False
        if unknown:
            return Verdict(None, unknown[0]), False
        if not self.closed:
            return Verdict(None, "it follows from no earlier equation, but may state something new"), False
        return Verdict(False, f"{equation!r} follows from no earlier equation"), False

    def _by(self, rows: Sequence[str], equation: str, unknown: list[str]) -> bool:
        self.asked += 1
        if self.asked > _MOST_QUESTIONS:
            unknown.append(f"the trace asks computer algebra more than {_MOST_QUESTIONS} questions")
            return False
        if len(rows) == 1:
            check = step_follows(rows[0], equation)
        elif len(names_in([*rows, equation])) > 2:
            return False
        else:
            check = implied(list(rows), equation)
            if check.holds is None and check.reason.startswith("no single solution"):
                return False
        if check.holds is None:
            self.asked += _WEIGHT_OF_LATE if check.late else 0
            unknown.append(check.reason)
        return check.holds is True


def judge_equations(trajectory: Trajectory) -> list[Verdict]:
    """A verdict on each step, by exact arithmetic and computer algebra."""
    problem = trajectory.problem
    given = _given(problem.text)
    algebra = _Algebra(given, problem.domain == "algebra", letters_in(problem.text) | names_in(given))
    found = []
    other = another_arithmetic(problem.text)
    for step in trajectory.steps:
        text = _GAP.sub("  ", step.text)
        other = other or another_arithmetic(text)
        match = ANSWER.search(text)
        work = text[: match.start()] if match else text
        verdicts = _judge_work(algebra, work, other) if "=" in work or not match else []
        if match:
            verdicts.append(answer_verdict(problem, match[1]))
        found.append(worst(verdicts, "the step states no equation"))
    return found


def _given(text: str) -> list[str]:
    """The equations with unknowns in a problem, written out or in words."""
    equations = equations_in(text)
    written = [stated.equation for stated in equations.stated if names_in([stated.equation])]
    return (written if equations.unread is None else []) or worded_equations(text)


def _judge_work(algebra: _Algebra, text: str, other: str | None = None) -> list[Verdict]:
    equations = equations_in(text)
    found = [] if equations.unread is None else [Verdict(None, equations.unread)]
    for stated in equations.stated:
        equation = stated.equation
        if not names_in([equation]):
            verdict = _numbers_agree(equation, stated.one_sided)
            doubt = other or stated.doubt
            open_ = doubt is not None and verdict.holds is False
            found.append(Verdict(None, f"{equation!r} {doubt}") if open_ else verdict)
        elif equations.unread is not None:
            found.append(Verdict(None, f"{equation!r} stands beside what cannot be formalised"))
        elif stated.names is not None and stated.names not in algebra.known:
            algebra.name(equation)
        elif _ONE_CASE.search(text):
            found.append(Verdict(None, f"{equation!r} may be meant for one case only"))
        else:
            found.append(algebra.judge(equation))
    return found


def _numbers_agree(equation: str, one_sided: bool = False) -> Verdict:
    """An equation between numbers; one without an operation (`50 = 10`) is a fragment of something else."""
    left, _, right = equation.partition("=")
    if not computes(equation):
        return Verdict(None, f"{equation!r} computes nothing")
    try:
        values = [_value(side) for side in (left, right)]
    except AlgebraError as error:
        return Verdict(None, f"cannot be formalised: {error}")
    except ZeroDivisionError:
        return Verdict(False, f"{equation!r} divides by zero")
    if values[0] is None or values[1] is None:
        check = equivalent(left, right)
        return Verdict(check.holds, check.reason)
    if values[0] == values[1] or _rounds(values[0], right) or _rounds(values[1], left):
        return Verdict(True, f"{left.strip()} is {right.strip()}")
    doubt = _doubt(left, right, (values[0], values[1]), one_sided)
    if doubt:
        return Verdict(None, f"{equation!r} is not so, but {doubt}")
    return Verdict(False, f"{left.strip()} is {values[0]}, not {right.strip()}")


def _doubt(left: str, right: str, values: tuple[Fraction, Fraction], one_sided: bool) -> str | None:
    """Why a false equation between numbers may be right as it is meant."""
    if "/100)" in left + right:
        return "per cent may be meant otherwise"
    if (
        one_sided
        and all(values)
        and 1 in [abs(ratio).denominator for ratio in (values[0] / values[1], values[1] / values[0])]
    ):
        return "one side may count in a larger unit"
    if _rounded(left, right):
        return "may be rounded"
    return _ambiguous(left, right)


def _ambiguous(left: str, right: str) -> str | None:
    """How else a false equation between numbers can be read."""
    if _AMBIGUOUS.search(left) or _AMBIGUOUS.search(right):
        return "can be read in two ways"
    item = _LIST_ITEM.match(left)
    if item and _value_if_any(left[item.end() :]) == _value_if_any(right):
        return "may begin with the number of a list"
    apart = _RANGE.fullmatch(left)
    if apart and int(apart[1]) < int(apart[2]) and (_value_if_any(right) or 0) > 0:
        return "may be a range"
    above, bar, below = left.rpartition("/")
    if bar and _value_if_any(f"({above})/{below}") == _value_if_any(right) is not None:
        return "may have lost a fraction bar"
    first = _FIRST.match(right)
    if first and _value_if_any(left) == Fraction(first[1]):
        return "goes on computing after the equals sign"
    return None


def _rounded(left: str, right: str) -> bool:
    """Whether the sides may differ by rounding: a whole number in place of a quotient, or decimals that were cut before."""
    values = _value_if_any(left), _value_if_any(right)
    if values[0] is None or values[1] is None:
        return False
    away = abs(values[0] - values[1])
    for side, exact in ((left, values[1]), (right, values[0])):
        if _WHOLE.fullmatch(side) and exact.denominator > 1 and away < 1:
            return True
    return away <= _slack(left) + _slack(right)


def _slack(side: str) -> Fraction:
    """How far the value may be off if every decimal of two places and more was rounded at its last."""
    total, exact = Fraction(0), _value_if_any(side)
    for match in _DECIMAL.finditer(side):
        half = Fraction(1, 2 * 10 ** len(match[2]))
        moved = [
            _value_if_any(f"{side[: match.start()]}({match[1]} {sign} {half}){side[match.end() :]}") for sign in "+-"
        ]
        total += max((abs(other - exact) for other in moved if other is not None and exact is not None), default=half)
    return total


def _value(side: str) -> Fraction | None:
    return number_of(parse_expression(side))


def _value_if_any(side: str) -> Fraction | None:
    try:
        return _value(side)
    except (AlgebraError, ZeroDivisionError):
        return None


def _rounds(value: Fraction | None, text: str) -> bool:
    """Whether the text is a decimal that the value rounds to, up or down, at its last place."""
    decimal = re.fullmatch(r"\s*-?\d*\.(\d+)\s*", text)
    if decimal is None or value is None:
        return False
    return abs(value - Fraction(text.strip())) < Fraction(1, 10 ** len(decimal[1]))


def number_of(tree: Tree) -> Fraction | None:
    """The value of an expression of rational numbers; `None` if it has a root, a name or a large power."""
    kind, *parts = tree
    if kind == "number":
        return Fraction(str(parts[0]))
    if kind not in ("+", "-", "*", "/", "^"):
        return None
    values = [number_of(part) for part in parts if isinstance(part, list)]
    if any(value is None for value in values):
        return None
    first, second = (values[0] or Fraction(0)), (values[1] or Fraction(0)) if len(values) > 1 else None
    if second is None:
        return -first
    if kind == "^":
        return Fraction(first**second.numerator) if second.denominator == 1 and abs(second) <= 64 else None
    return {"+": first + second, "-": first - second, "*": first * second}[kind] if kind != "/" else first / second
