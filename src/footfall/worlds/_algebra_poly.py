"""Polynomials in x and y with exact rational coefficients: all the arithmetic that the algebra world needs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isqrt
from typing import NamedTuple, TypeAlias

__all__ = ["VARIABLES", "Monomial", "Poly", "constant", "poly", "rational_roots", "square_free", "variable"]

Monomial: TypeAlias = "tuple[int, int]"
"""The powers of x and y."""
VARIABLES = ("x", "y")


class Poly(NamedTuple):
    """A sum of monomials with coefficients that are not zero, highest powers first."""

    terms: tuple[tuple[Monomial, Fraction], ...] = ()

    def plus(self, other: Poly, times: Fraction | int = 1) -> Poly:
        total = dict(self.terms)
        for monomial, coefficient in other.terms:
            total[monomial] = total.get(monomial, Fraction(0)) + coefficient * times
        return poly(total)

    def minus(self, other: Poly) -> Poly:
        return self.plus(other, -1)

    def scaled(self, factor: Fraction | int) -> Poly:
        return Poly().plus(self, factor)

    def product(self, other: Poly) -> Poly:
        total: dict[Monomial, Fraction] = {}
        for (i, j), a in self.terms:
            for (k, m), b in other.terms:
                total[i + k, j + m] = total.get((i + k, j + m), Fraction(0)) + a * b
        return poly(total)

    def coefficient(self, *powers: int) -> Fraction:
        """Of the monomial with these powers of x and y; `coefficient()` is the constant term."""
        x, y = (*powers, 0, 0)[:2]
        return dict(self.terms).get((x, y), Fraction(0))

    def linear(self, name: str) -> Fraction:
        """The coefficient of a variable by itself."""
        return self.coefficient(*((1, 0) if name == "x" else (0, 1)))

    @property
    def degree(self) -> int:
        return max((i + j for (i, j), _ in self.terms), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that occur."""
        return tuple(name for at, name in enumerate(VARIABLES) if any(powers[at] for powers, _ in self.terms))

    def at(self, **values: Poly) -> Poly:
        """With polynomials in place of variables."""
        total = Poly()
        for (i, j), coefficient in self.terms:
            term = constant(coefficient)
            for name, power in zip(VARIABLES, (i, j), strict=True):
                for _ in range(power):
                    term = term.product(values.get(name, variable(name)))
            total = total.plus(term)
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = [_term(monomial, coefficient) for monomial, coefficient in self.terms]
        return parts[0] + "".join(f" - {part[1:]}" if part[0] == "-" else f" + {part}" for part in parts[1:])


def poly(terms: Mapping[Monomial, Fraction]) -> Poly:
    kept = [(monomial, coefficient) for monomial, coefficient in terms.items() if coefficient]
    return Poly(tuple(sorted(kept, key=lambda term: (-sum(term[0]), -term[0][0]))))


def constant(value: Fraction | int) -> Poly:
    return poly({(0, 0): Fraction(value)})


def variable(name: str) -> Poly:
    return poly({(1, 0) if name == "x" else (0, 1): Fraction(1)})


def _term(monomial: Monomial, coefficient: Fraction) -> str:
    word = "".join(
        f"{name}^{power}" if power > 1 else name for name, power in zip(VARIABLES, monomial, strict=True) if power
    )
    if not word:
        return str(coefficient)
    if coefficient.denominator != 1:
        return f"{'-' if coefficient < 0 else ''}({abs(coefficient)}){word}"
    return {1: word, -1: f"-{word}"}.get(int(coefficient), f"{coefficient}{word}")


def _root(value: Fraction) -> Fraction | None:
    """The rational square root, if there is one."""
    if value < 0:
        return None
    top, bottom = isqrt(value.numerator), isqrt(value.denominator)
    return Fraction(top, bottom) if top * top == value.numerator and bottom * bottom == value.denominator else None


def rational_roots(p: Poly, name: str = "x") -> tuple[Fraction, ...] | None:
    """The roots of a polynomial of degree 1 or 2 in one variable, in order; `None` if they are not rational."""
    square = (2, 0) if name == "x" else (0, 2)
    a, b, c = p.coefficient(*square), p.linear(name), p.coefficient()
    if a == 0:
        return (-c / b,) if b else None
    root = _root(b * b - 4 * a * c)
    if root is None:
        return None
    return tuple(sorted({(-b - root) / (2 * a), (-b + root) / (2 * a)}))


def square_free(p: Poly) -> Poly:
    """The polynomial with leading coefficient 1 and each root once: equal for equations with the same solutions.

    Only for degree 2 or less in one variable; real and complex roots count alike.
    """
    if not p.terms:
        return p
    p = p.scaled(1 / p.terms[0][1])
    if p.degree == 2:
        name = p.names[0]
        half = p.linear(name) / 2
        if half * half == p.coefficient():
            return variable(name).plus(constant(half))
    return p
