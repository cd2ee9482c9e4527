"""Horn clauses by forward chaining: facts and rules `forall x. (p(x) and q(x)) implies r(x)`, without equality.

There are no functions, so the derivable facts are finitely many; they are the least model, and a fact follows from the
clauses exactly if it is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from footfall.tools._logic_formula import And, Atom, Forall, Formula, Implies, constants, substitute

__all__ = ["Clause", "clause_of", "closure", "conjuncts", "elements_of"]


class Clause(NamedTuple):
    """`body` implies `head`, for all values of the variables; a fact has no body."""

    body: tuple[Atom, ...]
    head: Atom
    variables: frozenset[str]


def clause_of(formula: Formula) -> Clause | None:
    """The formula as a Horn clause, or `None` if it does not have that form."""
    variables: set[str] = set()
    while isinstance(formula, Forall):
        variables.add(formula.variable)
        formula = formula.body
    body: tuple[Atom, ...] = ()
    if isinstance(formula, Implies):
        atoms = conjuncts(formula.left)
        if atoms is None:
            return None
        body, formula = atoms, formula.right
    return Clause(body, formula, frozenset(variables)) if isinstance(formula, Atom) else None


def conjuncts(formula: Formula) -> tuple[Atom, ...] | None:
    """The atoms that the formula joins by `and`; `None` if it holds anything else."""
    if isinstance(formula, Atom):
        return (formula,)
    if not isinstance(formula, And):
        return None
    left, right = conjuncts(formula.left), conjuncts(formula.right)
    return None if left is None or right is None else (*left, *right)


def closure(clauses: Sequence[Clause], elements: Sequence[str], most: int = 50_000) -> frozenset[Atom] | None:
    """All facts that follow, over the given constants; `None` once `most` partial matches were tried."""
    known: dict[str, set[Atom]] = {}
    budget = iter(range(most))
    grew = True
    while grew:
        grew = False
        for clause in clauses:
            found = {substitute(clause.head, values) for values in _matches(clause, known, elements, budget)}
            facts = known.setdefault(clause.head.predicate, set())
            grew = grew or not found <= facts
            facts |= found
    spent = next(budget, None) is None
    return None if spent else frozenset(fact for facts in known.values() for fact in facts)


def _matches(
    clause: Clause, known: dict[str, set[Atom]], elements: Sequence[str], budget: Iterator[int]
) -> Iterator[dict[str, str]]:
    """The values of the variables under which the whole body is known; stops when the budget is spent."""
    todo: list[tuple[int, dict[str, str]]] = [(0, {})]
    while todo and next(budget, None) is not None:
        number, values = todo.pop()
        if number < len(clause.body):
            wanted = clause.body[number]
            for fact in known.get(wanted.predicate, ()):
                more = _matched(wanted, fact, values, clause.variables)
                if more is not None:
                    todo.append((number + 1, more))
            continue
        free = sorted((clause.variables - values.keys()) & set(clause.head.arguments))
        for choice in product(elements, repeat=len(free)):
            if free and next(budget, None) is None:
                return
            yield {**values, **dict(zip(free, choice, strict=True))}


def _matched(wanted: Atom, fact: Atom, values: dict[str, str], variables: frozenset[str]) -> dict[str, str] | None:
    more = dict(values)
    for term, element in zip(wanted.arguments, fact.arguments, strict=True):
        meant = more.setdefault(term, element) if term in variables else term
        if meant != element:
            return None
    return more


def elements_of(formulas: Sequence[Formula]) -> tuple[str, ...]:
    """The constants; a model is never empty, so one is made up where there is none."""
    found = sorted(set().union(*(constants(formula) for formula in formulas)))
    return tuple(found) or ("something",)
