"""The tiny Python of the code world, one line at a time: what it says in normal spelling, and what it does.

Statements: `def`, `for`, `while`, `if`, `elif`, `else`, `=`, `+=` and its like, `.append`, `return`, `break`,
`continue`, `pass`; one on a line. Expressions are read into closures over whole numbers, truth values, strings and flat
lists; sizes are bounded, so no program can fill the memory. `ast` only parses; nothing is ever handed to `eval` or `exec`.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

Value: TypeAlias = "bool | int | str | list[bool | int | str]"
Expression: TypeAlias = "Callable[[Env], Value]"

_LARGEST = 10**12
_LONGEST = 500
_LONGEST_LINE = 200
_SECOND = re.compile(r"(elif\b|else\s*:)")
"""Lines that are only half of a statement."""
_COMMENT = re.compile(r"\s*#[^'\"]*$")


class Env(dict[str, Value]):
    """The variables of one call. A name that the function sets anywhere (`local`) is a variable in all of it, so
    `max = max(xs)` fails as in Python.
    """

    __slots__ = ("local",)

    def __init__(self, values: Iterable[tuple[str, Value]], local: frozenset[str]) -> None:
        super().__init__(values)
        self.local = local


class Fault(Exception):
    """The program did something wrong while running: an undefined name, a bad index, a value too large."""


class Unknown(Exception):
    """Not in the tiny language."""


class Line(NamedTuple):
    """A statement by its indentation and its normal spelling: `x+=1` and `x += 1` are the same line."""

    indent: int
    text: str

    @property
    def kind(self) -> str:
        return code_of(self.text).kind


class Code(NamedTuple):
    """What a line does. `target` is the variable that it sets, `first` its expression, `names` a function's parameters."""

    kind: str
    target: str = ""
    first: Expression | None = None
    names: tuple[str, ...] = ()
    span: tuple[Expression, ...] | None = None
    """The bounds of `for … in range(…)`."""


def is_blank(text: str) -> bool:
    """Whether a line does nothing: white space or a comment."""
    return not text.strip() or text.lstrip().startswith("#")


def read_line(text: str) -> Line | None:
    """The line, or `None` if it is not in the tiny language."""
    return _read_line(text) if len(text) <= _LONGEST_LINE else None


@lru_cache(maxsize=1 << 16)
def _read_line(text: str) -> Line | None:
    body = _COMMENT.sub("", text).strip()
    indent = text[: len(text) - len(text.lstrip())]
    if not body or indent.strip(" ") or "\n" in body or "\r" in body:
        return None
    tree = parse_line(body)
    if tree is None or (hasattr(tree, "body") and not body.endswith(":")):
        return None
    spelled = spell_line(body, tree)
    try:
        code_of(spelled)
    except Unknown:
        return None
    return Line(len(indent), spelled)


def parse_line(body: str) -> ast.stmt | None:
    """The statement; a header gets a body, and `elif` and `else` an `if` before them."""
    source = body + " pass" if body.endswith(":") else body
    if _SECOND.match(body):
        source = "if 0: pass\n" + source
    module = parse(source)
    return module.body[0] if module is not None and len(module.body) == 1 else None


