"""The wordings of the algebra world: problems as equations and in words, and the sentences of a trace."""

from __future__ import annotations

from random import Random

from footfall.worlds._algebra_poly import Poly
from footfall.worlds._algebra_relation import Relation
from footfall.worlds._arithmetic_text import pick

__all__ = ["AGAIN", "ANSWER", "EXPAND", "FACTOR", "ISOLATE", "ROOTS", "SET_UP", "SO", "BACK", "add_or_subtract",
           "divide", "said", "substitute", "write_equations", "write_linear", "write_quadratic", "write_system"]  # fmt: skip

ASK = ("Solve for x: {eq}.", "Solve the equation {eq}.", "What is x if {eq}?", "Find x: {eq}.")
ASK_ALL = ("Solve for x: {eq}.", "Find all solutions of {eq}.", "Which values of x satisfy {eq}?")
ASK_BOTH = ("Solve for x and y: {eq} and {other}.", "Find x and y if {eq} and {other}.")

# {a} times x, and {b} more or less. The reversed wordings are the ones that are often misread.
MORE = (
    "{a} times a number x, plus {b}, is {c}. What is x?",
    "The sum of {b} and {a} times a number x is {c}. Find x.",
    "{b} more than {a} times a number x is {c}. What is x?",
)
LESS = (
    "{a} times a number x, minus {b}, is {c}. What is x?",
    "If {b} is taken from {a} times a number x, {c} is left. Find x.",
    "{b} less than {a} times a number x is {c}. What is x?",
)
SQUARE = (
    "The square of a number x, {sign} {b} times the number, is {c}. Find all values of x.",
    "Take the square of a number x, {sign} {b} times x: the result is {c}. What can x be?",
)
SUM = ("The sum of two numbers x and y is {s}, and {rest}.", "Two numbers x and y add up to {s}, and {rest}.")
REST = "{a} times x {sign} {b} times y is {c}"

SET_UP = ("Write it as an equation: {eq}.", "As an equation: {eq}.", "In symbols this is {eq}.")
EXPAND = ("Expand the brackets: {eq}.", "Multiply out: {eq}.", "Without brackets: {eq}.")
FACTOR = ("Factor: {eq}.", "Factoring gives {eq}.", "This factors as {eq}.")
ROOTS = ("So {eq}.", "Each factor can be zero: {eq}.", "This gives {eq}.")
ISOLATE = ("Isolate {name}: {eq}.", "From the first equation, {eq}.", "Solve for {name}: {eq}.")
BACK = ("Put it back: {eq}.", "Then {eq}.", "The other one is {eq}.")
SO = ("So {eq}.", "This gives {eq}.", "Hence {eq}.")
AGAIN = ("Wait, that is wrong: {eq}.", "No, it should be {eq}.", "Let me correct that: {eq}.")
ANSWER = "The answer is {answer}."


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


def write_equations(texts: tuple[str, ...], rng: Random, all_roots: bool = False) -> str:
    if len(texts) == 2:
        return pick(rng, ASK_BOTH).format(eq=texts[0], other=texts[1])
    return pick(rng, ASK_ALL if all_roots else ASK).format(eq=texts[0])


def write_linear(a: int, b: int, c: int, rng: Random) -> str:
    return pick(rng, MORE if b > 0 else LESS).format(a=a, b=abs(b), c=c)


def write_quadratic(b: int, c: int, rng: Random) -> str:
    return pick(rng, SQUARE).format(sign="plus" if b > 0 else "minus", b=abs(b), c=c)


def write_system(total: int, a: int, b: int, c: int, rng: Random) -> str:
    rest = REST.format(a=a, sign="plus" if b > 0 else "minus", b=abs(b), c=c)
    return pick(rng, SUM).format(s=total, rest=rest) + " What are x and y?"
