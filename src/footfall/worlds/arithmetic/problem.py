"""What an arithmetic problem means and how it is worded.

It means a start value and a chain of operations, each applied to the running value. A tricky clause says how the running
quantity compares with the *later* one ("That is 7 fewer than she has the next day": she gains 7). It has one meaning only,
but a hasty reader takes the operation in `MISREAD` for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from footfall.types import Json, Problem
from footfall.worlds.world import pick, require_meta

Whole = TypeVar("Whole", int, npt.NDArray[np.int64])
Symbol: TypeAlias = Literal["+", "-", "*", "/"]
SYMBOLS: tuple[Symbol, ...] = ("+", "-", "*", "/")

MISREAD: Mapping[Symbol, Symbol] = {"+": "-", "-": "+", "*": "+", "/": "*"}
"""The operation that a careless reader takes each one for ("grows by a factor of 3" is read as 3 more)."""


class Op(NamedTuple):
    symbol: Symbol
    operand: int


@dataclass(frozen=True)
class Program:
    """The chain behind one problem; `tricky[i]` says that clause i has a misleading wording."""

    start: int
    ops: tuple[Op, ...]
    tricky: tuple[bool, ...]
    truth: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The true running value before the first operation and after each: one more than there are operations."""

    def __post_init__(self) -> None:
        values = [self.start]
        for symbol, operand in self.ops:
            values.append(apply(symbol, values[-1], operand))
        object.__setattr__(self, "truth", tuple(values))

    def to_meta(self) -> dict[str, Json]:
        ops: list[Json] = [[op.symbol, op.operand] for op in self.ops]
        return {"start": self.start, "ops": ops, "tricky": list(self.tricky)}


def apply(symbol: Symbol, left: Whole, right: int) -> Whole:
    """The whole-number result, of one number or of many; division rounds down, which is right only if it is exact."""
    if symbol == "+":
        return left + right
    if symbol == "-":
        return left - right
    return left * right if symbol == "*" else left // right


def is_exact(symbol: Symbol, left: int, right: int, result: int) -> bool:
    """Whether `left symbol right = result` is true arithmetic."""
    if symbol == "/":
        return right != 0 and result * right == left
    return apply(symbol, left, right) == result


def program_of(problem: Problem) -> Program:
    """Read the program that `ArithmeticWorld.problems` left in the problem's `meta`."""
    require_meta(problem, "arithmetic", "start", "ops", "tricky")
    meta = problem.meta
    ops = tuple(_op(problem, item) for item in cast("Sequence[Sequence[Json]]", meta["ops"]))
    tricky = tuple(bool(flag) for flag in cast("Sequence[bool]", meta["tricky"]))
    if not ops or len(ops) != len(tricky):
        raise ValueError(
            f"problem {problem.id!r}: meta has {len(ops)} ops and {len(tricky)} tricky flags, want as many"
        )
    return Program(int(cast(int, meta["start"])), ops, tricky)


def _op(problem: Problem, item: Sequence[Json]) -> Op:
    symbol, operand = item
    if symbol not in SYMBOLS or not isinstance(operand, int) or operand == 0:
        raise ValueError(f"problem {problem.id!r}: meta['ops'] holds {list(item)!r}; want [one of + - * /, a number]")
    return Op(symbol, operand)


NAMES = {
    "Mia": "she", "Ana": "she", "Ruth": "she", "Lena": "she", "Zoe": "she", "Ida": "she", "Nora": "she", "Eve": "she",
    "Tom": "he", "Ben": "he", "Sam": "he", "Max": "he", "Leo": "he", "Jan": "he", "Carl": "he", "Omar": "he",
}  # fmt: skip
_ALL_NAMES = tuple(NAMES)
ITEMS = (
    "stickers", "marbles", "coins", "shells", "beads", "cards", "stamps", "pencils", "apples", "buttons", "books",
    "stones", "nuts", "keys", "balls", "cups",
)  # fmt: skip

