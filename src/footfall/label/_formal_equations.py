"""Equations judged by computer algebra: those between numbers by their value, those with unknowns by their solutions.

A step's equation between numbers ("3 * 4 = 12") holds if both sides are equal; a decimal may be rounded. One with unknowns
holds if it is an identity, has the same solutions as the problem's equation or an earlier one, or, with two unknowns, is
implied by two of them. Labels are local: what follows rightly from an earlier wrong equation holds. An equation that
follows from nothing is wrong only where it has to follow (domain `algebra`); elsewhere it may define something new.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise

from footfall.label._formal_verdict import ANSWER, Verdict, answer_verdict, worst
from footfall.label._formal_words import worded_equations
from footfall.tools._algebra_parse import Tree
from footfall.tools.algebra import AlgebraError, equivalent, implied, parse_expression, step_follows
from footfall.types import Trajectory

__all__ = ["equations_in", "judge_equations", "number_of"]

_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "–": "-", "·": "*", "²": "^2", "$": " ", "€": " ", "£": " "})
_LATEX = ((r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))"), (r"\\(?:times|cdot)\b", "*"), (r"\\div\b", "/"),
          (r"\\(?:left|right)\b|\\[()\[\],;! ]", " "), (r"<<[^<>]*>>", ""), (r"(?<=\d),(?=\d{3}(?!\d))", ""))  # fmt: skip
_UNIT = re.compile(r"(?<=\d)\s+[a-zA-Z]{2,}(?:\s+[a-zA-Z]{2,})?\s*(?=[-+*/=)])")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*%")
_LETTER = r"(?<![A-Za-z'’])[b-hj-zB-HJ-Z](?![A-Za-z])"
_PIECE = rf"(?:\d+(?:\.\d+)?|\.\d+|{_LETTER}|[-+*/^()=])"
_SPAN = re.compile(rf"{_PIECE}(?:\s*{_PIECE})*")
_JOINT = re.compile(r"\s*,?\s*(?:or|and|,)\s*", re.IGNORECASE)
_VALUE = re.compile(r"\s*([A-Za-z])\s*=\s*[-()\d./\s]+")
_ONE_CASE = re.compile(r"\b(?:if|when|case|suppose|assume|let(?! me\b)|either)\b|±", re.IGNORECASE)
_OPERATION_BEFORE = re.compile(r"(?:\bof|\btimes|\bplus|\bminus|\bby|[<>≈≤≥≠])\s*$", re.IGNORECASE)


class _Unreadable(Exception):
    """An `=` that is in no equation which can be read."""


def equations_in(text: str) -> list[str]:
    """The equations that a text states; alternatives (`x = 2 or x = 3`) are one, a chain `a = b = c` is two."""
    plain = text.translate(_SIGNS)
    for pattern, replacement in _LATEX:
        plain = re.sub(pattern, replacement, plain)
    plain = _UNIT.sub(" ", _PERCENT.sub(r"(\1/100)", plain))
    found: list[str] = []
    end = -1
    for span in (span for span in _SPAN.finditer(plain) if "=" in span[0]):
        sides = span[0].split("=")
        lost = not _names([span[0]]) and _OPERATION_BEFORE.search(plain[: span.start()])  # "20% of 50 = 10"
        if lost or not all(side.strip() for side in sides):
            raise _Unreadable(f"cannot be formalised: {span[0].strip()!r}")
        joint = _JOINT.fullmatch(plain[end : span.start()]) if end >= 0 else None
        if joint and len(sides) == 2 and _alternatives(found[-1], span[0], joint[0]):
            found[-1] = f"{found[-1]} or {span[0].strip()}"
        else:
            found += [f"{left.strip()} = {right.strip()}" for left, right in _links(sides)]
        end = span.end()
    if sum(equation.count("=") for equation in found) != plain.count("="):
        raise _Unreadable("an equation cannot be formalised")
    return found


def _links(sides: Sequence[str]) -> list[tuple[str, str]]:
    """The equations of a chain, side by side; two plain numbers are held against a side that computes: `2 + 2 = 4 = 5`."""
    anchor = next((k for k, side in enumerate(sides) if _computes(side)), None)
    pairs = list(pairwise(sides))
    if anchor is None or _names(sides):
        return pairs
    return [
        (left, right) if _computes(left) or _computes(right) else (sides[anchor], right if k > anchor else left)
        for k, (left, right) in enumerate(pairs)
    ]


def _computes(text: str) -> bool:
    """Whether there is an operation on a number."""
    return re.search(r"\d\s*\)*\s*[-+*/^(]", text) is not None


def _alternatives(first: str, second: str, joint: str) -> bool:
    """Whether two equations are one choice: joined by "or", or two values of the same unknown."""
    values = [_VALUE.fullmatch(text) for text in (first.rpartition(" or ")[2], second)]
    return "or" in joint.lower() or (all(values) and len({match[1] for match in values if match}) == 1)


@dataclass
class _Algebra:
    """Where a trace stands: the problem's equations, and those stated since with whether the problem implies them."""

    given: list[str]
    closed: bool
    """Whether every equation has to follow from the problem."""
    claims: list[tuple[str, bool]] = field(default_factory=list)

    def judge(self, equation: str) -> Verdict:
        """One equation with unknowns; it is then known, for better or worse."""
        verdict, grounded = self._follows(equation)
        if grounded:  # what is true now takes the place of what was wrong
            self.claims = [claim for claim in self.claims if claim[1]]
        self.claims.append((equation, grounded))
        return verdict

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
        if len(_names(rows)) > 1 and any(self._by(pair, equation, unknown) for pair in combinations(rows, 2)):
            return Verdict(True, "it follows from two earlier equations"), False
        if unknown:
            return Verdict(None, unknown[0]), False
        if not self.closed:
            return Verdict(None, "it follows from no earlier equation, but may state something new"), False
        return Verdict(False, f"{equation!r} follows from no earlier equation"), False

    def _by(self, rows: Sequence[str], equation: str, unknown: list[str]) -> bool:
        if len(rows) == 1:
            check = step_follows(rows[0], equation)
        elif len(_names([*rows, equation])) > 2:
            return False
        else:
            check = implied(list(rows), equation)
            if check.holds is None and check.reason.startswith("no single solution"):
                return False
        if check.holds is None:
            unknown.append(check.reason)
        return check.holds is True


