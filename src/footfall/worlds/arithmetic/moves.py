"""What the scripted policy may write next in a state, with its probabilities; and the exact chance of every answer.

The distribution of the running value is pushed through the operations:

    P_{k+1}(w) = Σ_v P_k(v) · p(a move from (k, v) gives w),   V = P_n(true value) with recoveries included

There all running values of one level are handled as one array; `moves` says the same for a single value.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.worlds.arithmetic.problem import MISREAD, Program, Symbol, Whole, apply
from footfall.worlds.arithmetic.reading import State

Values: TypeAlias = npt.NDArray[np.int64]
Masses: TypeAlias = npt.NDArray[np.float64]
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

    @property
    def equation(self) -> str:
        return f"{self.left} {self.symbol} {self.right} = {self.result}"


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


def answers(script: Script, program: Program, state: State) -> dict[int, float]:
    """The probability of each final answer when the script goes on from `state`."""
    if state.answer is not None:
        return {state.answer: 1.0}
    values, masses = np.array([state.value], dtype=np.int64), np.ones(1)
    for due in range(state.due, len(program.ops)):
        values, masses = _recover(script, program, due, values, masses)
        values, masses = _merge(*_attempt(script, program, due, values, masses))
    values, masses = _merge(*_recover(script, program, len(program.ops), values, masses))
    return dict(zip(values.tolist(), masses.tolist(), strict=True))


def _recover(script: Script, program: Program, due: int, values: Values, masses: Masses) -> tuple[Values, Masses]:
    """Move the recovering share of the mass off the true path back to it."""
    if due == 0:
        return values, masses
    truth = program.truth
    lost = (values != truth[due]) & (values != unrecoverable(program, due))
    back = np.where(lost, script.recover * masses, 0.0)
    return np.append(values, truth[due]), np.append(masses - back, back.sum())


def _attempt(script: Script, program: Program, due: int, values: Values, masses: Masses) -> tuple[Values, Masses]:
    """Do operation `due` on every running value: right, misread or with a slip."""
    symbol, operand = program.ops[due]
    misread = apply(MISREAD[symbol], values, operand)
    p_misread = np.where((misread >= 0) & (misread <= SENSIBLE), script.misreads(program, due), 0.0)
    p_slip = script.slip.of(symbol) * (1 - p_misread)
    result = careful(program, due, values)
    slips = [result + delta for delta in SLIPS]
    allowed = [(slipped >= 0) | (delta > 0) for slipped, delta in zip(slips, SLIPS, strict=True)]
    share = masses * p_slip / np.sum(allowed, axis=0)
    shares = [masses * (1 - p_misread - p_slip), masses * p_misread, *(share * flag for flag in allowed)]
    return np.concatenate([result, misread, *slips]), np.concatenate(shares)


def _merge(values: Values, masses: Masses) -> tuple[Values, Masses]:
    """Add up the mass of equal values, and forget values without mass."""
    kept = masses > 0
    merged, where = np.unique(values[kept], return_inverse=True)
    sums: Masses = np.bincount(where, masses[kept], minlength=len(merged)).astype(np.float64)
    return merged, sums
