"""The exact probability of every final answer: the distribution of the running value, pushed through the operations.

    P_{k+1}(w) = Σ_v P_k(v) · p(a move from (k, v) gives w),   V = P_n(true value) with recoveries included

All running values of one level are handled as one array; `moves` says the same for a single value.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.worlds._arithmetic_moves import SENSIBLE, SLIPS, Script, careful, unrecoverable
from footfall.worlds._arithmetic_program import MISREAD, Program, apply
from footfall.worlds._arithmetic_reading import State

__all__ = ["answers"]

Values: TypeAlias = npt.NDArray[np.int64]
Masses: TypeAlias = npt.NDArray[np.float64]


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