def parse(source: str) -> ast.Module | None:
    """The syntax tree of any text, or `None` if it is no Python. Nothing is run, and Python's remarks are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def spell_line(body: str, tree: ast.stmt) -> str:
    """The normal spelling of the line `body`, whose statement is `tree`."""
    lines = ast.unparse(tree).split("\n")
    if not _SECOND.match(body):
        return lines[0]
    return next(line for line in lines if line.startswith(("elif ", "else:")))


def is_idle(tree: ast.stmt) -> bool:
    """`x = x`, or a comparison of something with itself: nobody writes these."""
    pairs = [(node.left, node.comparators[0]) for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    if isinstance(tree, ast.Assign):
        pairs.append((tree.targets[0], tree.value))
    return any(ast.unparse(left) == ast.unparse(right) for left, right in pairs)


@lru_cache(maxsize=1 << 16)
def code_of(text: str) -> Code:
    """What the normally spelled line does; of a header only one without a body of its own may stand on a line."""
    if text == "else:":
        return Code("else")
    match parse_line(text):
        case ast.If(orelse=[ast.If(test=test)]) if text.startswith("elif "):
            return Code("elif", first=read_expression(test))
        case ast.If(test=test, body=[ast.Pass()], orelse=[]):
            return Code("if", first=read_expression(test))
        case ast.While(test=test, body=[ast.Pass()], orelse=[]):
            return Code("while", first=read_expression(test))
        case ast.For(target=ast.Name(id=target), iter=over, body=[ast.Pass()], orelse=[]):
            return _for(target, over)
        case ast.FunctionDef(
            name=name,
            args=ast.arguments(posonlyargs=[], args=given, vararg=None, kwonlyargs=[], kwarg=None, defaults=[]),
            body=[ast.Pass()],
            decorator_list=[],
        ):
            return Code("def", name, names=tuple(argument.arg for argument in given))
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            return Code("assign", target, read_expression(value))
        case ast.AugAssign(target=ast.Name(id=target), op=op, value=value) if type(op) in _BINARY:
            apply = _extended if isinstance(op, ast.Add) else _BINARY[type(op)]
            return Code("augment", target, _binary(apply, _load(target), read_expression(value)))
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=target), attr="append"), args=[item], keywords=[])
        ):
            return Code("append", target, read_expression(item))
        case ast.Return(value=ast.expr() as value):
            return Code("return", first=read_expression(value))
        case ast.Break() | ast.Continue() | ast.Pass() as tree:
            return Code(type(tree).__name__.lower())
    raise Unknown


def _for(target: str, over: ast.expr) -> Code:
    match over:
        case ast.Call(func=ast.Name(id="range"), args=bounds, keywords=keywords):
            if not 1 <= len(bounds) <= 3 or keywords:
                raise Unknown
            return Code("for", target, span=tuple(read_expression(bound) for bound in bounds))
    return Code("for", target, read_expression(over))


def read_expression(tree: ast.expr) -> Expression:
    """A function of the variables; `Unknown` if the tiny language has no such expression."""
    match tree:
        case ast.Constant(value=int() | str() as value) if not _is_large(value):
            return lambda env: value
        case ast.Name(id=name):
            return _load(name)
        case ast.List(elts=elements):
            items = [read_expression(element) for element in elements]
            return lambda env: [flat(item(env)) for item in items]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(_BINARY[type(op)], read_expression(left), read_expression(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            apply, one = _UNARY[type(op)], read_expression(operand)
            return lambda env: _try(apply, one(env))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            apply, one, other = _COMPARE[type(op)], read_expression(left), read_expression(right)
            return lambda env: _try(apply, one(env), other(env))
        case ast.BoolOp(op=op, values=values):
            return _either([read_expression(value) for value in values], stop=isinstance(op, ast.Or))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return _call(name, [read_expression(argument) for argument in arguments])
        case ast.Subscript(value=of, slice=at):
            one, other = read_expression(of), read_expression(at)
            return lambda env: _try(operator.getitem, one(env), other(env))
    raise Unknown


def _load(name: str) -> Expression:
    def load(env: Env) -> Value:
        try:
            return env[name]
        except KeyError:
            raise Fault(f"{name} has no value") from None

    return load


def _binary(apply: Callable[..., object], one: Expression, other: Expression) -> Expression:
    return lambda env: _bounded(_try(apply, one(env), other(env)))


def _call(name: str, arguments: list[Expression]) -> Expression:
    def call(env: Env) -> Value:
        require_function(name, env)
        return _bounded(_try(FUNCTIONS[name], *(argument(env) for argument in arguments)))

    return call


def require_function(name: str, env: Env) -> None:
    """Refuse to call what is a variable of the function that runs."""
    if name in env.local:
        raise Fault(f"{name} is a variable here, no function")


def _try(apply: Callable[..., object], *values: Value) -> Value:
    """What Python's own operation gives; its complaint is a fault of the program."""
    try:
        return cast(Value, apply(*values))
    except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        raise Fault(str(error)) from None


def _bounded(value: Value) -> Value:
    if _is_large(value):
        raise Fault("a value is too large")
    return value


def _either(parts: list[Expression], stop: bool) -> Expression:
    """`or` stops at the first part that is true, `and` at the first that is false."""

    def either(env: Env) -> Value:
        value: Value = False
        for part in parts:
            value = part(env)
            if bool(value) is stop:
                break
        return value

    return either


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


def _extended(left: Value, right: Value) -> object:
    """`left += right`: a list takes the letters of a string one by one."""
    if isinstance(left, list) and isinstance(right, str):
        return [*left, *right]
    return operator.add(left, right)


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
FUNCTIONS: dict[str, Callable[..., object]] = {
    "len": len, "abs": abs, "min": min, "max": max, "sum": _sum, "str": str,
}  # fmt: skip
