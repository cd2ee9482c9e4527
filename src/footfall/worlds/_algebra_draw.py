"""Draws algebra problems backwards from their solutions: linear equations, systems of two, quadratics."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import NamedTuple

from footfall.worlds._algebra_poly import Poly, constant, variable
from footfall.worlds._algebra_problem import Equations, Kind
from footfall.worlds._algebra_reading import answer_text
from footfall.worlds._algebra_relation import equation
from footfall.worlds._algebra_text import write_equations, write_linear, write_quadratic, write_system

__all__ = ["Bounds", "draw"]

X, Y = variable("x"), variable("y")


class Bounds(NamedTuple):
    """The largest root and coefficient, and the shares of fractional roots and of problems in words."""

    root: int
    coefficient: int
    fractions: float
    words: float


def draw(rng: Random, kind: Kind, bounds: Bounds) -> tuple[Equations, str]:
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
