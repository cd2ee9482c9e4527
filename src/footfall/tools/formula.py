"""Formulas of first-order logic without functions: a small type, its reader and printer, and its truth in a finite model.

A term is a name: a variable where a quantifier above binds it, a constant elsewhere. Text is read by recursive descent:
nothing is evaluated, and length and depth are limited.

    forall x. (man(x) implies mortal(x))        not p and (q or r)        a != b        exists y. likes(ann, y)

From loose to tight: iff, implies (to the right), or, and, not; a quantifier reaches as far to the right as it can.
Also read: `<-> -> | & ~ ! ↔ → ∨ ∧ ¬ ∀ ∃`, and several variables after one quantifier (`forall x y. ...`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

LONGEST = 20_000
DEEPEST = 100
_SIGNS = {
    "<->": "iff", "<=>": "iff", "↔": "iff", "->": "implies", "=>": "implies", "→": "implies", "|": "or", "∨": "or",
    "&": "and", "∧": "and", "~": "not", "!": "not", "¬": "not", "∀": "forall", "∃": "exists", "≠": "!=",
}  # fmt: skip
_WORDS = {"iff", "implies", "or", "and", "not", "forall", "exists"}
_TOKEN = re.compile(r"\s*(<->|<=>|->|=>|!=|[()=,.:|&~!↔→∨∧¬∀∃≠]|[^\W\d]\w*|\d+|\S)")


class FormulaError(ValueError):
    """A text that is not a formula, or formulas that do not fit together; says where and why."""


class TooManyLooks(Exception):
    """A formula has more parts, each for so many elements, than may be asked about."""


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
class _Joint:
    """Two formulas joined by a word."""

    left: Formula
    right: Formula

    def __str__(self) -> str:
        return f"{_inner(self.left)} {type(self).__name__.lower()} {_inner(self.right)}"


class And(_Joint):
    """Both."""


class Or(_Joint):
    """At least one of them."""


class Implies(_Joint):
    """The right one, if the left one holds."""


class Iff(_Joint):
    """Both or neither."""


@dataclass(frozen=True)
class _Quantified:
    """A formula about the things that a variable stands for."""

    variable: str
    body: Formula

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()} {self.variable}. {self.body}"


class Forall(_Quantified):
    """True of everything."""


class Exists(_Quantified):
    """True of at least one thing."""


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

    def satisfies(
        self, formula: Formula, values: Mapping[str, str] | None = None, looks: Iterator[int] | None = None
    ) -> bool:
        """Whether the formula is true here, by the textbook definition of truth.

        A quantifier within a quantifier is asked about each pair of elements, and so on: of `looks` one is taken for each
        part that is asked about, and `TooManyLooks` raised where there are no more.
        """
        if looks is not None and next(looks, None) is None:
            raise TooManyLooks
        terms = self.names if values is None else values
        if isinstance(formula, Atom):
            return substitute(formula, terms) in self.true
        if isinstance(formula, Equal):
            return terms[formula.left] == terms[formula.right]
        if isinstance(formula, Not):
            return not self.satisfies(formula.body, terms, looks)
        if isinstance(formula, (Forall, Exists)):
            each = (self.satisfies(formula.body, {**terms, formula.variable: one}, looks) for one in self.elements)
            return all(each) if isinstance(formula, Forall) else any(each)
        left = self.satisfies(formula.left, terms, looks)
        if isinstance(formula, And):
            return left and self.satisfies(formula.right, terms, looks)
        if isinstance(formula, Or):
            return left or self.satisfies(formula.right, terms, looks)
        right = self.satisfies(formula.right, terms, looks)
        return left == right if isinstance(formula, Iff) else not left or right

    def __str__(self) -> str:
        """One line a fact: the elements, what each constant names, what is true. All else is false."""
        several = self.names or len(self.elements) > 1
        lines = [] if not several else [f"elements: {', '.join(self.elements)}"]
        lines += [f"{name} is {element}" for name, element in sorted(self.names.items()) if name != element]
        facts = sorted(map(str, self.true))
        lines.append(f"true: {', '.join(facts)}" if facts else "true: nothing")
        return "\n".join([*lines, "all else is false"])


_LEVELS = (("iff", Iff), ("implies", Implies), ("or", Or), ("and", And))


def parse(text: str) -> Formula:
    """The formula that `text` writes; `FormulaError` says at which character it stops being one."""
    if len(text) > LONGEST:
        raise FormulaError(f"a formula of {len(text)} characters; at most {LONGEST} are read")
    reader = _Reader(text)
    formula = reader.level(0)
    if reader.word:
        raise reader.error("the end of the formula")
    return formula


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        found = list(_TOKEN.finditer(text))
        self.words = [_SIGNS.get(match[1], match[1]) for match in found] + [""]
        self.places = [match.start(1) for match in found] + [len(text)]
        self.at = self.depth = 0

    @property
    def word(self) -> str:
        return self.words[self.at]

    def error(self, wanted: str) -> FormulaError:
        shown = f"`{self.word}`" if self.word else "the end"
        return FormulaError(f"character {self.places[self.at] + 1} of `{self.text[:80]}`: {shown} instead of {wanted}")

    def take(self, word: str) -> None:
        if self.word != word:
            raise self.error(f"`{word}`")
        self.at += 1

    def level(self, number: int) -> Formula:
        if number == len(_LEVELS):
            return self.tight()
        word, kind = _LEVELS[number]
        formula = self.level(number + 1)
        chain = [formula]
        while self.word == word:
            self.at += 1
            chain.append(self.level(number + 1))
            if len(chain) > DEEPEST:
                raise self.error(f"at most {DEEPEST} parts joined by `{word}`")
        if kind is Implies:  # a -> b -> c is a -> (b -> c)
            formula = chain.pop()
            while chain:
                formula = Implies(chain.pop(), formula)
            return formula
        for part in chain[1:]:
            formula = kind(formula, part)
        return formula

    def tight(self) -> Formula:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"at most {DEEPEST} levels")
        try:
            if self.word == "not":
                self.at += 1
                return Not(self.tight())
            if self.word in ("forall", "exists"):
                return self.quantified()
            if self.word == "(":
                self.at += 1
                formula = self.level(0)
                self.take(")")
                return formula
            return self.atom()
        finally:
            self.depth -= 1

    def quantified(self) -> Formula:
        kind = Forall if self.word == "forall" else Exists
        self.at += 1
        variables = [self.name("a variable")]
        while self.word not in (".", ":"):
            if self.word == ",":
                self.at += 1
            variables.append(self.name("a variable, or `.` before the body"))
        if len(variables) > DEEPEST:
            raise self.error(f"at most {DEEPEST} variables")
        self.at += 1
        formula = self.level(0)
        for variable in reversed(variables):
            formula = kind(variable, formula)
        return formula

    def name(self, wanted: str) -> str:
        word = self.word
        if not word or word in _WORDS or not (word[0].isalnum() or word[0] == "_"):
            raise self.error(wanted)
        self.at += 1
        return word

    def atom(self) -> Formula:
        name = self.name("a proposition, a predicate or a term")
        if self.word in ("=", "!="):
            equal = self.word == "="
            self.at += 1
            formula = Equal(name, self.name("a term"))
            return formula if equal else Not(formula)
        if self.word != "(":
            return Atom(name)
        self.at += 1
        arguments = [self.name("a term")]
        while self.word == ",":
            self.at += 1
            arguments.append(self.name("a term"))
        self.take(")")
        return Atom(name, tuple(arguments))
