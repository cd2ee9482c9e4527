"""What an arithmetic problem means: a start value and a chain of operations, each applied to the running value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from footfall.types import Json, Problem

__all__ = ["MISREAD", "SYMBOLS", "Op", "Program", "Symbol", "Whole", "apply", "is_exact", "program_of"]

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
    meta = problem.meta
    missing = [name for name in ("start", "ops", "tricky") if name not in meta]
    if missing:
        raise ValueError(
            f"problem {problem.id!r} is not of the arithmetic world: meta has no {missing[0]!r}; "
            "make problems with ArithmeticWorld().problems(n, seed)"
        )
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
