"""A scripted writer for the arithmetic world, with error rates as parameters and exact prefix values.

The distribution of the running value is pushed through the operations:

    P_{k+1}(w) = Σ_v P_k(v) · p(a move from (k, v) gives w),   V = P_n(true value) with recoveries included

There all running values of one level are handled as one array; `ArithmeticWriter.moves` says the same for a single value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from footfall.registry import Declared, register
from footfall.types import Problem, Trajectory
from footfall.worlds.arithmetic.problem import (
    ANSWER,
    MISREAD,
    Op,
    Program,
    Scene,
    Symbol,
    Whole,
    apply,
    program_of,
    scene_of,
    sentences,
)
from footfall.worlds.arithmetic.world import State, read_trace
from footfall.worlds.scripted import Move, ScriptedPolicy, Writer, keep

Values: TypeAlias = npt.NDArray[np.int64]
Masses: TypeAlias = npt.NDArray[np.float64]

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


class ArithmeticWriter(Writer[State]):
    """Writes one problem's traces: equations, and the answer when all operations are done."""

    def __init__(self, script: Script, program: Program, scene: Scene) -> None:
        super().__init__(program.truth[-1])
        self.script = script
        self.program = program
        self._sentences = sentences(scene)
        self._values: dict[State, float] = {}

    def read(self, prefix: Trajectory) -> State:
        return read_trace(self.program, prefix.steps)[1]

    def answers(self, state: State) -> dict[int, float]:
        return answers(self.script, self.program, state)

    def value(self, state: State) -> float:
        known = self._values.get(state)
        return keep(self._values, state, super().value(state)) if known is None else known

    def moves(self, state: State) -> list[Move[State]]:
        """Off the true path the last operation is redone on its true value; otherwise the due one is done as it should
        be, misread, or with a slip. What these leave of 1 goes to stating the answer. No wording tells what is right.
        """
        due, value, _ = state
        truth, ops = self.program.truth, self.program.ops
        found: list[Move[State]] = []
        rest = 1.0
        if due > 0 and value != truth[due] and value != unrecoverable(self.program, due):
            redone = _equation(truth[due - 1], ops[due - 1], truth[due])
            after = State(due, truth[due])
            found.append(Move(self.script.recover, "recover", self._sentences.again, after, redone))
            rest -= self.script.recover
        if due == len(ops):
            return [*found, Move(rest, "answer", (ANSWER,), State(due, value, value), str(value))]
        op = ops[due]
        taken_for = Op(MISREAD[op.symbol], op.operand)
        misread = apply(taken_for.symbol, value, op.operand)
        p_misread = self.script.misreads(self.program, due) if 0 <= misread <= SENSIBLE else 0.0
        p_slip = self.script.slip.of(op.symbol) * (1 - p_misread)
        result = careful(self.program, due, value)
        slips = [result + delta for delta in SLIPS if delta > 0 or result + delta >= 0]
        share = rest * p_slip / len(slips)
        ways = [
            (rest * (1 - p_misread - p_slip), "right", op, result),
            (rest * p_misread, "misread", taken_for, misread),
            *((share, "slip", op, slipped) for slipped in slips),
        ]
        wordings = self._sentences.later if due else self._sentences.first
        return found + [
            Move(chance, kind, wordings[did.symbol], State(due + 1, stated), _equation(value, did, stated))
            for chance, kind, did, stated in ways
        ]


def _equation(left: int, op: Op, result: int) -> str:
    return f"{left} {op.symbol} {op.operand} = {result}"


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


_SLIP = OpRates(add=0.03, subtract=0.05, multiply=0.22, divide=0.16)
_MISREAD = OpRates(0.01, 0.01, 0.03, 0.03)
_MISREAD_TRICKY = OpRates(0.65, 0.65, 0.65, 0.65)


@register("policy", "scripted-arithmetic", Declared(separator="\n", weightless=True, tempered=False))
@dataclass(frozen=True, slots=True)
class ArithmeticPolicy(ScriptedPolicy[ArithmeticWriter]):
    """Writes arithmetic traces with given error rates; the true value of any prefix is known.

    After any prefix the writer stands in a state (due operation, running value) as `ArithmeticWorld.check` reads it:
    garbage does not move it, a wrong equation moves it as documented there. In a state it
    1. redoes the last operation on its true value with probability `recover`, if the running value is wrong (and the
       redone equation would not read as the due one);
    2. otherwise takes the due operation for another one with probability `misread` (`misread_tricky` for a tricky
       clause), unless the result would be negative or above 9999;
    3. otherwise writes the due operation, with a result off by 1 or 10 with probability `slip`; a division that does
       not come out is rounded (up where rounding down would hide the earlier error);
    4. states the running value as the answer when all operations are done, and ends.
    Wordings are drawn evenly and tell nothing. Temperature 0 takes the likeliest move and the first wording; any other
    temperature, top_p and top_k change nothing. A token is a word between spaces, or the separator after a step.
    """

    slip: OpRates = _SLIP
    misread: OpRates = _MISREAD
    misread_tricky: OpRates = _MISREAD_TRICKY
    recover: float = 0.05

    def __post_init__(self) -> None:
        for name in ("slip", "misread", "misread_tricky"):
            rates = OpRates(*getattr(self, name))
            object.__setattr__(self, name, rates)
            if not all(0 <= rate <= 1 for rate in rates):
                raise ValueError(f"ArithmeticPolicy.{name} must hold probabilities, not {tuple(rates)}")
        if not 0 <= self.recover <= 1:
            raise ValueError(f"ArithmeticPolicy.recover must be a probability, not {self.recover}")

    @property
    def name(self) -> str:
        rates = (("slip", self.slip), ("misread", self.misread), ("tricky", self.misread_tricky))
        shown = ",".join(f"{name}={'/'.join(f'{rate:g}' for rate in column)}" for name, column in rates)
        return f"scripted-arithmetic({shown},recover={self.recover:g})"

    @property
    def script(self) -> Script:
        return Script(self.slip, self.misread, self.misread_tricky, self.recover)

    def new_writer(self, problem: Problem) -> ArithmeticWriter:
        return ArithmeticWriter(self.script, program_of(problem), scene_of(problem))

    def value_of_state(self, problem: Problem, due: int, value: int, answer: int | None = None) -> float:
        """The exact value of a state: `due` operations lie behind, the running value is `value`."""
        writer = self.writer(problem)
        if not 0 <= due <= len(writer.program.ops):
            raise ValueError(
                f"problem {problem.id!r} has {len(writer.program.ops)} operations, so none is number {due}"
            )
        return writer.value(State(due, value, answer))
