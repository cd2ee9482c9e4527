"""What an equation says: two sides, a product that is zero, or a choice of roots; read from text and written as text.

Sides are polynomials in x and y with exact rational coefficients: all the arithmetic that the algebra world needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from typing import Literal, NamedTuple, TypeAlias

from footfall.worlds.world import UnreadableError

Monomial: TypeAlias = "tuple[int, int]"
"""The powers of x and y."""
VARIABLES = ("x", "y")
Form: TypeAlias = Literal["equation", "factored", "choice"]
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([xy])|([-+*/^()]))")
_LONGEST = 12  # digits: longer numbers are not of this world


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


class Relation(NamedTuple):
    """`equation`: left and right side. `factored`: factors whose product is 0. `choice`: x is one of these numbers."""

    form: Form
    sides: tuple[Poly, ...]

    @property
    def zero(self) -> Poly:
        """The polynomial that the relation says is zero."""
        if self.form == "equation":
            return self.sides[0].minus(self.sides[1])
        factors = self.sides if self.form == "factored" else [variable("x").minus(root) for root in self.sides]
        product = constant(1)
        for factor in factors:
            product = product.product(factor)
        return product

    @property
    def meaning(self) -> Poly:
        """Equal for two relations in one unknown that have the same solutions."""
        return square_free(self.zero)

    def __str__(self) -> str:
        if self.form == "equation":
            return f"{self.sides[0]} = {self.sides[1]}"
        if self.form == "factored":
            return "".join(f"({factor})" for factor in self.sides) + " = 0"
        return " or ".join(f"x = {root}" for root in self.sides)


def equation(left: Poly, right: Poly) -> Relation:
    return Relation("equation", (left, right))


def assignment(name: str, value: Poly | Fraction) -> Relation:
    return equation(variable(name), value if isinstance(value, Poly) else constant(value))


def factored(*factors: Poly) -> Relation:
    return Relation("factored", factors)


def choice(*roots: Fraction) -> Relation:
    """`x = 2 or x = 3`; a single root is a plain equation."""
    found = sorted(set(roots))
    return Relation("choice", tuple(constant(root) for root in found)) if len(found) > 1 else assignment("x", found[0])


def read_relation(text: str) -> list[Relation]:
    """The relations of `a = b` or of a chain `a = b = c`, one for each `=`; raises `UnreadableError` with the reason."""
    sides = text.split("=")
    if len(sides) < 2:
        raise UnreadableError(f"{text!r} is no equation")
    read = [_Expression(side, text).read() for side in sides]
    found: list[Relation] = []
    for (left, factors), (right, _) in pairwise(read):
        if len(factors) > 1 and not right.terms:
            found.append(factored(*factors))
        else:
            found.append(equation(left, right))
    return found


class _Expression:
    """One side of an equation by recursive descent: sum of products of powers of atoms."""

    def __init__(self, text: str, whole: str) -> None:
        self.whole = whole.strip()
        self.tokens = list(self._tokens(text.rstrip()))
        self.at = 0

    def _tokens(self, text: str) -> Iterator[str]:
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if not match or len(match[0]) > _LONGEST:
                raise UnreadableError(f"cannot read {self.whole!r}")
            yield match[0].strip()
            at = match.end()

    def read(self) -> tuple[Poly, list[Poly]]:
        """The polynomial, and its factors with a variable if it is one product of them."""
        if not self.tokens:
            raise UnreadableError(f"one side of {self.whole!r} is empty")
        total, factors = self._sum()
        if self.at < len(self.tokens):
            raise UnreadableError(f"cannot read {self.whole!r}")
        return total, factors

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _sum(self) -> tuple[Poly, list[Poly]]:
        total, factors = self._product()
        while self._peek() in ("+", "-"):
            sign = -1 if self._take() == "-" else 1
            total, factors = total.plus(self._product()[0], sign), []
        return total, factors

    def _product(self) -> tuple[Poly, list[Poly]]:
        sign = 1
        while self._peek() in ("+", "-"):
            sign *= -1 if self._take() == "-" else 1
        total = self._power()
        factors = [total] if total.names else []
        while self._peek() not in ("", "+", "-", ")"):
            if self._peek() == "/":
                self._take()
                total = total.scaled(1 / self._divisor())
                continue
            if self._peek() == "*":
                self._take()
            factor = self._power()
            total = total.product(factor)
            factors += [factor] if factor.names else []
            if total.degree > 4:
                raise UnreadableError(f"{self.whole!r} has too high a power")
        return total.scaled(sign), factors

    def _divisor(self) -> Fraction:
        sign = 1
        if self._peek() == "-":
            self._take()
            sign = -1
        divisor = self._power()
        if divisor.names or not divisor.terms:
            raise UnreadableError(f"{self.whole!r} divides by what is no number")
        return divisor.coefficient() * sign

    def _power(self) -> Poly:
        base = self._atom()
        if self._peek() == "^":
            self._take()
            power = self._take()
            if power not in ("1", "2"):
                raise UnreadableError(f"{self.whole!r} has a power that cannot be read")
            base = base.product(base) if power == "2" else base
        return base

    def _atom(self) -> Poly:
        token = self._take()
        if token == "(":
            inside = self._sum()[0]
            if self._take() != ")":
                raise UnreadableError(f"{self.whole!r} has a bracket that is not closed")
            return inside
        if token in ("x", "y"):
            return variable(token)
        if token[:1].isdigit():
            return poly({(0, 0): Fraction(token)})
        raise UnreadableError(f"cannot read {self.whole!r}")
