"""Asking Z3 whether formulas have a model together, and reading the model back. Imports Z3 when first asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from footfall.tools._logic_formula import (
    And,
    Atom,
    Equal,
    Exists,
    Forall,
    Formula,
    Implies,
    Model,
    Not,
    Or,
    constants,
    predicates,
)  # fmt: skip

__all__ = ["find_model"]

LARGEST_MODEL = 200_000
"""Atoms over the elements of a model that are read back; a larger model is not."""


def find_model(formulas: Sequence[Formula], timeout_ms: int) -> tuple[bool | None, Model | None, str]:
    """Whether the formulas can be true together; a model if they can; the reason if Z3 does not know."""
    import z3  # type: ignore[import-untyped, unused-ignore]

    solving = _Solving(z3, formulas)
    solver = z3.Solver(ctx=solving.context)
    solver.set("timeout", timeout_ms)
    solver.set("random_seed", 0)
    for formula in formulas:
        solver.add(solving.translated(formula, solving.constants))
    answer = str(solver.check())
    if answer == "unsat":
        return False, None, ""
    if answer != "sat":
        return None, None, f"Z3 does not know: {solver.reason_unknown()}"
    model = solving.read(solver.model())
    return (True, model, "") if model is not None else (None, None, "Z3's model is too large to check")


class _Solving:
    """One question: its own Z3 context (they must not be shared between threads) and what the names mean there."""

    def __init__(self, z3: Any, formulas: Sequence[Formula]) -> None:
        self.z3, self.context = z3, z3.Context()
        self.sort = z3.DeclareSort("Element", self.context)
        names = sorted(set().union(*(constants(formula) for formula in formulas)))
        self.constants = {name: z3.Const(f"c:{name}", self.sort) for name in names}
        self.arities = predicates(formulas)
        boolean = z3.BoolSort(self.context)
        self.predicates = {
            name: z3.Function(f"p:{name}", *[self.sort] * arity, boolean)
            if arity
            else z3.Bool(f"p:{name}", self.context)
            for name, arity in self.arities.items()
        }

    def translated(self, formula: Formula, terms: Mapping[str, Any]) -> Any:
        z3 = self.z3
        if isinstance(formula, Atom):
            predicate = self.predicates[formula.predicate]
            return predicate(*(terms[term] for term in formula.arguments)) if formula.arguments else predicate
        if isinstance(formula, Equal):
            return terms[formula.left] == terms[formula.right]
        if isinstance(formula, Not):
            return z3.Not(self.translated(formula.body, terms))
        if isinstance(formula, (Forall, Exists)):
            variable = z3.Const(f"v{len(terms)}:{formula.variable}", self.sort)
            body = self.translated(formula.body, {**terms, formula.variable: variable})
            return z3.ForAll([variable], body) if isinstance(formula, Forall) else z3.Exists([variable], body)
        left, right = self.translated(formula.left, terms), self.translated(formula.right, terms)
        if isinstance(formula, And):
            return z3.And(left, right)
        if isinstance(formula, Or):
            return z3.Or(left, right)
        return z3.Implies(left, right) if isinstance(formula, Implies) else left == right

    def read(self, found: Any) -> Model | None:
        """Z3's model with elements called e1, e2, ...; `None` if it is too large to write out."""
        values = {name: found.eval(constant, model_completion=True) for name, constant in self.constants.items()}
        universe = found.get_universe(self.sort) or []
        known = {str(element): element for element in (*universe, *values.values())}
        elements = list(known.values()) or [self.z3.Const("e", self.sort)]
        labels = {str(element): f"e{number}" for number, element in enumerate(elements, start=1)}
        if sum(len(elements) ** arity for arity in self.arities.values()) > LARGEST_MODEL:
            return None
        true = []
        for name, arity in self.arities.items():
            for choice in product(elements, repeat=arity):
                value = found.eval(self.predicates[name](*choice) if arity else self.predicates[name], True)
                if self.z3.is_true(value):
                    true.append(Atom(name, tuple(labels[str(element)] for element in choice)))
        names = {name: labels[str(value)] for name, value in values.items()}
        return Model(tuple(labels.values()), names, frozenset(true))
