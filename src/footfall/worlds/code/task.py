"""What a code problem means: a reference program with its tests, and the grammar of programs that a writer may make of it.

The grammar has one slot for each line of the reference: the right line, or a plausible wrong version of it by the kind of
mistake, or, for an update, nothing.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, cast

from footfall.types import Json, Problem
from footfall.worlds.code.language import Fault, Line, Value, code_of, is_idle, parse_line, read_line, spell_line
from footfall.worlds.code.run import ERROR, Function, build, final_env, output
from footfall.worlds.world import require_meta

Kind: TypeAlias = Literal["operator", "off_by_one", "variable", "initial", "missing"]
KINDS: tuple[Kind, ...] = ("operator", "off_by_one", "variable", "initial", "missing")
"""A wrong operator, a bound or a constant off by one, a wrong variable, a wrong first value, a line left out."""

_OTHER: Mapping[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NEAR: Mapping[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}

Change: TypeAlias = Callable[[ast.AST], None]
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
    require_meta(problem, "code", "program", "inputs")
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


def mutants(line: Line, kind: Kind, alike: Mapping[str, Sequence[str]]) -> list[Line]:
    """All wrong versions of `line` of one kind; `alike` gives for a variable those of its type that are known there.

    `missing` has none: a line that is left out is no line.
    """
    tree = parse_line(line.text)
    if tree is None or line.kind == "def" or kind == "missing":
        return []
    found: dict[Line, None] = {}
    for position, node in enumerate(_nodes(tree)):
        for change in _changes(node, kind, tree, alike):
            changed = copy.deepcopy(tree)
            change(_nodes(changed)[position])
            new = read_line(" " * line.indent + spell_line(line.text, changed))
            if new is not None and new != line and not is_idle(changed):
                found[new] = None
    return list(found)


def is_update(line: Line, before: Sequence[Line]) -> bool:
    """Whether the line changes a variable that already has a value: what a hasty writer forgets."""
    code = code_of(line.text)
    known = (
        {code_of(earlier.text).target for earlier in before} | set(code_of(before[0].text).names) if before else set()
    )
    return code.kind in ("augment", "append") or (code.kind == "assign" and code.target in known)


def _nodes(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


def _changes(node: ast.AST, kind: Kind, tree: ast.stmt, alike: Mapping[str, Sequence[str]]) -> Iterator[Change]:
    first_value = _is_first_value(tree)
    if kind == "initial" and first_value and node is tree:
        yield _set_first_value
    elif kind == "operator":
        yield from _swaps(node, _OTHER)
    elif kind == "off_by_one":
        yield from _swaps(node, _NEAR)
        yield from _shifts(node, first_value)
    elif kind == "variable" and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for name in alike.get(node.id, ()):
            yield _renaming(name)


def _is_first_value(tree: ast.stmt) -> bool:
    """`x = 0` or `x = xs[0]`."""
    return isinstance(tree, ast.Assign) and (
        (isinstance(tree.value, ast.Constant) and isinstance(tree.value.value, int))
        or (isinstance(tree.value, ast.Subscript) and isinstance(tree.value.slice, ast.Constant))
    )


def _set_first_value(node: ast.AST) -> None:
    tree = cast(ast.Assign, node)
    zero = isinstance(tree.value, ast.Constant) and tree.value.value == 0
    tree.value = ast.Constant(1 if zero else 0)


def _swaps(node: ast.AST, table: Mapping[type, type]) -> Iterator[Change]:
    operator = node.ops[0] if isinstance(node, ast.Compare) else getattr(node, "op", None)
    other = table.get(type(operator))
    if other is None:
        return

    def swap(changed: ast.AST) -> None:
        if isinstance(changed, ast.Compare):
            changed.ops = [other()]
        else:
            changed.op = other()  # type: ignore[attr-defined]

    yield swap


def _shifts(node: ast.AST, first_value: bool) -> Iterator[Change]:
    """The last bound of a range one less, a whole constant one more; not a first value, that is a kind of its own."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        yield _shift_range
    elif isinstance(node, ast.Constant) and type(node.value) is int and not first_value:
        yield _shift_constant


def _shift_range(node: ast.AST) -> None:
    call = cast(ast.Call, node)
    at = 0 if len(call.args) == 1 else 1
    call.args[at] = ast.BinOp(call.args[at], ast.Sub(), ast.Constant(1))


def _shift_constant(node: ast.AST) -> None:
    constant = cast(ast.Constant, node)
    constant.value = cast(int, constant.value) + 1


def _renaming(name: str) -> Change:
    def rename(node: ast.AST) -> None:
        cast(ast.Name, node).id = name

    return rename
