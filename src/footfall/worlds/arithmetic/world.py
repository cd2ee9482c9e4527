"""The arithmetic world: word problems by seed, a checker for any step, and traces to train on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, ClassVar, NamedTuple, cast

from footfall.registry import register
from footfall.types import Problem, Step, Trajectory
from footfall.worlds.arithmetic.problem import (
    Op,
    Program,
    Symbol,
    apply,
    draw_scene,
    is_exact,
    program_of,
    write_problem,
)
from footfall.worlds.world import (
    Split,
    StepTruth,
    World,
    first_wrong,
    pick,
    problem_id,
    read_steps,
    require,
    split_of,
)

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
_BOLD = re.compile(r"\*\*(?=\S)([^*]*[^*\s])\*\*")
_MARKS = re.compile(r"(?<![0-9)])(?<![0-9)] )\*\*")
_BULLET = re.compile(r"(?:.*\n)?\s*[-*+]", re.DOTALL)
_SYMBOLS: tuple[Symbol, ...] = ("+", "+", "+", "-", "-", "-", "*", "*", "/", "/")


@register("world", "arithmetic")
@dataclass(frozen=True, slots=True)
class ArithmeticWorld(World):
    """Word problems about one quantity that changes clause by clause; every step can be checked.

    Difficulty is the number of operations and the size of the operands. All true values lie in
    `min_value`..`max_value` and every division is exact.
    """

    domain: ClassVar[str] = "arithmetic"
    remedy: ClassVar[str] = "allow more operations or values"
    hard: ClassVar[Mapping[str, Any]] = {
        "min_ops": 7, "max_ops": 9, "max_start": 200, "max_term": 299, "max_value": 2999
    }  # fmt: skip

    min_ops: int = 2
    max_ops: int = 6
    max_start: int = 60
    max_term: int = 99
    """Largest number added or taken away (the smallest is 2)."""
    max_factor: int = 9
    """Largest factor or divisor (the smallest is 2)."""
    min_value: int = 1
    max_value: int = 999
    trap_rate: float = 0.08
    """Share of clauses with a tricky wording."""

    def __post_init__(self) -> None:
        rules = {
            "1 <= min_ops <= max_ops": 1 <= self.min_ops <= self.max_ops,
            "max_term >= 2": self.max_term >= 2,
            "max_factor >= 2": self.max_factor >= 2,
            "0 <= min_value": self.min_value >= 0,
            "min_value <= max_start <= max_value": self.min_value <= self.max_start <= self.max_value,
            "min_value + 4 <= max_value": self.min_value + 4 <= self.max_value,
            "max_value <= 1000000": self.max_value <= 1_000_000,
            "0 <= trap_rate <= 1": 0 <= self.trap_rate <= 1,
        }
        require(self, rules)

    def answer(self, trajectory: Trajectory) -> str | None:
        """The number in the last "The answer is N." of the trace."""
        found = stated_answer(trajectory.steps)
        return None if found is None else str(found)

    def check(self, trajectory: Trajectory) -> list[StepTruth]:
        """The class of every step, whatever its text.

        The checker keeps a state: the index of the due operation (at first 0) and the running value (at first the
        start value). The state is *on path* if the running value is the true one for that index. Of a step's text only
        equations `a op b = c` over whole numbers and "answer is N" count. An equation is read by the first rule
        that fits:
        1. it goes on from the running value with the due operand: RIGHT (on path) or CONSEQUENT (off path) if it also
           has the due operation and true arithmetic, otherwise WRONG (a slip or a misreading). The next operation is
           then due, and the running value is c;
        2. it is the true equation of the due or an earlier operation j: off path this is a recovery and RIGHT, the
           running value is true again and operation j + 1 is due; on path it is a repetition: WRONG, the state stays;
        3. anything else is WRONG and the running value is c. With the due operand (a wrong left side was copied) the
           next operation is due; with the operation and operand of a later clause those in between were skipped;
           with those of an earlier clause (done again or late) the due one stays due; otherwise (an unknown operand)
           the next operation is due.
        An answer is RIGHT (on path) or CONSEQUENT (off path) if all operations are done and it is the running value;
        otherwise WRONG. Everything after an answer is WRONG, but the last answer is the one that counts.
        A step with several of these has the worst class among them. A step with none, with an `=` outside an equation
        or with a chained one (`1 + 2 + 3 = 6`, `1 + 2 = 3 + 3`) is WRONG; alone it does not move the state.
        So a CONSEQUENT step always has a WRONG one before it, and a trace with a WRONG step can still end right.
        """
        return read_trace(program_of(trajectory.problem), trajectory.steps)[0]

    def first_error(self, trajectory: Trajectory) -> int:
        """0-based index of the first wrong step, -1 if there is none."""
        return first_wrong(self.check(trajectory))

    def draw(self, rng: Random, split: Split) -> Problem | None:
        """Start and operations decide the split, so that only what belongs to it is put into words."""
        program = self._program(rng)
        if split_of(f"{program.start} {program.ops}") != split:
            return None
        scene = draw_scene(rng)
        prompt = write_problem(program, scene, rng)
        meta = {**program.to_meta(), "name": scene.name, "item": scene.item}
        name = problem_id(self.domain, f"{prompt} {program}")
        return Problem(name, prompt, str(program.truth[-1]), self.domain, meta=meta)

    def _program(self, rng: Random) -> Program:
        value = start = rng.randint(max(2, self.min_value), max(2, self.max_start))
        ops: list[Op] = []
        tricky: list[bool] = []
        for _ in range(rng.randint(self.min_ops, self.max_ops)):
            trap = rng.random() < self.trap_rate
            op = self._op(rng, value, trap)
            ops.append(op)
            tricky.append(trap)
            value = apply(op.symbol, value, op.operand)
        return Program(start, tuple(ops), tuple(tricky))

    def _op(self, rng: Random, value: int, trap: bool) -> Op:
        """A random operation that keeps the value in bounds."""
        while True:
            symbol = pick(rng, _SYMBOLS)
            operands = self._operands(symbol, value, trap)
            if operands:
                return Op(symbol, pick(rng, operands))

    def _operands(self, symbol: Symbol, value: int, trap: bool) -> range | list[int]:
        if symbol == "+":
            # A trap must look sensible: what is taken for a loss must not be more than there is.
            return range(2, min(self.max_term, self.max_value - value, value if trap else self.max_value) + 1)
        if symbol == "-":
            return range(2, min(self.max_term, value - self.min_value) + 1)
        factors = range(2, self.max_factor + 1)
        if symbol == "*":
            return [b for b in factors if value * b <= self.max_value and value > 0]
        return [b for b in factors if value % b == 0 and value // b >= max(1, self.min_value)]


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
            clean = clean and not _is_chained(text[: match.start()].rstrip())
            equation = Equation(int(match[1]), cast(Symbol, match[2]), int(match[3]), int(match[4]))
            truth, state = advance(program, state, equation)
        said.append(truth)
    if not said or not clean or equals != text.count("=") or StepTruth.WRONG in said:
        return StepTruth.WRONG, state
    return (StepTruth.CONSEQUENT if StepTruth.CONSEQUENT in said else StepTruth.RIGHT), state


def _is_chained(before: str) -> bool:
    """Whether what stands before an equation ends in an operator. A bullet and the marks of bold are none."""
    if before[-1:] not in _CHAIN:
        return False
    plain = _MARKS.sub("", _BOLD.sub(r"\1", before)).rstrip()
    return plain[-1:] in _CHAIN and _BULLET.fullmatch(plain) is None


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
