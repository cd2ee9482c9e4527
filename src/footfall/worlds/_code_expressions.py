"""Expressions of the code world's tiny Python, read into closures. Nothing is ever handed to `eval` or `exec`.

Values are whole numbers, truth values, strings and flat lists; sizes are bounded, so no program can fill the memory.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import TypeAlias, cast

__all__ = ["Env", "Expression", "Fault", "Unknown", "Value", "flat", "name_of", "read_expression"]

Value: TypeAlias = "bool | int | str | list[bool | int | str]"
Env: TypeAlias = dict[str, Value]
Expression: TypeAlias = Callable[[Env], Value]

_LARGEST = 10**12
_LONGEST = 500


class Fault(Exception):
    """The program did something wrong while running: an undefined name, a bad index, a value too large."""


class Unknown(Exception):
    """Not in the tiny language."""


def name_of(tree: ast.expr) -> str:
    """The variable that this is, if it is one."""
    if not isinstance(tree, ast.Name):
        raise Unknown
    return tree.id


def read_expression(tree: ast.expr) -> Expression:
    """A function of the variables; `Unknown` if the tiny language has no such expression."""
    reader = _EXPRESSIONS.get(type(tree))
    if reader is None:
        raise Unknown
    return reader(tree)


def _constant(tree: ast.expr) -> Expression:
    value = cast(ast.Constant, tree).value
    if not isinstance(value, int | str) or _is_large(value):
        raise Unknown
    return lambda env: value


def _load(tree: ast.expr) -> Expression:
    name = name_of(tree)

    def load(env: Env) -> Value:
        try:
            return env[name]
        except KeyError:
            raise Fault(f"{name} has no value") from None

    return load


def _list(tree: ast.expr) -> Expression:
    items = [read_expression(item) for item in cast(ast.List, tree).elts]
    return lambda env: [flat(item(env)) for item in items]


def _binary(tree: ast.expr) -> Expression:
    tree = cast(ast.BinOp, tree)
    if type(tree.op) not in _BINARY:
        raise Unknown
    apply, left, right = _BINARY[type(tree.op)], read_expression(tree.left), read_expression(tree.right)
    return lambda env: _bounded(_try(apply, left(env), right(env)))


def _unary(tree: ast.expr) -> Expression:
    tree = cast(ast.UnaryOp, tree)
    if type(tree.op) not in _UNARY:
        raise Unknown
    apply, operand = _UNARY[type(tree.op)], read_expression(tree.operand)
    return lambda env: _try(apply, operand(env))


def _compare(tree: ast.expr) -> Expression:
    tree = cast(ast.Compare, tree)
    if len(tree.ops) != 1 or type(tree.ops[0]) not in _COMPARE:
        raise Unknown
    apply, left, right = _COMPARE[type(tree.ops[0])], read_expression(tree.left), read_expression(tree.comparators[0])
    return lambda env: _try(apply, left(env), right(env))


def _boolean(tree: ast.expr) -> Expression:
    tree = cast(ast.BoolOp, tree)
    parts = [read_expression(part) for part in tree.values]
    stop = isinstance(tree.op, ast.Or)

    def either(env: Env) -> Value:
        value: Value = False
        for part in parts:
            value = part(env)
            if bool(value) is stop:
                break
        return value

    return either


def _call(tree: ast.expr) -> Expression:
    tree = cast(ast.Call, tree)
    if not isinstance(tree.func, ast.Name) or tree.func.id not in _FUNCTIONS or tree.keywords:
        raise Unknown
    apply, arguments = _FUNCTIONS[tree.func.id], [read_expression(argument) for argument in tree.args]
    return lambda env: _bounded(_try(apply, *(argument(env) for argument in arguments)))


def _item(tree: ast.expr) -> Expression:
    tree = cast(ast.Subscript, tree)
    of, at = read_expression(tree.value), read_expression(tree.slice)
    return lambda env: _try(operator.getitem, of(env), at(env))


_EXPRESSIONS: dict[type, Callable[[ast.expr], Expression]] = {
    ast.Constant: _constant, ast.Name: _load, ast.List: _list, ast.BinOp: _binary, ast.UnaryOp: _unary,
    ast.Compare: _compare, ast.BoolOp: _boolean, ast.Call: _call, ast.Subscript: _item,
}  # fmt: skip


def _try(apply: Callable[..., object], *values: Value) -> Value:
    try:
        return cast(Value, apply(*values))
    except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        raise Fault(str(error)) from None


def _bounded(value: Value) -> Value:
    if _is_large(value):
        raise Fault("a value is too large")
    return value


def _is_large(value: Value) -> bool:
    return abs(value) > _LARGEST if isinstance(value, int) else len(value) > _LONGEST


def flat(value: Value) -> bool | int | str:
    """An element of a list; lists inside lists could grow without bound and are not of this language."""
    if isinstance(value, list):
        raise Fault("a list inside a list")
    return value


def _whole(apply: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    """Only for numbers: `%` on a string formats it, which can fill the memory."""

    def checked(left: Value, right: Value) -> Value:
        if not isinstance(left, int) or not isinstance(right, int):
            raise TypeError("this operation is for numbers")
        return apply(left, right)

    return checked


def _times(left: Value, right: Value) -> object:
    for many, text in ((left, right), (right, left)):
        if isinstance(text, str | list) and isinstance(many, int) and many * len(text) > _LONGEST:
            raise Fault("a value is too large")
    return operator.mul(left, right)


def _sum(values: Value) -> Value:
    if not isinstance(values, list):
        raise TypeError("sum is for lists")
    return sum(cast("Iterable[int]", values))


_BINARY: dict[type, Callable[..., object]] = {
    ast.Add: operator.add, ast.Sub: _whole(operator.sub), ast.Mult: _times,
    ast.FloorDiv: _whole(operator.floordiv), ast.Mod: _whole(operator.mod),
}  # fmt: skip
_UNARY: dict[type, Callable[..., object]] = {ast.USub: operator.neg, ast.Not: operator.not_}
_COMPARE: dict[type, Callable[..., object]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., object]] = {
    "len": len, "abs": abs, "min": min, "max": max, "sum": _sum, "str": str,
}  # fmt: skip
