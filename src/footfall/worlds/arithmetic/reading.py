"""How the arithmetic world reads a trace: what each step says, what class it has, where the trace stands after it.

The checker, the scripted policy and the exact value share this file, so they cannot disagree on where a trace stands.
The rules are written down in `ArithmeticWorld.check`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

from footfall.types import Step
from footfall.worlds.arithmetic.problem import Op, Program, Symbol, is_exact
from footfall.worlds.truth import StepTruth, read_steps

# Longer numbers are not of this world, and whole chains of products of these still fit 64 bits.
_NUMBER = r"-?[0-9]{1,9}"
_END = r"(?![0-9]|[.,][0-9]|\s*[+\-*/=]\s*[0-9-])"
_ANSWER = rf"answer is\s*:?\s*({_NUMBER}){_END}"
_SAYING = re.compile(
    rf"(?<![0-9.,])({_NUMBER})\s*([+\-*/])\s*({_NUMBER})\s*=\s*({_NUMBER}){_END}|{_ANSWER}", re.IGNORECASE
)
_LAST_ANSWER = re.compile(rf".*{_ANSWER}", re.IGNORECASE | re.DOTALL)
_SIGNS = str.maketrans("×÷−", "*/-")
_CHAIN = frozenset("+-*/=")


class State(NamedTuple):
    """Where a trace stands: the index of the due operation, the running value, and the answer once it is stated."""

    due: int
    value: int
    answer: int | None = None


class Equation(NamedTuple):
    left: int
    symbol: Symbol
    right: int
    result: int


def start_of(program: Program) -> State:
    """Where an empty trace stands."""
    return State(0, program.start)


def read_trace(program: Program, steps: Sequence[Step]) -> tuple[list[StepTruth], State]:
    """The class of every step, and the state after the last one."""
    return read_steps(partial(read_step, program), start_of(program), steps)


def read_step(program: Program, state: State, text: str) -> tuple[StepTruth, State]:
    """A step is as bad as the worst thing it says; a step that says nothing, or has a stray `=`, is wrong."""
    text = _plain(text)
    said: list[StepTruth] = []
    clean = True
    equals = 0
    for match in _SAYING.finditer(text):
        if match[5] is not None:
            truth, state = _answer(program, state, int(match[5]))
        else:
            equals += 1
            clean = clean and text[: match.start()].rstrip()[-1:] not in _CHAIN
            equation = Equation(int(match[1]), cast(Symbol, match[2]), int(match[3]), int(match[4]))
            truth, state = advance(program, state, equation)
        said.append(truth)
    if not said or not clean or equals != text.count("=") or StepTruth.WRONG in said:
        return StepTruth.WRONG, state
    return (StepTruth.CONSEQUENT if StepTruth.CONSEQUENT in said else StepTruth.RIGHT), state


def _answer(program: Program, state: State, answer: int) -> tuple[StepTruth, State]:
    after = State(state.due, state.value, answer)
    if state.answer is not None or state.due < len(program.ops) or answer != state.value:
        return StepTruth.WRONG, after
    on_path = state.value == program.truth[-1]
    return (StepTruth.RIGHT if on_path else StepTruth.CONSEQUENT), after


def advance(program: Program, state: State, equation: Equation) -> tuple[StepTruth, State]:
    """The class of one equation in a state, and the state after it."""
    if state.answer is not None:
        return StepTruth.WRONG, state
    due, value, _ = state
    left, symbol, right, result = equation
    on_path = value == program.truth[due]
    if left == value and due < len(program.ops) and right == program.ops[due].operand:
        good = symbol == program.ops[due].symbol and is_exact(symbol, left, right, result)
        truth = StepTruth.WRONG if not good else StepTruth.RIGHT if on_path else StepTruth.CONSEQUENT
        return truth, State(due + 1, result)
    known = _true_equation(program, due, equation)
    if known is not None:
        return (StepTruth.WRONG, state) if on_path else (StepTruth.RIGHT, State(known + 1, result))
    return StepTruth.WRONG, State(_pointer_after(program, due, Op(symbol, right)), result)


def _true_equation(program: Program, due: int, equation: Equation) -> int | None:
    """The latest operation up to the due one whose true equation this is."""
    left, symbol, right, result = equation
    truth = program.truth
    for j in range(min(due, len(program.ops) - 1), -1, -1):
        if program.ops[j] == (symbol, right) and truth[j] == left and truth[j + 1] == result:
            return j
    return None


def _pointer_after(program: Program, due: int, op: Op) -> int:
    """Which operation is due after a wrong equation that did `op`."""
    ops = program.ops
    if due == len(ops):
        return due
    if op.operand != ops[due].operand:
        if op in ops[due + 1 :]:
            return ops.index(op, due + 1) + 1
        if op in ops[:due]:
            return due
    return due + 1


def stated_answer(steps: Sequence[Step]) -> int | None:
    """The number of the last "The answer is N" in the steps."""
    for step in reversed(steps):
        match = _LAST_ANSWER.match(_plain(step.text))
        if match:
            return int(match[1])
    return None


def _plain(text: str) -> str:
    return text if text.isascii() else text.translate(_SIGNS)
