"""Whether a conclusion follows from premises: Horn clauses by forward chaining, everything else by Z3.

The answer is yes, no with a countermodel that was checked by the definition of truth, or "not known" with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from footfall.tools._logic_formula import (
    And,
    Atom,
    Equal,
    Exists,
    Forall,
    Formula,
    FormulaError,
    Iff,
    Implies,
    Model,
    Not,
    Or,
    constants,
    predicates,
)  # fmt: skip
from footfall.tools._logic_horn import Clause, clause_of, closure, conjuncts, elements_of
from footfall.tools._logic_parse import parse
from footfall.tools._logic_z3 import find_model

__all__ = [
    "And", "Atom", "Entailment", "Equal", "Exists", "Forall", "Formula", "FormulaError", "Iff", "Implies", "Model", "Not",
    "Or", "consistent", "derive", "entails", "parse",
]  # fmt: skip

Method = Literal["auto", "horn", "z3"]


@dataclass(frozen=True)
class Entailment:
    """Three-valued: `holds` is `None` if it is not known, and `reason` says why. `countermodel` shows a "no"."""

    holds: bool | None
    reason: str
    model: Model | None = None

    @property
    def countermodel(self) -> str | None:
        """A state of affairs with true premises and a false conclusion, as text."""
        return None if self.model is None else str(self.model)

    def __bool__(self) -> bool:
        raise TypeError("an entailment has three values: compare `.holds` with True, False or None")


def entails(
    premises: Sequence[Formula | str], conclusion: Formula | str, timeout_ms: int = 2000, method: Method = "auto"
) -> Entailment:
    """Whether every model of the premises is one of the conclusion. Texts are parsed; see `parse` for how to write them.

    Inconsistent premises entail everything. `method="horn"` never asks Z3, `"z3"` always does.
    """
    known = [_formula(premise) for premise in premises]
    wanted = _formula(conclusion)
    predicates([*known, wanted])
    fast = None if method == "z3" else _by_horn(known, wanted)
    if fast is not None:
        return fast
    if method == "horn":
        return Entailment(None, "these are not Horn clauses with a conjunction of facts as conclusion")
    satisfiable, model, reason = find_model([*known, Not(wanted)], timeout_ms)
    if satisfiable is None:
        return Entailment(None, reason)
    if not satisfiable:
        return Entailment(True, "Z3: the premises and the negated conclusion have no model")
    return _with_countermodel(known, wanted, model, "Z3")


def consistent(formulas: Sequence[Formula | str], timeout_ms: int = 2000) -> Entailment:
    """Whether the formulas can be true together; `model` shows how."""
    known = [_formula(formula) for formula in formulas]
    satisfiable, model, reason = find_model(known, timeout_ms)
    if satisfiable is None or model is None:
        return Entailment(satisfiable, reason or "Z3: the formulas have no model")
    if not all(map(model.satisfies, known)):
        return Entailment(None, "Z3's model does not make the formulas true")
    return Entailment(True, "Z3: a model was found and checked", model)


def derive(premises: Sequence[Formula | str]) -> frozenset[Atom] | None:
    """All facts that follow from Horn clauses; `None` if a premise is no Horn clause or there are too many facts."""
    known = [_formula(premise) for premise in premises]
    predicates(known)
    clauses = _clauses(known)
    return None if clauses is None else closure(clauses, elements_of(known))


def _formula(given: Formula | str) -> Formula:
    return parse(given) if isinstance(given, str) else given


def _clauses(formulas: Sequence[Formula]) -> list[Clause] | None:
    found = [clause_of(formula) for formula in formulas]
    whole = [clause for clause in found if clause is not None]
    return whole if len(whole) == len(found) else None


def _by_horn(premises: Sequence[Formula], conclusion: Formula) -> Entailment | None:
    clauses, wanted = _clauses(premises), conjuncts(conclusion)
    if clauses is None or wanted is None:
        return None
    elements = elements_of([*premises, conclusion])
    facts = closure(clauses, elements)
    if facts is None:
        return None
    if facts.issuperset(wanted):
        return Entailment(True, "forward chaining derives it")
    names = set().union(*(constants(formula) for formula in (*premises, conclusion)))
    model = Model(elements, {name: name for name in names}, facts)
    return _with_countermodel(premises, conclusion, model, "forward chaining")


def _with_countermodel(premises: Sequence[Formula], conclusion: Formula, model: Model | None, who: str) -> Entailment:
    """A "no" only with a model that our own definition of truth confirms."""
    if model is None or not all(map(model.satisfies, premises)) or model.satisfies(conclusion):
        return Entailment(None, f"{who} gives a countermodel that is none")
    return Entailment(False, f"{who}: there is a countermodel", model)
