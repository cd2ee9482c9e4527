"""Runs programs of the tiny language: lines to blocks by their indentation, blocks to results, with a limit on the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, cast

from footfall.worlds.code.language import (
    Code,
    Env,
    Expression,
    Fault,
    Line,
    Value,
    code_of,
    flat,
    require_function,
)

ERROR = "error"
"""What a program that fails, runs too long or returns nothing gives for an input."""

_WORK = 600
"""Statements and rounds of loops that a call may take."""

Run: TypeAlias = "Callable[[Env, list[int]], Signal | None]"


class Signal(NamedTuple):
    """Why a block was left before its end."""

    kind: str
    value: Value = 0


class Function(NamedTuple):
    name: str
    parameters: tuple[str, ...]
    body: Run
    local: frozenset[str]
    """All names that it sets, its parameters among them."""


_BREAK, _CONTINUE = Signal("break"), Signal("continue")


class _Misplaced(Exception):
    """The lines are no program: a block without lines, a line indented for no reason, an `else` without `if`."""


def build(lines: Sequence[Line]) -> Function | None:
    """The function that the lines define, or `None` if they are no such program."""
    codes = [code_of(line.text) for line in lines]
    if not lines or codes[0].kind != "def" or lines[0].indent or any(code.kind == "def" for code in codes[1:]):
        return None
    try:
        body, end = _block(lines, codes, 1, 0, in_loop=False)
    except _Misplaced:
        return None
    set_here = (code.target for code in codes[1:] if code.kind in ("assign", "augment", "for"))
    local = frozenset((*codes[0].names, *set_here))
    return Function(codes[0].target, codes[0].names, body, local) if end == len(lines) else None


def _block(lines: Sequence[Line], codes: Sequence[Code], at: int, outer: int, in_loop: bool) -> tuple[Run, int]:
    """The block that begins at line `at`, deeper than `outer`, and the line behind it."""
    if at == len(lines) or lines[at].indent <= outer:
        raise _Misplaced
    indent = lines[at].indent
    runs: list[Run] = []
    while at < len(lines) and lines[at].indent == indent:
        run, at = _statement(lines, codes, at, in_loop)
        runs.append(run)
    if at < len(lines) and lines[at].indent > outer:
        raise _Misplaced
    return _sequence(runs), at


def _statement(lines: Sequence[Line], codes: Sequence[Code], at: int, in_loop: bool) -> tuple[Run, int]:
    code, indent = codes[at], lines[at].indent
    if code.kind in ("for", "while"):
        body, at = _block(lines, codes, at + 1, indent, in_loop=True)
        otherwise, at = _else(lines, codes, at, indent, in_loop)
        return _loop(code, body, otherwise), at
    if code.kind == "if":
        return _branches(lines, codes, at, in_loop)
    if code.kind in ("else", "elif") or (code.kind in ("break", "continue") and not in_loop):
        raise _Misplaced
    return _simple(code), at + 1


def _branches(lines: Sequence[Line], codes: Sequence[Code], at: int, in_loop: bool) -> tuple[Run, int]:
    test, indent = _first(codes[at]), lines[at].indent
    then, at = _block(lines, codes, at + 1, indent, in_loop)
    otherwise: Run | None = None
    if at < len(lines) and lines[at].indent == indent and codes[at].kind == "elif":
        otherwise, at = _branches(lines, codes, at, in_loop)
    else:
        otherwise, at = _else(lines, codes, at, indent, in_loop)

    def branch(env: Env, work: list[int]) -> Signal | None:
        if test(env):
            return then(env, work)
        return otherwise(env, work) if otherwise else None

    return branch, at


def _else(lines: Sequence[Line], codes: Sequence[Code], at: int, indent: int, in_loop: bool) -> tuple[Run | None, int]:
    """The block of an `else` that stands at line `at`, if one does, and the line behind it."""
    if at < len(lines) and lines[at].indent == indent and codes[at].kind == "else":
        return _block(lines, codes, at + 1, indent, in_loop)
    return None, at


def _first(code: Code) -> Expression:
    assert code.first is not None
    return code.first


def _sequence(runs: Sequence[Run]) -> Run:
    def sequence(env: Env, work: list[int]) -> Signal | None:
        for run in runs:
            _tick(work)
            signal = run(env, work)
            if signal is not None:
                return signal
        return None

    return sequence


def _tick(work: list[int]) -> None:
    work[0] -= 1
    if work[0] < 0:
        raise Fault("it runs too long")


def _loop(code: Code, body: Run, otherwise: Run | None) -> Run:
    """The `else` of a loop runs if no `break` ended it."""

    def loop(env: Env, work: list[int]) -> Signal | None:
        for _ in _rounds(code, env):
            _tick(work)
            signal = body(env, work)
            if signal is not None and signal.kind != "continue":
                return None if signal.kind == "break" else signal
        return otherwise(env, work) if otherwise else None

    return loop


def _rounds(code: Code, env: Env) -> Iterator[None]:
    """Each round of a `while` as long as its test holds, or of a `for` with its variable set."""
    if code.kind == "while":
        while _first(code)(env):
            yield
    else:
        for item in _items(code, env):
            env[code.target] = item
            yield


def _items(code: Code, env: Env) -> Iterable[Value]:
    if code.span is None:
        over = _first(code)(env)
        if isinstance(over, int):
            raise Fault("a number is no list")
        return over
    require_function("range", env)
    try:
        return range(*(cast(int, bound(env)) for bound in code.span))
    except (TypeError, ValueError) as error:
        raise Fault(str(error)) from None


def _simple(code: Code) -> Run:
    target, kind = code.target, code.kind
    if kind in ("break", "continue"):
        return lambda env, work: _BREAK if kind == "break" else _CONTINUE
    if kind == "pass":
        return lambda env, work: None
    first = _first(code)
    if kind == "return":
        return lambda env, work: Signal("return", first(env))
    if kind == "append":
        return lambda env, work: _append(env, target, first(env))

    def assign(env: Env, work: list[int]) -> None:
        env[target] = first(env)

    def augment(env: Env, work: list[int]) -> None:
        old = env.get(target)
        new = first(env)
        if isinstance(old, list) and isinstance(new, list):
            old[:] = new  # `+=` changes a list in place, for all its names
        else:
            env[target] = new

    return augment if kind == "augment" else assign


def _append(env: Env, target: str, value: Value) -> None:
    items = env.get(target)
    if not isinstance(items, list):
        raise Fault(f"{target} is no list")
    items.append(flat(value))


def call(function: Function, arguments: Sequence[Value]) -> Value:
    """What the function returns. Lists are copied first, so that a test cannot spoil the next."""
    return _run(function, arguments)[0]


def final_env(function: Function, arguments: Sequence[Value]) -> Env:
    """The variables and their values when the function returns."""
    return _run(function, arguments)[1]


def _run(function: Function, arguments: Sequence[Value]) -> tuple[Value, Env]:
    if len(arguments) != len(function.parameters):
        raise Fault(f"{function.name} takes {len(function.parameters)} arguments")
    copies = [list(value) if isinstance(value, list) else value for value in arguments]
    env = Env(zip(function.parameters, copies, strict=True), function.local)
    signal = function.body(env, [_WORK])
    if signal is None:
        raise Fault(f"{function.name} returns nothing")
    return signal.value, env


def output(function: Function | None, arguments: Sequence[Value]) -> str:
    """The result as Python writes it, or `ERROR`."""
    if function is None:
        return ERROR
    try:
        return repr(call(function, arguments))
    except Fault:
        return ERROR