def judge_equations(trajectory: Trajectory) -> list[Verdict]:
    """A verdict on each step, by exact arithmetic and computer algebra."""
    problem = trajectory.problem
    algebra = _Algebra(_given(problem.text), closed=problem.domain == "algebra")
    found = []
    for step in trajectory.steps:
        match = ANSWER.search(step.text)
        work = step.text[: match.start()] if match else step.text
        verdicts = _judge_work(algebra, work) if "=" in work or not match else []
        if match:
            verdicts.append(answer_verdict(problem, match[1]))
        found.append(worst(verdicts, "the step states no equation"))
    return found


def _given(text: str) -> list[str]:
    """The equations with unknowns in a problem, written out or in words."""
    try:
        written = [equation for equation in equations_in(text) if _names([equation])]
    except _Unreadable:
        written = []
    return written or worded_equations(text)


def _judge_work(algebra: _Algebra, text: str) -> list[Verdict]:
    try:
        equations = equations_in(text)
    except _Unreadable as reason:
        return [Verdict(None, str(reason))]
    found = []
    for equation in equations:
        if not _names([equation]):
            found.append(_numbers_agree(equation))
        elif _ONE_CASE.search(text):
            found.append(Verdict(None, f"{equation!r} may be meant for one case only"))
        else:
            found.append(algebra.judge(equation))
    return found


def _numbers_agree(equation: str) -> Verdict:
    """An equation between numbers; one without an operation (`50 = 10`) is a fragment of something else."""
    left, _, right = equation.partition("=")
    if not _computes(equation):
        return Verdict(None, f"{equation!r} computes nothing")
    try:
        values = [number_of(parse_expression(side)) for side in (left, right)]
    except AlgebraError as error:
        return Verdict(None, f"cannot be formalised: {error}")
    except ZeroDivisionError:
        return Verdict(False, f"{equation!r} divides by zero")
    if None in values:
        check = equivalent(left, right)
        return Verdict(check.holds, check.reason)
    if values[0] == values[1] or _rounds(values[0], right) or _rounds(values[1], left):
        return Verdict(True, f"{left.strip()} is {right.strip()}")
    if "/100)" in equation:
        return Verdict(None, f"{equation!r} is not so, but per cent may be meant otherwise")
    return Verdict(False, f"{left.strip()} is {values[0]}, not {right.strip()}")


def _rounds(value: Fraction | None, text: str) -> bool:
    """Whether the text is a decimal that the value rounds to, up or down, at its last place."""
    decimal = re.fullmatch(r"\s*-?\d+\.(\d+)\s*", text)
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


def _names(equations: Sequence[str]) -> set[str]:
    return {name for equation in equations for name in re.findall(_LETTER, equation)}
