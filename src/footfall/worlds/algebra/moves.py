"""How the scripted policy rewrites one equation and words it: the right step, and the wrong ones it may make instead."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from footfall.worlds.algebra.relation import (
    Poly,
    Relation,
    assignment,
    choice,
    constant,
    equation,
    factored,
    poly,
    rational_roots,
    variable,
)

SET_UP = ("Write it as an equation: {eq}.", "As an equation: {eq}.", "In symbols this is {eq}.")
EXPAND = ("Expand the brackets: {eq}.", "Multiply out: {eq}.", "Without brackets: {eq}.")
FACTOR = ("Factor: {eq}.", "Factoring gives {eq}.", "This factors as {eq}.")
ROOTS = ("So {eq}.", "Each factor can be zero: {eq}.", "This gives {eq}.")
ISOLATE = ("Isolate {name}: {eq}.", "From the first equation, {eq}.", "Solve for {name}: {eq}.")
BACK = ("Put it back: {eq}.", "Then {eq}.", "The other one is {eq}.")
SO = ("So {eq}.", "This gives {eq}.", "Hence {eq}.")
AGAIN = ("Wait, that is wrong: {eq}.", "No, it should be {eq}.", "Let me correct that: {eq}.")
ANSWER = "The answer is {answer}."


class Rewrite(NamedTuple):
    """One way to go on from an equation: what error it is (`right` or `skip` if none), its wordings, what it states."""

    kind: str
    wordings: tuple[str, ...]
    result: Relation


def said(wordings: tuple[str, ...], relation: Relation, **words: str) -> tuple[str, ...]:
    """All wordings of a step that states a relation; they do not depend on whether it is right."""
    words["eq"] = str(relation)
    return tuple(wording.format(**words) for wording in wordings)


def add_or_subtract(amount: Poly, relation: Relation) -> tuple[str, ...]:
    """`amount` (one term) is taken from both sides."""
    negative = amount.terms[0][1] < 0
    size = amount.scaled(-1) if negative else amount
    if negative:
        return said(("Add {n} to both sides: {eq}.", "Adding {n} to both sides gives {eq}."), relation, n=str(size))
    wordings = ("Subtract {n} from both sides: {eq}.", "Subtracting {n} from both sides gives {eq}.")
    return said(wordings, relation, n=str(size))


def divide(amount: Poly, relation: Relation) -> tuple[str, ...]:
    wordings = ("Divide both sides by {n}: {eq}.", "Dividing both sides by {n} gives {eq}.")
    return said(wordings, relation, n=str(amount))


def substitute(name: str, relation: Relation) -> tuple[str, ...]:
    return said(("Substitute for {name}: {eq}.", "Put this in for {name}: {eq}."), relation, name=name)


def is_solved(relation: Relation) -> bool:
    """Whether it gives the values of the unknown."""
    if relation.form == "choice":
        return True
    names = relation.zero.names
    plain = relation.form == "equation" and len(names) == 1
    return plain and relation.sides[0] == variable(names[0]) and not relation.sides[1].names


def form_of(relation: Relation) -> int:
    """How far an equation in one unknown is solved; a step never lowers it."""
    if is_solved(relation):
        return 4
    if relation.form == "factored":
        return 3
    left, right = relation.sides
    if relation.zero.degree == 2:
        return 2 if not right.terms else 1
    if left.names and right.names:
        return 0
    return 3 if len(left.terms or ()) == 1 and not right.names else 1


def rewrites(relation: Relation) -> list[Rewrite]:
    """The right step first; empty if the equation is solved or leads nowhere (no rational solution)."""
    if is_solved(relation) or not relation.zero.names:
        return []
    if relation.form == "factored" or relation.zero.degree == 2:
        return _quadratic(relation)
    return list(_linear(relation))


def _linear(relation: Relation) -> Iterator[Rewrite]:
    name = relation.zero.names[0]
    left, right = relation.sides if relation.sides[0].linear(name) else relation.sides[::-1]
    a, b, c, d = left.linear(name), left.coefficient(), right.linear(name), right.coefficient()
    unknown = variable(name)
    if a == c:
        return
    if c:
        taken = unknown.scaled(c)
        for kind, k in (("right", a - c), ("sign", a + c), ("slip", a - c + 1)):
            result = equation(unknown.scaled(k).plus(constant(b)), constant(d))
            if k:
                yield Rewrite(kind, add_or_subtract(taken, result), result)
    elif b:
        for kind, e in (("right", d - b), ("sign", d + b), ("slip", d - b + 1), ("slip", d - b - 1)):
            result = equation(unknown.scaled(a), constant(e))
            yield Rewrite(kind, add_or_subtract(constant(b), result), result)
        if a != 1:
            at_once = assignment(name, (d - b) / a)
            yield Rewrite("skip", said(SO, at_once), at_once)
    else:
        yield from _divisions(name, a, d)


def _divisions(name: str, a: Fraction, d: Fraction) -> Iterator[Rewrite]:
    value = d / a
    found = [("right", value), ("sign", -value), ("division", d - a)]
    if d:
        found.append(("division", a / d))
    if value.denominator == 1:
        found += [("slip", value + 1), ("slip", value - 1)]
    for kind, stated in found:
        result = assignment(name, stated)
        yield Rewrite(kind, divide(constant(a), result), result)


def _quadratic(relation: Relation) -> list[Rewrite]:
    if relation.form == "factored":
        return _choices(relation)
    left, right = relation.sides
    if right.terms:
        return list(_standard(left, right))
    return list(_factorings(left))


def _standard(left: Poly, right: Poly) -> Iterator[Rewrite]:
    """All on one side. A wrong result without rational roots is not written: it would be seen at once."""
    for kind, zero in (
        ("right", left.minus(right)),
        ("sign", left.plus(right)),
        ("slip", left.minus(right).plus(constant(1))),
    ):
        result = equation(zero, Poly())
        if kind == "right" or (zero.degree == 2 and rational_roots(zero)):
            wordings = add_or_subtract(right, result) if len(right.terms) == 1 else said(SO, result)
            yield Rewrite(kind, wordings, result)


def _factorings(zero: Poly) -> Iterator[Rewrite]:
    roots = rational_roots(zero)
    if roots is None:
        return
    both = roots if len(roots) == 2 else roots * 2
    first, second = both
    variants = [("right", (first, second)), ("sign", (-first, -second)), ("sign", (first, -second))]
    for kind, (one, other) in variants:
        factors = [_factor(root) for root in (one, other)]
        scale = zero.terms[0][1] / (factors[0].linear("x") * factors[1].linear("x"))
        factors[0] = factors[0].scaled(scale)
        result = factored(*factors)
        yield Rewrite(kind, said(FACTOR, result), result)
    at_once = choice(*roots)
    yield Rewrite("skip", said(SO, at_once), at_once)


def _factor(root: Fraction) -> Poly:
    """`2x - 3` for 3/2."""
    return poly({(1, 0): Fraction(root.denominator), (0, 0): Fraction(-root.numerator)})


def _choices(relation: Relation) -> list[Rewrite]:
    each = [rational_roots(factor) for factor in relation.sides]
    roots = sorted({root for found in each for root in found or ()})
    if None in each or not roots:
        return []
    results = [("right", choice(*roots)), ("sign", choice(*(-root for root in roots)))]
    if len(roots) > 1:
        results += [("lost-root", choice(root)) for root in roots]
    return [Rewrite(kind, said(ROOTS, result), result) for kind, result in results]
