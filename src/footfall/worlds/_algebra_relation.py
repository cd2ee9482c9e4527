"""What an equation says: two sides, a product that is zero, or a choice of roots; read from text and written as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from footfall.worlds._algebra_poly import Poly, constant, poly, square_free, variable

__all__ = ["Relation", "UnreadableError", "assignment", "choice", "equation", "factored", "read_relation"]

Form: TypeAlias = Literal["equation", "factored", "choice"]
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([xy])|([-+*/^()]))")
_LONGEST = 12  # digits: longer numbers are not of this world


class UnreadableError(Exception):
    """A text cannot be read; the message is the reason."""


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
