"""How the code world reads a trace: the program that its steps write, the line that is due, and the class of each step.

The checker and the scripted policy share this file. The rules are written down in `CodeWorld.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from footfall.types import Step
from footfall.worlds.code.language import Line, code_of, is_blank, read_line
from footfall.worlds.code.task import Slot, Task
from footfall.worlds.world import StepTruth, read_steps

ANSWER = "# The answer is %s."
_ANSWER = re.compile(r"\s*#\s*the answer is:?\s*(.*?)\.?\s*", re.IGNORECASE)


class State(NamedTuple):
    """Where a trace stands: its lines, the slot that is due, whether a line could not be read, and the stated answer."""

    program: tuple[Line, ...] = ()
    due: int = 0
    broken: bool = False
    answer: str | None = None


START = State()


def answer_text(task: Task, state: State) -> str:
    """What the program so far gives on the tests, as an answer states it."""
    outputs = task.outputs(() if state.broken else state.program)
    return f"[{', '.join(outputs)}]"


def stated_answer(text: str) -> str | None:
    """The outputs in "# The answer is [...]."."""
    match = _ANSWER.fullmatch(text)
    return match[1] if match else None


def advance(task: Task, state: State, text: str) -> State:
    """Where the trace stands after a step with this text, one line or several. After the answer nothing counts."""
    for line in text.split("\n"):
        if state.answer is None:
            state = _advance_line(task, state, line)
    return state


def _advance_line(task: Task, state: State, text: str) -> State:
    answer = stated_answer(text)
    if answer is not None:
        return state._replace(answer=answer)
    if is_blank(text):
        return state
    line = read_line(text)
    if line is None:
        return state._replace(broken=True)
    return State((*state.program, line), _due_after(task.slots, state.due, line), state.broken)


def _due_after(slots: Sequence[Slot], due: int, line: Line) -> int:
    reachable = [due + k for k, slot in enumerate(slots[due:]) if line in slot.lines]
    for at in reachable:
        if all(slot.omittable for slot in slots[due:at]):
            return at + 1
    if due < len(slots) and _head(slots[due].right) == _head(line):
        return due + 1
    if reachable:
        return reachable[0] + 1
    ends = line.kind == "return" and line.indent == slots[-1].right.indent
    return len(slots) if ends else due


def _head(line: Line) -> tuple[str, str]:
    """What makes two lines versions of one another: the kind of statement and the variable they set."""
    code = code_of(line.text)
    return "assign" if code.kind == "augment" else code.kind, code.target


def following(task: Task, due: int) -> Iterator[tuple[Line, int]]:
    """The lines that the grammar allows next, right ones first, each with the slot that is due after it."""
    if due == len(task.slots):
        return
    slot = task.slots[due]
    for line in slot.lines:
        yield line, due + 1
    if slot.omittable:
        yield from following(task, due + 1)


class Truths:
    """Which prefixes of one task can be completed; kept, so that a trace costs little more than its errors."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._alive: dict[tuple[tuple[Line, ...], int], bool] = {}

    def alive(self, state: State) -> bool:
        """Whether the grammar has a completion that passes every test; after the answer nothing can be added."""
        if state.broken:
            return False
        if state.answer is not None:
            return self.task.passes(state.program)
        return self._completable(state.program, state.due)

    def _completable(self, program: tuple[Line, ...], due: int) -> bool:
        if due == len(self.task.slots):
            return self.task.passes(program)
        known = self._alive.get((program, due))
        if known is None:
            options = following(self.task, due)
            known = any(self._completable((*program, line), after) for line, after in options)
            self._alive[program, due] = known
        return known

    def read(self, steps: Sequence[Step]) -> tuple[list[StepTruth], State]:
        """The class of every step, and the state after the last one."""
        return read_steps(self._read_step, START, steps)

    def _read_step(self, before: State, text: str) -> tuple[StepTruth, State]:
        after = advance(self.task, before, text)
        return self._class(before, after), after

    def _class(self, before: State, after: State) -> StepTruth:
        if before.answer is not None:
            return StepTruth.WRONG
        if after.answer is not None:
            done = before.due == len(self.task.slots)
            if not done or after.answer.replace(" ", "") != answer_text(self.task, before).replace(" ", ""):
                return StepTruth.WRONG
        if self.alive(after):
            return StepTruth.RIGHT
        if self.alive(before):
            return StepTruth.WRONG
        idle = after == before or after.answer is not None
        return StepTruth.CONSEQUENT if idle or self._is_reference(before, after) else StepTruth.WRONG

    def _is_reference(self, before: State, after: State) -> bool:
        """Whether the step is the reference's line at its place."""
        return after.due == before.due + 1 and after.program[-1] == self.task.slots[before.due].right


@lru_cache(maxsize=256)
def truths_of(task: Task) -> Truths:
    """What is known of a task's prefixes, kept from one call to the next."""
    return Truths(task)
