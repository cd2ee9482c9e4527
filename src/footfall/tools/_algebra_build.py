"""Parsed trees to sympy expressions, and whether one is zero. In the helper process only: it imports sympy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy

from footfall.tools._algebra_parse import Tree

__all__ = ["Equation", "build", "denominators", "difference_at", "is_zero", "symbol"]

Expression: TypeAlias = Any
"""A sympy expression; sympy has no types."""

_CALLS: dict[str, Callable[[Expression], Expression]] = {
    "sqrt": sympy.sqrt, "abs": sympy.Abs, "exp": sympy.exp, "log": sympy.log, "ln": sympy.log, "sin": sympy.sin,
    "cos": sympy.cos, "tan": sympy.tan,
}  # fmt: skip
_DIGITS = 40
_NOT_ZERO = sympy.Rational(1, 10**25)
_SAMPLES = [
    sympy.Rational(n, d) for n, d in ((7, 5), (-13, 7), (23, 11), (3, 17), (-1, 3), (41, 9), (-29, 6), (12, 13))
]


def symbol(name: str) -> Expression:
    return sympy.Symbol(name, real=True)


def build(tree: Tree, values: Mapping[str, Expression] = {}) -> Expression:
    """The expression, with `values` in place of names. Built node by node: no text is ever evaluated."""
    kind = tree[0]
    if kind == "number":
        return sympy.Rational(tree[1])
    if kind == "name":
        name = str(tree[1])
        return values[name] if name in values else sympy.pi if name == "pi" else symbol(name)
    if kind == "call":
        return _CALLS[str(tree[1])](build(_part(tree, 2), values))
    first = build(_part(tree, 1), values)
    if len(tree) == 2:
        return -first
    second = build(_part(tree, 2), values)
    if kind == "+":
        return first + second
    if kind == "-":
        return first - second
    if kind == "*":
        return first * second
    return first / second if kind == "/" else sympy.Pow(first, second)


def _part(tree: Tree, number: int) -> Tree:
    part = tree[number]
    assert isinstance(part, list)
    return part


def denominators(tree: Tree) -> Iterator[Tree]:
    """What the expression divides by, also where sympy would cancel it: `(x - 1)/(x - 1)` is not defined at 1."""
    if tree[0] == "/":
        yield _part(tree, 2)
    if tree[0] == "^" and build(_part(tree, 2)).is_negative:
        yield _part(tree, 1)
    for part in tree[1:]:
        if isinstance(part, list):
            yield from denominators(part)


@dataclass(frozen=True)
class Equation:
    """Left side minus right side is zero, where no denominator is."""

    left: Tree
    right: Tree

    def residual(self, values: Mapping[str, Expression] = {}) -> Expression:
        return build(self.left, values) - build(self.right, values)

    def poles(self, values: Mapping[str, Expression] = {}) -> list[Expression]:
        trees = [*denominators(self.left), *denominators(self.right)]
        return [build(tree, values) for tree in trees]

    def holds_at(self, values: Mapping[str, Expression]) -> bool | None:
        """Whether it is true with these values; `None` if that cannot be decided."""
        undefined = [is_zero(pole) for pole in self.poles(values)]
        if True in undefined:
            return False
        residual = self.residual(values)
        if residual.has(sympy.nan, sympy.zoo, sympy.oo):
            return False
        zero = is_zero(residual)
        return None if None in undefined and zero is not False else zero


def is_zero(expression: Expression) -> bool | None:
    """Whether it is zero for all values of its names. A "no" rests on a value, a "yes" on algebra."""
    expression = sympy.expand(expression)
    if expression == 0:
        return True
    if expression.is_Rational:
        return False
    if sympy.expand(sympy.numer(sympy.together(expression))) == 0:
        return True
    names = sorted(expression.free_symbols, key=str)
    if difference_at(expression, names) is not None:
        return False
    if sympy.simplify(expression) == 0:
        return True
    equal = expression.equals(0)
    return True if equal is True else None


def difference_at(expression: Expression, names: Sequence[Expression]) -> dict[Expression, Expression] | None:
    """A point where the expression is a real number other than zero, if one of a few points is."""
    for shift in range(len(_SAMPLES) if names else 1):
        point = {name: _SAMPLES[(shift + 3 * number) % len(_SAMPLES)] for number, name in enumerate(names)}
        value = expression.subs(point).evalf(_DIGITS)
        if (value.is_Float and abs(value) > _NOT_ZERO) or (value.is_Rational and value != 0):
            return point
    return None
