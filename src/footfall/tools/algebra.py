"""Checks on equations over the real numbers, by computer algebra: three-valued, with the reason, and never a hang.

Text is read by a small grammar of its own, so nothing that a model wrote is evaluated; length and depth are limited:

    2x + 3 = 7      (x - 1)(x + 2) = 0      x = 2 or x = -3      \\frac{1}{2}y^2      sqrt(2), abs, exp, log, sin, cos, tan

A run of letters is one name (`price`, `x_1`); names are real variables, `pi` is the number. Decimals are exact. What can be
read in two ways (`sin 2x`) and functions that are not here (`cot(x)`, `log_2(8)`) are not read. A tree is nested lists, so that
it can be sent to another process as JSON: sympy runs in one helper process a program with a limit on processor time and
memory; a question that needs more is answered "not known".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from footfall.helper import HelperProcess

Tree: TypeAlias = "list[str | Tree]"
"""`["number", "3/2"]`, `["name", "x"]`, or an operator with its operands: `["+", a, b]`, `["-", a]`, `["call", "sqrt", a]`."""

LONGEST = 500
DEEPEST = 40
LONGEST_NUMBER = 40
FUNCTIONS = frozenset({"sqrt", "abs", "exp", "log", "ln", "sin", "cos", "tan"})
_OTHER_FUNCTIONS = frozenset(
    ("arcsin", "arccos", "arctan", "asin", "acos", "atan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "lg", "floor", "ceil",
     "ceiling", "round", "sgn", "sign", "max", "min", "gcd", "lcm", "mod", "cbrt")
)  # fmt: skip
"""Read as names they would be variables, and `cot(x)` a product."""
_WORDS = {
    "×": "*", "·": "*", "−": "-", "–": "-", "÷": "/", "**": "^", "\\cdot": "*", "\\times": "*", "\\div": "/", "√": "sqrt",
    "\\pi": "pi", "π": "pi", "\\dfrac": "\\frac", "\\tfrac": "\\frac", "{": "(", "}": ")", "[": "(", "]": ")",
    **{f"\\{name}": name for name in FUNCTIONS},
}  # fmt: skip
_DROPPED = re.compile(r"\\left(?![A-Za-z])|\\right(?![A-Za-z])|\\[,;!: ]|\$")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_INDEXED = re.compile(rf"(?:{'|'.join(sorted(FUNCTIONS | _OTHER_FUNCTIONS))})(?:_.+|\d+)")
_TOKEN = re.compile(r"\s*(\*\*|\\[A-Za-z]+|[^\W\d_]+(?:_?\d+|_[^\W\d_])?|\d+(?:\.\d+)?|\.\d+|\S)")


@dataclass(frozen=True)
class Check:
    """Three-valued: `holds` is `None` if it is not known; `reason` says why, and for a "no" shows a value."""

    holds: bool | None
    reason: str
    late: bool = field(default=False, repr=False)
    """Whether the time ran out."""

    def __bool__(self) -> bool:
        raise TypeError("a check has three values: compare `.holds` with True, False or None")


def equivalent(a: str, b: str) -> Check:
    """Whether two expressions are equal wherever both are defined, or two equations have the same solutions."""
    if "=" in a and "=" in b:
        return step_follows(a, b)
    return _ask("equivalent", lambda: [parse_expression(a), parse_expression(b)])


def solves(equation: str, variable: str, value: str) -> Check:
    """Whether the equation is true with `value` for `variable`; with other names in it, for all their values."""
    return _ask("solves", lambda: [parse_equation(equation), variable, parse_expression(value)])


def step_follows(previous_equation: str, next_equation: str) -> Check:
    """Whether the two equations have the same real solutions; if not, `reason` names one that only one of them has."""
    return _ask("follows", lambda: [parse_equation(previous_equation), parse_equation(next_equation)])


def implied(premises: Sequence[str], conclusion: str) -> Check:
    """Whether every common solution of the premises solves the conclusion; not known unless there are finitely many."""
    return _ask("implied", lambda: [[parse_equation(premise) for premise in premises], parse_equation(conclusion)])


class AlgebraError(ValueError):
    """A text that this grammar does not read; says at which character."""


def parse_equation(text: str) -> list[tuple[Tree, Tree]]:
    """The alternatives (`x = 2 or x = 3` has two), each as left and right side."""
    reader = _Reader(text)
    found = [reader.equation()]
    while reader.word == "or":
        reader.at += 1
        found.append(reader.equation())
    reader.finish()
    return found


def parse_expression(text: str) -> Tree:
    """One expression without an equals sign."""
    reader = _Reader(text)
    tree = reader.sum()
    reader.finish()
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise AlgebraError(f"{len(text)} characters; at most {LONGEST} are read")
        plain = _DROPPED.sub(" ", text).strip().rstrip(".")
        self.text = _RAISED.sub(lambda match: f"^({''.join(str(unicodedata.digit(sign)) for sign in match[0])})", plain)
        found = list(_TOKEN.finditer(self.text))
        self.words = [_WORDS.get(match[1], match[1]) for match in found] + [""]
        self.places = [match.start(1) for match in found] + [len(self.text)]
        self.at = self.depth = 0

    @property
    def word(self) -> str:
        return self.words[self.at]

    def error(self, wanted: str) -> AlgebraError:
        shown = f"`{self.word}`" if self.word else "the end"
        return AlgebraError(f"character {self.places[self.at] + 1} of `{self.text[:80]}`: {shown} instead of {wanted}")

    def finish(self) -> None:
        if self.word:
            raise self.error("the end")

    def take(self, word: str) -> None:
        if self.word != word:
            raise self.error(f"`{word}`")
        self.at += 1

    def equation(self) -> tuple[Tree, Tree]:
        left = self.sum()
        self.take("=")
        return left, self.sum()

    def sum(self) -> Tree:
        tree = self.product()
        while self.word in ("+", "-"):
            sign = self.word
            self.at += 1
            tree = [sign, tree, self.product()]
        return tree

    def product(self) -> Tree:
        tree = self.signed()
        while True:
            if self.word in ("*", "/"):
                sign = self.word
                self.at += 1
                tree = [sign, tree, self.signed()]
            elif self._begins_factor():
                tree = ["*", tree, self.power()]
            else:
                return tree

    def _begins_factor(self) -> bool:
        """A product without a sign: `2x`, `x(x + 1)`. Two numbers side by side are none."""
        word = self.word
        if word[:1].isdigit() or word[:1] == ".":
            if self.words[self.at - 1][-1:].isdigit() or self.words[self.at - 1][-1:].isalpha():
                raise self.error("a sign between two numbers, or `^` before an exponent")
            return True
        return word in ("(", "\\frac") or (word[:1].isalpha() and word != "or")

    def signed(self) -> Tree:
        if self.word in ("+", "-"):
            minus = self.word == "-"
            self.at += 1
            tree = self._deeper(self.signed)
            return ["-", tree] if minus else tree
        return self.power()

    def power(self) -> Tree:
        base = self._deeper(self.primary)
        if self.word != "^":
            return base
        self.at += 1
        return ["^", base, self._deeper(self.signed)]

    def _deeper(self, read: Callable[[], Tree]) -> Tree:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"at most {DEEPEST} levels")
        tree = read()
        self.depth -= 1
        return tree

    def primary(self) -> Tree:
        word = self.word
        if word == "(":
            return self.group()
        if word == "|":
            self.at += 1
            inner = self.sum()
            self.take("|")
            return ["call", "abs", inner]
        if word == "\\frac":
            self.at += 1
            return ["/", self.group(), self.group()]
        if word in FUNCTIONS:
            return self.call()
        if _INDEXED.fullmatch(word) or (word in _OTHER_FUNCTIONS and self.words[self.at + 1] == "("):
            raise self.error("a function that is known here")
        self.at += 1
        if word[:1].isdigit() or (word[:1] == "." and len(word) > 1):
            if len(word) > LONGEST_NUMBER:
                raise AlgebraError(f"a number of {len(word)} characters; at most {LONGEST_NUMBER} are read")
            return ["number", word]
        if word[:1].isalpha() and word != "or":
            return ["name", word]
        self.at -= 1
        raise self.error("a number, a name or a bracket")

    def call(self) -> Tree:
        """A function of a group, or of one number or name: `sin 2x` and `sin x^2` may mean more, `√2x` is √2 times x."""
        name, written = self.word, self.text[self.places[self.at]]
        self.at += 1
        if self.word == "(":
            return ["call", name, self.group()]
        argument = self._deeper(self.primary)
        if self.word == "^" or (written != "√" and self.word not in FUNCTIONS and self._begins_factor()):
            raise self.error(f"the end of what `{name}` is taken of: give it brackets")
        return ["call", name, argument]

    def group(self) -> Tree:
        self.take("(")
        tree = self._deeper(self.sum)
        self.take(")")
        return tree


def _ask(kind: str, read: Callable[[], list[object]]) -> Check:
    """The helper's answer to a question about what `read` gives; a text that is not read is not known."""
    try:
        return _asked(json.dumps([kind, *read()]))
    except AlgebraError as error:
        return Check(None, f"not read: {error}")


@lru_cache(maxsize=1 << 14)
def _asked(question: str) -> Check:
    reply = _worker.ask(question)
    if not reply:
        return Check(None, f"computer algebra took more than {_worker.cpu_seconds} s or too much memory", late=True)
    holds, reason = json.loads(reply)
    return Check(holds, reason)


_worker = HelperProcess("footfall.tools._algebra_worker", 5.0, "is sympy installed? (`pip install sympy`)")