PLAIN: Mapping[Symbol, tuple[str, ...]] = {
    "+": (
        "{Who} buys {n} more.",
        "{Who} finds {n} more {item}.",
        "A friend gives {whom} {n} {item}.",
        "Then {n} more are added.",
        "{Who} wins {n} {item} in a game.",
    ),
    "-": (
        "{Who} loses {n}.",
        "{Who} gives away {n} {item}.",
        "{Who} sells {n} of them.",
        "Then {n} are taken away.",
        "{Who} leaves {n} {item} at school.",
    ),
    "*": (
        "Then the number of {item} is multiplied by {n}.",
        "Then each one is swapped for {n} {item}.",
        "A trade leaves {whom} with {n} times as many.",
        "Soon {who} has {n} times that number.",
    ),
    "/": (
        "Then the number of {item} is divided by {n}.",
        "{Who} makes {n} equal piles and keeps just one pile.",
        "{Who} shares them equally among {n} bags and keeps one bag.",
        "{Who} keeps one out of every {n} {item}.",
    ),
}
TRICKY: Mapping[Symbol, tuple[str, ...]] = {
    "+": (
        "That is {n} fewer than {who} has {later}.",
        "That is {n} less than the number {who} has {later}.",
        "{Who} gets back {n} {item} that {who} had given away long before.",
    ),
    "-": (
        "That is {n} more than {who} has {later}.",
        "That is {n} above the number {who} has {later}.",
        "{Who} gives back {n} {item} that {who} had been given long before.",
    ),
    "*": (
        "Then the number of {item} grows by a factor of {n}.",
        "The {item} increase in number by a factor of {n}.",
    ),
    "/": (
        "That is {n} times as many as {who} has {later}.",
        "That is {n} times the number {who} has {later}.",
    ),
}
LATER = ("the next day", "a week later", "an hour later", "a month later")
OPENINGS = ("{name} has {n} {item}.", "{name} starts with {n} {item}.", "At first {name} has {n} {item}.")
QUESTIONS = (
    "How many {item} does {name} have now?",
    "How many {item} does {name} have in the end?",
    "What is the number of {item} now?",
)

FIRST = ("First, %s.", "We start with %s.", "At first, %s.", "To begin, %s {item}.")
ANY = (
    "Then %s.",
    "Now %s.",
    "{Who} then has %s {item}.",
    "So {name} has %s {item}.",
    "That makes %s.",
    "We get %s {item}.",
)
BY_SYMBOL: Mapping[Symbol, tuple[str, ...]] = {
    "+": ("Adding gives %s.", "Together that is %s {item}."),
    "-": ("Taking away gives %s.", "What is left is %s {item}."),
    "*": ("Multiplying gives %s.", "The new number is %s {item}."),
    "/": ("Dividing gives %s.", "One share is %s {item}."),
}
AGAIN = ("Wait, it should be %s.", "No, that was wrong: %s.", "Let me do that again: %s.", "Wait, %s {item}.")
ANSWER = "The answer is %s."


class Scene(NamedTuple):
    """Who has what."""

    name: str
    item: str

    @property
    def words(self) -> dict[str, str]:
        who = NAMES.get(self.name, "someone")
        whom = {"she": "her", "he": "him"}.get(who, who)
        return {"name": self.name, "item": self.item, "who": who, "Who": who.capitalize(), "whom": whom}


class Sentences(NamedTuple):
    """The step wordings of one scene, with `%s` where the equation goes."""

    first: Mapping[Symbol, tuple[str, ...]]
    later: Mapping[Symbol, tuple[str, ...]]
    again: tuple[str, ...]


def scene_of(problem: Problem) -> Scene:
    """Who has what in a problem of the world."""
    return Scene(str(problem.meta.get("name", "someone")), str(problem.meta.get("item", "things")))


def draw_scene(rng: Random) -> Scene:
    return Scene(pick(rng, _ALL_NAMES), pick(rng, ITEMS))


def write_problem(program: Program, scene: Scene, rng: Random) -> str:
    """The word problem: an opening, one clause an operation, the question."""
    words = scene.words
    parts = [pick(rng, OPENINGS).format(n=program.start, **words)]
    for (symbol, operand), tricky in zip(program.ops, program.tricky, strict=True):
        wording = pick(rng, (TRICKY if tricky else PLAIN)[symbol])
        parts.append(wording.format(n=operand, later=pick(rng, LATER), **words))
    parts.append(pick(rng, QUESTIONS).format(**words))
    return " ".join(parts)


@lru_cache(maxsize=1024)
def sentences(scene: Scene) -> Sentences:
    """All step wordings for a scene. The wording of a step never depends on whether the step is right."""
    words = scene.words

    def fill(*templates: str) -> tuple[str, ...]:
        return tuple(template.format(**words) for template in templates)

    first = {symbol: fill(*FIRST, *own) for symbol, own in BY_SYMBOL.items()}
    later = {symbol: fill(*ANY, *own) for symbol, own in BY_SYMBOL.items()}
    return Sentences(first, later, fill(*AGAIN))
