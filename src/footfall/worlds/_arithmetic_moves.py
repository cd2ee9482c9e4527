"""What the scripted policy may write next in a state, with its probabilities."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from footfall.worlds._arithmetic_program import MISREAD, Program, Symbol, Whole, apply

__all__ = ["SENSIBLE", "SLIPS", "Kind", "Move", "OpRates", "Script", "careful", "moves", "unrecoverable"]

Kind: TypeAlias = Literal["right", "misread", "slip", "recover"]

SLIPS = (1, -1, 10, -10)
"""What a slip adds to the result; never so that a result falls below zero."""
SENSIBLE = 9_999
"""A misreading whose result is negative or larger than this looks absurd and is not made."""


class OpRates(NamedTuple):
    """One probability for each operation."""

    add: float
    subtract: float
    multiply: float
    divide: float

    def of(self, symbol: Symbol) -> float:
        return self["+-*/".index(symbol)]


class Script(NamedTuple):
    """The probabilities of a scripted policy."""

    slip: OpRates
    misread: OpRates
    misread_tricky: OpRates
    recover: float

    def misreads(self, program: Program, due: int) -> float:
        """The probability that operation `due` is misread, if the misreading looks sensible."""
        rates = self.misread_tricky if program.tricky[due] else self.misread
        return rates.of(program.ops[due].symbol)


class Move(NamedTuple):
    """One equation that can be written next."""

    probability: float
    kind: Kind
    left: int
    symbol: Symbol
    right: int
    result: int


def moves(script: Script, program: Program, due: int, value: int) -> list[Move]:
    """All equations that may come next. What their probabilities leave of 1 goes to stating the answer.

    Off the true path the last operation is redone on its true value; otherwise the due one is done as it should be,
    misread, or with a slip.
    """
    truth = program.truth
    found: list[Move] = []
    rest = 1.0
    if due > 0 and value != truth[due] and value != unrecoverable(program, due):
        symbol, operand = program.ops[due - 1]
        found.append(Move(script.recover, "recover", truth[due - 1], symbol, operand, truth[due]))
        rest -= script.recover
    if due == len(program.ops):
        return found
    symbol, operand = program.ops[due]
    taken_for = MISREAD[symbol]
    misread = apply(taken_for, value, operand)
    p_misread = script.misreads(program, due) if 0 <= misread <= SENSIBLE else 0.0
    p_slip = script.slip.of(symbol) * (1 - p_misread)
    result = careful(program, due, value)
    slips = [result + delta for delta in SLIPS if delta > 0 or result + delta >= 0]
    found.append(Move(rest * (1 - p_misread - p_slip), "right", value, symbol, operand, result))
    found.append(Move(rest * p_misread, "misread", value, taken_for, operand, misread))
    share = rest * p_slip / len(slips)
    found += [Move(share, "slip", value, symbol, operand, slipped) for slipped in slips]
    return found


def careful(program: Program, due: int, value: Whole) -> Whole:
    """Operation `due` as it should be done. A division that does not come out is rounded down, or up where rounding
    down would hide an earlier error: else many slips before a division would not matter at all."""
    symbol, operand = program.ops[due]
    truth = program.truth
    result = apply(symbol, value, operand)
    hides: Whole = (result == truth[due + 1]) * (value != truth[due])
    return result + hides


def unrecoverable(program: Program, due: int) -> int | None:
    """The one running value after which a redone last operation would read as the due one, if there is one."""
    ops = program.ops
    if due < len(ops) and ops[due - 1].operand == ops[due].operand:
        return program.truth[due - 1]
    return None
