"""The computer-algebra process: it gets parsed trees, never text, one question a line, and decides over the real numbers.

Each question may use `cpu_seconds` of processor time; the kernel ends the process over one that needs more, as in
`footfall._answers_worker`. Run by `footfall.tools.algebra` only.

Whether two equations have the same solutions is decided exactly for rational functions of one variable with rational
coefficients: irreducible polynomials over the rationals share no roots, so a solution set is the set of irreducible factors
that have a real root and divide no denominator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import sympy

from footfall._answers_worker import serve
from footfall.tools.algebra import Tree

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
Reply: TypeAlias = tuple[bool | None, str]
_TRIES = 30
_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def main(cpu_seconds: float) -> None:
    """Answer questions until stdin ends."""
    serve(lambda question: _answer(*question), cpu_seconds)


def _answer(kind: str, *trees: Any) -> Reply:
    try:
        if kind == "equivalent":
            return _equivalent(*trees)
        if kind == "solves":
            return _solves(*trees)
        if kind == "implied":
            return _implied(*trees)
        return same_solutions(*([Equation(*sides) for sides in alternatives] for alternatives in trees))
    except _ERRORS as error:  # sympy gives up in many ways
        return None, f"computer algebra gave up: {type(error).__name__}: {error}"[:300]


def _equivalent(first: Tree, second: Tree) -> Reply:
    for tree in (first, second):
        if any(is_zero(build(part)) for part in denominators(tree)):
            return None, "an expression divides by zero"
    difference = build(first) - build(second)
    zero = is_zero(difference)
    if zero:
        return True, "the difference is zero where both are defined"
    if zero is None:
        return None, "the difference was not shown to be zero, and no point where it is not was found"
    point = difference_at(difference, sorted(difference.free_symbols, key=str)) or {}
    where = ", ".join(f"{name} = {value}" for name, value in point.items())
    return False, f"they differ at {where}" if where else "they are different numbers"


def _solves(alternatives: list[tuple[Tree, Tree]], variable: str, value_tree: Tree) -> Reply:
    value = build(value_tree)
    if any(is_zero(build(part)) for part in denominators(value_tree)) or value.has(sympy.nan, sympy.zoo, sympy.oo):
        return False, "the value divides by zero"
    if value.is_real is False:
        return False, "the value is not a real number"
    answers = [Equation(*sides).holds_at({variable: value}) for sides in alternatives]
    if True in answers:
        return True, f"{variable} = {value} makes both sides equal"
    if None in answers:
        return None, "whether both sides are equal could not be decided"
    left, right = (build(side, {variable: value}) for side in alternatives[0])
    return False, f"with {variable} = {value} the sides are {left} and {right}"


def _implied(premises: list[list[tuple[Tree, Tree]]], conclusion: list[tuple[Tree, Tree]]) -> Reply:
    if any(len(alternatives) > 1 for alternatives in premises):
        return None, "a premise has alternatives"
    equations = [Equation(*sides) for (sides,) in premises]
    residuals = [equation.residual() for equation in equations]
    names = sorted(set().union(*(residual.free_symbols for residual in residuals)), key=str)
    if any(map(_transcendental, residuals)):
        return None, "a premise may have more solutions than are found: it has a function or a power of an unknown"
    solutions = sympy.solve(residuals, names, dict=True) if names else []
    if not solutions or any(set(names) - set(found) or not _plain(found) for found in solutions):
        return None, "no single solution: the premises have none, or too many"
    known = False
    for found in solutions:
        values = {str(name): value for name, value in found.items()}
        defined = [equation.holds_at(values) for equation in equations]
        if False in defined:  # a denominator is zero there
            continue
        if None in defined:
            return None, "whether what was found solves the premises could not be decided"
        known = True
        answers = [Equation(*sides).holds_at(values) for sides in conclusion]
        if True in answers:
            continue
        where = ", ".join(f"{name} = {value}" for name, value in values.items())
        return (None, f"not decided at {where}") if None in answers else (False, f"not so at {where}")
    if not known:
        return None, "no single solution: the premises have none"
    return True, "every common solution of the premises solves it"


def _transcendental(expression: Expression) -> bool:
    calls = expression.atoms(sympy.sin, sympy.cos, sympy.tan, sympy.exp, sympy.log)
    return any(part.free_symbols for part in (*calls, *(power.exp for power in expression.atoms(sympy.Pow))))


def _plain(solution: dict[Any, Any]) -> bool:
    """Whether all values are real numbers."""
    return all(value.is_real and not value.free_symbols for value in solution.values())


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


if __name__ == "__main__":
    main(cpu_seconds=5.0)
