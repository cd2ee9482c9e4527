"""Whether two equations have the same real solutions, with a solution that only one of them has as the reason if not.

For rational functions of one variable with rational coefficients this is decided exactly: irreducible polynomials over the
rationals share no roots, so a solution set is the set of irreducible factors that have a real root and divide no denominator.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import sympy

from footfall.tools._algebra_build import Equation, Expression

__all__ = ["same_solutions"]

Reply: TypeAlias = tuple[bool | None, str]
_TRIES = 30


class RootSet(NamedTuple):
    """The real roots of the factors, or (`all_but`) all real numbers except them."""

    factors: frozenset[Expression]
    all_but: bool

    def union(self, other: RootSet) -> RootSet:
        if self.all_but and other.all_but:
            return RootSet(self.factors & other.factors, True)
        if self.all_but:
            return RootSet(self.factors - other.factors, True)
        return other.union(self) if other.all_but else RootSet(self.factors | other.factors, False)


def same_solutions(first: Sequence[Equation], second: Sequence[Equation]) -> Reply:
    """Compare two equations, each a list of alternatives."""
    residuals = [equation.residual() for equation in (*first, *second)]
    if any(residual.has(sympy.nan, sympy.zoo, sympy.oo) for residual in residuals):
        return None, "an equation divides by zero"
    parts = [*residuals, *(pole for equation in (*first, *second) for pole in equation.poles())]
    names = sorted(set().union(*(part.free_symbols for part in parts)), key=str)
    rational = all(_is_rational(part, names) for part in parts)
    if len(names) <= 1 and rational:
        name = names[0] if names else sympy.Symbol("x", real=True)
        return _same_roots(_root_set(first, name), _root_set(second, name), name)
    if len(names) == 1:
        return _same_by_substitution(first, second, names[0])
    return _same_surface(first, second, names) if rational else (None, "several variables and functions of them")


def _is_rational(expression: Expression, names: Sequence[Expression]) -> bool:
    if not expression.is_rational_function(*names):
        return False
    top, bottom = sympy.fraction(sympy.together(expression))
    polynomials = [sympy.Poly(part, *names) if names else None for part in (top, bottom)]
    if not names:
        return bool(expression.is_Rational)
    return all(number.is_Rational for polynomial in polynomials if polynomial for number in polynomial.coeffs())


def _factors(expression: Expression, names: Sequence[Expression]) -> frozenset[Expression]:
    _, found = sympy.factor_list(expression, *names)
    return frozenset(sympy.Poly(factor, *names).monic().as_expr() for factor, _ in found)


def _root_set(equations: Sequence[Equation], name: Expression) -> RootSet:
    whole = RootSet(frozenset(), False)
    for equation in equations:
        poles = frozenset(
            factor for pole in equation.poles() for factor in _with_real_roots(sympy.numer(sympy.together(pole)), name)
        )
        top = sympy.expand(sympy.numer(sympy.together(equation.residual())))
        roots = RootSet(poles, True) if top == 0 else RootSet(_with_real_roots(top, name) - poles, False)
        whole = whole.union(roots)
    return whole


def _with_real_roots(expression: Expression, name: Expression) -> frozenset[Expression]:
    return frozenset(factor for factor in _factors(expression, [name]) if sympy.Poly(factor, name).count_roots() > 0)


def _same_roots(first: RootSet, second: RootSet, name: Expression) -> Reply:
    if first == second:
        return True, f"both have the solutions {_shown(first, name)}"
    if first.all_but == second.all_but:
        factor = min(first.factors ^ second.factors, key=str)
        only = "first" if (factor in first.factors) != first.all_but else "second"
        return False, f"{name} = {sympy.Poly(factor, name).real_roots()[0]} solves only the {only}"
    return False, f"the first has the solutions {_shown(first, name)}, the second {_shown(second, name)}"


def _shown(roots: RootSet, name: Expression) -> str:
    values = sorted(root for factor in roots.factors for root in sympy.Poly(factor, name).real_roots())
    listed = ", ".join(map(str, values))
    if roots.all_but:
        return f"all numbers but {listed}" if listed else "all numbers"
    return listed or "none"


def _same_by_substitution(first: Sequence[Equation], second: Sequence[Equation], name: Expression) -> Reply:
    """Solve each; every solution of one must solve the other, checked by putting it in."""
    sides = ((first, second, "first"), (second, first, "second"))
    unsure = ""
    for equations, others, which in sides:
        for equation in equations:
            found = sympy.solveset(equation.residual(), name, sympy.S.Reals)
            if found is not sympy.S.EmptySet and not isinstance(found, sympy.FiniteSet):
                unsure = f"the {which} equation was not solved"
                continue
            for value in found:
                own, other = _any_holds([equation], name, value), _any_holds(others, name, value)
                if own is True and other is False:
                    return False, f"{name} = {value} solves only the {which}"
                if own is None or (own and other is None):
                    unsure = f"whether {name} = {value} is a solution could not be decided"
    return (None, unsure) if unsure else (True, "every solution of one solves the other")


def _any_holds(equations: Sequence[Equation], name: Expression, value: Expression) -> bool | None:
    answers = [equation.holds_at({str(name): value}) for equation in equations]
    return True if True in answers else None if None in answers else False


def _same_surface(first: Sequence[Equation], second: Sequence[Equation], names: Sequence[Expression]) -> Reply:
    """Several variables: equal factors and denominators mean equal solutions; a point on one only means not."""
    surfaces = [_surface(equations, names) for equations in (first, second)]
    if surfaces[0] == surfaces[1]:
        return True, "the equations have the same factors"
    generator = random.Random(0)
    for equations, others, which in ((first, second, "first"), (second, first, "second")):
        for equation in equations:
            point = _point_on_one(equation, others, names, generator)
            if point:
                shown = ", ".join(f"{name} = {value}" for name, value in point.items())
                return False, f"{shown} solves only the {which}"
    return None, "the factors differ, but no point that solves only one equation was found"


def _surface(equations: Sequence[Equation], names: Sequence[Expression]) -> frozenset[Any]:
    """Factors of each alternative with its denominators; without denominators all factors are one set."""
    pieces = []
    for equation in equations:
        top = sympy.expand(sympy.numer(sympy.together(equation.residual())))
        poles = [_factors(sympy.numer(sympy.together(pole)), names) for pole in equation.poles()]
        factors = frozenset({"all"}) if top == 0 else _factors(top, names)
        pieces.append((factors, frozenset().union(*poles)))
    if any(poles for _, poles in pieces):
        return frozenset(pieces)
    whole = frozenset[Any]().union(*(factors for factors, _ in pieces))
    return frozenset({"all"}) if "all" in whole else whole


def _point_on_one(
    equation: Equation, others: Sequence[Equation], names: Sequence[Expression], generator: random.Random
) -> dict[str, Expression] | None:
    top = sympy.expand(sympy.numer(sympy.together(equation.residual())))
    for name in names:
        if sympy.degree(top, name) > 1:
            continue
        rest = [other for other in names if other != name]
        for attempt in range(_TRIES):  # first zeros: there a denominator may vanish
            size = 20 if attempt else 0
            values = {other: sympy.Rational(generator.randint(-size, size), generator.randint(1, 5)) for other in rest}
            slope, constant = top.coeff(name, 1).subs(values), top.coeff(name, 0).subs(values)
            if slope == 0:
                if constant != 0:
                    continue
                slope, constant = 1, -generator.randint(-20, 20)
            point = {str(key): value for key, value in {**values, name: -constant / slope}.items()}
            if equation.holds_at(point) and all(other.holds_at(point) is False for other in others):
                return dict(sorted(point.items()))
    return None
