"""Text to formula, by recursive descent: nothing is evaluated, and length and depth are limited.

    forall x. (man(x) implies mortal(x))        not p and (q or r)        a != b        exists y. likes(ann, y)

From loose to tight: iff, implies (to the right), or, and, not; a quantifier reaches as far to the right as it can.
Also read: `<-> -> | & ~ ! ↔ → ∨ ∧ ¬ ∀ ∃`, and several variables after one quantifier (`forall x y. ...`).
"""

from __future__ import annotations

import re

from footfall.tools._logic_formula import And, Atom, Equal, Exists, Forall, Formula, FormulaError, Iff, Implies, Not, Or

__all__ = ["parse"]

LONGEST = 20_000
DEEPEST = 100
_SIGNS = {
    "<->": "iff", "<=>": "iff", "↔": "iff", "->": "implies", "=>": "implies", "→": "implies", "|": "or", "∨": "or",
    "&": "and", "∧": "and", "~": "not", "!": "not", "¬": "not", "∀": "forall", "∃": "exists", "≠": "!=",
}  # fmt: skip
_WORDS = {"iff", "implies", "or", "and", "not", "forall", "exists"}
_TOKEN = re.compile(r"\s*(<->|<=>|->|=>|!=|[()=,.:|&~!↔→∨∧¬∀∃≠]|[^\W\d]\w*|\d+|\S)")
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
