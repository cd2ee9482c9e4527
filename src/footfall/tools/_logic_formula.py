"""Formulas of first-order logic without functions: a small type, its printer, and its truth in a finite model.

A term is a name: a variable where a quantifier above binds it, a constant elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "And", "Atom", "Equal", "Exists", "Forall", "Formula", "FormulaError", "Iff", "Implies", "Model", "Not", "Or",
    "constants", "predicates", "subformulas", "substitute",
]  # fmt: skip


class FormulaError(ValueError):
    """A text that is not a formula, or formulas that do not fit together; says where and why."""


@dataclass(frozen=True)
class Atom:
    """`likes(ann, x)`; without arguments a proposition."""

    predicate: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.predicate}({', '.join(self.arguments)})" if self.arguments else self.predicate


@dataclass(frozen=True)
class Equal:
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Not:
    body: Formula

    def __str__(self) -> str:
        if isinstance(self.body, Equal):
            return f"{self.body.left} != {self.body.right}"
        return f"not {_inner(self.body)}"


@dataclass(frozen=True)
class And:
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_inner(self.left)} and {_inner(self.right)}"


@dataclass(frozen=True)
class Or:
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_inner(self.left)} or {_inner(self.right)}"


@dataclass(frozen=True)
class Implies:
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_inner(self.left)} implies {_inner(self.right)}"


@dataclass(frozen=True)
class Iff:
    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_inner(self.left)} iff {_inner(self.right)}"


@dataclass(frozen=True)
class Forall:
    variable: str
    body: Formula

    def __str__(self) -> str:
        return f"forall {self.variable}. {self.body}"


@dataclass(frozen=True)
class Exists:
    variable: str
    body: Formula

    def __str__(self) -> str:
        return f"exists {self.variable}. {self.body}"


Formula: TypeAlias = "Atom | Equal | Not | And | Or | Implies | Iff | Forall | Exists"


def _inner(formula: Formula) -> str:
    """Brackets around everything but what cannot be misread, so that no reader needs the table of precedence."""
    plain = isinstance(formula, (Atom, Equal)) or (isinstance(formula, Not) and not isinstance(formula.body, Not))
    return str(formula) if plain else f"({formula})"


def subformulas(formula: Formula) -> Iterator[Formula]:
    """The formula and all its parts."""
    todo: list[Formula] = [formula]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, (And, Or, Implies, Iff)):
            todo += [part.right, part.left]
        elif isinstance(part, (Not, Forall, Exists)):
            todo.append(part.body)


def constants(formula: Formula, bound: frozenset[str] = frozenset()) -> set[str]:
    """The names in term position that no quantifier binds."""
    if isinstance(formula, Atom):
        return set(formula.arguments) - bound
    if isinstance(formula, Equal):
        return {formula.left, formula.right} - bound
    if isinstance(formula, Not):
        return constants(formula.body, bound)
    if isinstance(formula, (Forall, Exists)):
        return constants(formula.body, bound | {formula.variable})
    return constants(formula.left, bound) | constants(formula.right, bound)


def predicates(formulas: Sequence[Formula]) -> dict[str, int]:
    """The number of arguments of each predicate; a predicate with two numbers is an error."""
    found: dict[str, int] = {}
    for formula in formulas:
        for part in subformulas(formula):
            if isinstance(part, Atom):
                arity = found.setdefault(part.predicate, len(part.arguments))
                if arity != len(part.arguments):
                    raise FormulaError(f"`{part}`: elsewhere `{part.predicate}` has {arity} arguments; use one number")
    return found


def substitute(atom: Atom, terms: Mapping[str, str]) -> Atom:
    """The atom with terms in place of variables."""
    return Atom(atom.predicate, tuple(terms.get(term, term) for term in atom.arguments))


@dataclass(frozen=True)
class Model:
    """A finite model: its elements, which of them each constant names, and the atoms over elements that are true."""

    elements: tuple[str, ...]
    names: Mapping[str, str]
    true: frozenset[Atom]

    def satisfies(self, formula: Formula, values: Mapping[str, str] | None = None) -> bool:
        """Whether the formula is true here, by the textbook definition of truth."""
        terms = self.names if values is None else values
        if isinstance(formula, Atom):
            return substitute(formula, terms) in self.true
        if isinstance(formula, Equal):
            return terms[formula.left] == terms[formula.right]
        if isinstance(formula, Not):
            return not self.satisfies(formula.body, terms)
        if isinstance(formula, (Forall, Exists)):
            each = (self.satisfies(formula.body, {**terms, formula.variable: one}) for one in self.elements)
            return all(each) if isinstance(formula, Forall) else any(each)
        left = self.satisfies(formula.left, terms)
        if isinstance(formula, And):
            return left and self.satisfies(formula.right, terms)
        if isinstance(formula, Or):
            return left or self.satisfies(formula.right, terms)
        right = self.satisfies(formula.right, terms)
        return left == right if isinstance(formula, Iff) else not left or right

    def __str__(self) -> str:
        """One line a fact: the elements, what each constant names, what is true. All else is false."""
        several = self.names or len(self.elements) > 1
        lines = [] if not several else [f"elements: {', '.join(self.elements)}"]
        lines += [f"{name} is {element}" for name, element in sorted(self.names.items()) if name != element]
        facts = sorted(map(str, self.true))
        lines.append(f"true: {', '.join(facts)}" if facts else "true: nothing")
        return "\n".join([*lines, "all else is false"])
