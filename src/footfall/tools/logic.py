"""Whether a conclusion follows from premises: Horn clauses by forward chaining, everything else by Z3.

The answer is yes, no with a countermodel that was checked by the definition of truth, or "not known" with the reason.
Z3 is imported when it is first asked. Horn clauses are facts and rules `forall x. (p(x) and q(x)) implies r(x)`, without
equality: there are no functions, so the derivable facts are finitely many; they are the least model, and a fact follows
from the clauses exactly if it is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from footfall.tools.formula import (
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
    TooManyLooks,
    constants,
    parse,
    predicates,
    substitute,
)  # fmt: skip

Method = Literal["auto", "horn", "z3"]
LARGEST_MODEL = 200_000
"""Atoms over the elements of a model that are read back; a larger model is not."""
MOST_LOOKS = 500_000
"""Parts of formulas that are asked about when a model is checked, about a second; nested quantifiers have no end of them."""


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
    checked = _checked(model, known)
    if not checked:
        why = "is too large to check" if checked is None else "does not make the formulas true"
        return Entailment(None, f"Z3's model {why}")
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
    checked = model is not None and _checked(model, [*premises, Not(conclusion)])
    if not checked:
        why = "is too large to check" if checked is None else "is none"
        return Entailment(None, f"{who} gives a countermodel that {why}")
    return Entailment(False, f"{who}: there is a countermodel", model)


def _checked(model: Model, formulas: Sequence[Formula]) -> bool | None:
    """Whether all formulas are true in the model; `None` if that takes too long to say."""
    looks = iter(range(MOST_LOOKS))
    try:
        return all(model.satisfies(formula, looks=looks) for formula in formulas)
    except TooManyLooks:
        return None


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
