"""What a code problem means: a reference program with its tests, and the grammar of programs that a writer may make of it.

The grammar has one slot for each line of the reference: the right line, or a wrong version of it, or, for an update, nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, cast

from footfall.types import Json, Problem
from footfall.worlds._code_expressions import Fault, Value
from footfall.worlds._code_language import Line, code_of, read_line
from footfall.worlds._code_mutants import KINDS, Kind, is_update, mutants
from footfall.worlds._code_run import ERROR, Function, build, final_env, output

__all__ = ["Slot", "Task", "make_task", "task_of"]

_PER_KIND = 2
"""So many wrong versions of one kind a line at most: the grammar stays small enough to be enumerated."""


class Slot(NamedTuple):
    """One place of the grammar. No line belongs to two kinds."""

    right: Line
    wrong: Mapping[Kind, tuple[Line, ...]]
    omittable: bool
    trap: tuple[Kind, Line] | None = None
    """The mistake that most writers make here."""

    @property
    def lines(self) -> tuple[Line, ...]:
        return (self.right, *(line for lines in self.wrong.values() for line in lines))


@dataclass(frozen=True, eq=False)
class Task:
    """A reference program and its tests. Kept from call to call, with all that was found out about its programs."""

    lines: tuple[Line, ...]
    inputs: tuple[tuple[Value, ...], ...]
    expected: tuple[str, ...]
    slots: tuple[Slot, ...]
    _passing: dict[tuple[Line, ...], bool] = field(default_factory=dict)
    _outputs: dict[tuple[Line, ...], tuple[str, ...]] = field(default_factory=dict)

    def passes(self, program: tuple[Line, ...]) -> bool:
        """Whether the program gives the expected output on every test."""
        known = self._passing.get(program)
        if known is None:
            function = self._build(program)
            pairs = zip(self.inputs, self.expected, strict=True)
            known = function is not None and all(output(function, given) == wanted for given, wanted in pairs)
            self._passing[program] = known
        return known

    def outputs(self, program: tuple[Line, ...]) -> tuple[str, ...]:
        """What the program gives on each test."""
        known = self._outputs.get(program)
        if known is None:
            function = self._build(program)
            known = self._outputs[program] = tuple(output(function, given) for given in self.inputs)
        return known

    def _build(self, program: tuple[Line, ...]) -> Function | None:
        """The function that the tests call; one by another name is not found."""
        function = build(program)
        return function if function and function.name == code_of(self.lines[0].text).target else None


def task_of(problem: Problem) -> Task:
    """Read the task that `CodeWorld.problems` left in the problem's `meta`."""
    missing = [name for name in ("program", "inputs") if name not in problem.meta]
    if missing:
        raise ValueError(
            f"problem {problem.id!r} is not of the code world: meta has no {missing[0]!r}; "
            "make problems with CodeWorld().problems(n, seed)"
        )
    trap = cast("int | None", problem.meta.get("trap"))
    return _task(problem.id, json.dumps(problem.meta["program"]), json.dumps(problem.meta["inputs"]), trap)


@lru_cache(maxsize=256)
def _task(name: str, program: str, inputs: str, trap: int | None) -> Task:
    texts = cast("list[str]", json.loads(program))
    read = [read_line(text) for text in texts]
    lines = tuple(line for line in read if line is not None)
    if len(lines) < len(texts):
        raise ValueError(f"problem {name!r}: line {read.index(None) + 1} of meta['program'] cannot be read")
    given = tuple(tuple(cast("list[Value]", arguments)) for arguments in cast("list[list[Json]]", json.loads(inputs)))
    return make_task(name, lines, given, trap)


def make_task(
    name: str, lines: tuple[Line, ...], inputs: tuple[tuple[Value, ...], ...], trap: int | None = None
) -> Task:
    """The task with the outputs of the reference and its grammar; line `trap`, if given, has a trap."""
    function = build(lines)
    expected = tuple(output(function, given) for given in inputs)
    if ERROR in expected or not inputs:
        raise ValueError(f"problem {name!r}: the reference program fails on test {expected.index(ERROR) + 1}")
    task = Task(lines, inputs, expected, ())
    slots = tuple(_slot(task, at) for at in range(len(lines)))
    if trap is not None:
        slots = (*slots[:trap], _trapped(task, trap, slots[trap]), *slots[trap + 1 :])
    return replace(task, slots=slots)


def _trapped(task: Task, at: int, slot: Slot) -> Slot:
    """The slot with its first mistake that the tests see as a trap; as it was if they see none."""
    for kind, lines in slot.wrong.items():
        for line in lines:
            if not task.passes((*task.lines[:at], line, *task.lines[at + 1 :])):
                return slot._replace(trap=(kind, line))
    return slot


def _slot(task: Task, at: int) -> Slot:
    line = task.lines[at]
    alike = _alike(task, at)
    wrong: dict[Kind, tuple[Line, ...]] = {}
    taken = {line}
    for kind in ("initial", "operator", "variable", "off_by_one"):
        found = [new for new in mutants(line, kind, alike) if new not in taken and _is_plausible(task, at, new)]
        if found:
            wrong[kind] = tuple(found[:_PER_KIND])
            taken |= set(wrong[kind])
    without = task.lines[:at] + task.lines[at + 1 :]
    omittable = is_update(line, task.lines[:at]) and build(without) is not None
    return Slot(line, {kind: wrong[kind] for kind in KINDS if kind in wrong}, omittable)


def _is_plausible(task: Task, at: int, line: Line) -> bool:
    """A mistake that breaks the program on every test would be noticed at once; nobody makes it."""
    outputs = task.outputs((*task.lines[:at], line, *task.lines[at + 1 :]))
    return any(text != ERROR for text in outputs)


def _alike(task: Task, at: int) -> dict[str, list[str]]:
    """For each variable the others of its type that have a value before line `at`."""
    function = build(task.lines)
    types: dict[str, type] = {}
    for given in task.inputs:
        try:
            env = final_env(function, given) if function else {}
        except Fault:
            continue
        types |= {name: type(value) for name, value in env.items()}
    codes = [code_of(line.text) for line in task.lines[:at]]
    known = dict.fromkeys([*(codes[0].names if codes else ()), *(code.target for code in codes[1:] if code.target)])
    return {
        name: [other for other in known if other != name and types.get(other) is kind] for name, kind in types.items()
    }
