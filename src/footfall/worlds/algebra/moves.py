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
ADD = ("Add {n} to both sides: {eq}.", "Adding {n} to both sides gives {eq}.")
SUBTRACT = ("Subtract {n} from both sides: {eq}.", "Subtracting {n} from both sides gives {eq}.")
DIVIDE = ("Divide both sides by {n}: {eq}.", "Dividing both sides by {n} gives {eq}.")
SUBSTITUTE = ("Substitute for {name}: {eq}.", "Put this in for {name}: {eq}.")
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


def stated(kind: str, wordings: tuple[str, ...], relation: Relation, **words: str) -> Rewrite:
    """The rewrite to a relation, in these wordings."""
    return Rewrite(kind, said(wordings, relation, **words), relation)


def _taken(kind: str, amount: Poly, relation: Relation) -> Rewrite:
    """`amount` (one term) is taken from both sides."""
    negative = amount.terms[0][1] < 0
    return stated(kind, ADD if negative else SUBTRACT, relation, n=str(amount.scaled(-1) if negative else amount))


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
                yield _taken(kind, taken, result)
    elif b:
        for kind, e in (("right", d - b), ("sign", d + b), ("slip", d - b + 1), ("slip", d - b - 1)):
            result = equation(unknown.scaled(a), constant(e))
            yield _taken(kind, constant(b), result)
        if a != 1:
            yield stated("skip", SO, assignment(name, (d - b) / a))
    else:
        yield from _divisions(name, a, d)


def _divisions(name: str, a: Fraction, d: Fraction) -> Iterator[Rewrite]:
    value = d / a
    found = [("right", value), ("sign", -value), ("division", d - a)]
    if d:
        found.append(("division", a / d))
    if value.denominator == 1:
        found += [("slip", value + 1), ("slip", value - 1)]
    for kind, result in found:
        yield stated(kind, DIVIDE, assignment(name, result), n=str(constant(a)))


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
            yield _taken(kind, right, result) if len(right.terms) == 1 else stated(kind, SO, result)


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
        yield stated(kind, FACTOR, factored(factors[0].scaled(scale), factors[1]))
    yield stated("skip", SO, choice(*roots))


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
    return [stated(kind, ROOTS, result) for kind, result in results]


def isolates(relation: Relation) -> bool:
    """`y = 2x + 1`."""
    if relation.form != "equation" or len(relation.sides[1].names) != 1:
        return False
    return any(relation.sides[0] == variable(name) and name not in relation.sides[1].names for name in ("x", "y"))


def set_ups(given: Relation) -> list[Rewrite]:
    """The sentence as an equation; misread with the other sign, or turned round."""
    left, right = given.sides
    b = Poly(left.terms[1:])
    first = Poly(left.terms[:1])
    wrong = [first.minus(b)]
    if b.coefficient() < 0:
        wrong.append(b.plus(first).scaled(-1))
    results = [("right", given)]
    for side in wrong:
        relation = equation(side, right)
        if side.degree == 1 or rational_roots(relation.zero):
            results.append(("misread", relation))
    return [stated(kind, SET_UP, relation) for kind, relation in results]


def expansions(given: Relation, text: str) -> list[Rewrite]:
    """k(x + m) written out; the factor may be forgotten for m, or a sign turned."""
    left, right = given.sides
    k = Fraction(text.split("(")[0])
    x, m = Poly(left.terms[:1]), Poly(left.terms[1:])
    results = [("right", left), ("slip", x.plus(m, 1 / k)), ("sign", x.minus(m))]
    return [stated(kind, EXPAND, equation(side, right)) for kind, side in results]


def isolations(first: Relation) -> list[Rewrite]:
    """y alone on the left."""
    zero = first.zero
    b = zero.linear("y")
    rest = Poly(tuple(term for term in zero.terms if term[0] != (0, 1))).scaled(-1 / b)
    x, free = variable("x").scaled(rest.linear("x")), constant(rest.coefficient())
    results = [("right", rest), ("sign", free.minus(x)), ("slip", rest.plus(constant(1)))]
    return [stated(kind, ISOLATE, assignment("y", side), name="y") for kind, side in results]


def substitutions(isolated: Relation, other: Relation) -> list[Rewrite]:
    """The isolated unknown put into the other equation; the factor may be forgotten for its constant."""
    name = isolated.sides[0].names[0]
    expression = isolated.sides[1]
    left, right = other.sides
    k, free = left.linear(name), constant(expression.coefficient())
    true = left.at(**{name: expression})
    sides = [("right", true), ("slip", true.minus(free.scaled(k - 1))), ("sign", true.minus(free.scaled(2 * k)))]
    kept = [(kind, equation(side, right.at(**{name: expression}))) for kind, side in sides]
    if not kept[0][1].zero.names:
        return []
    return [stated(kind, SUBSTITUTE, relation, name=name) for kind, relation in kept if relation.zero.names]


def values_of_other(source: Relation, name: str, value: Fraction) -> list[Rewrite]:
    """The value of the other unknown, from the isolated one or from the first equation."""
    other = "y" if name == "x" else "x"
    zero = source.zero.at(**{name: constant(value)})
    k = zero.linear(other)
    if not k:
        return []
    true = -zero.coefficient() / k
    free = -source.zero.coefficient() / k
    results = [("right", true), ("sign", 2 * free - true), ("slip", true + 1), ("slip", true - 1)]
    return [stated(kind, BACK, assignment(other, value)) for kind, value in results]
