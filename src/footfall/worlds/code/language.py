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
Env: TypeAlias = dict[str, Value]
Expression: TypeAlias = Callable[[Env], Value]

_LARGEST = 10**12
_LONGEST = 500
_LONGEST_LINE = 200
_SECOND = re.compile(r"(elif\b|else\s*:)")
"""Lines that are only half of a statement."""
_COMMENT = re.compile(r"\s*#[^'\"]*$")


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


@lru_cache(maxsize=1 << 16)
def read_line(text: str) -> Line | None:
    """The line, or `None` if it is not in the tiny language."""
    body = _COMMENT.sub("", text).strip()
    indent = text[: len(text) - len(text.lstrip())]
    if not body or len(text) > _LONGEST_LINE or indent.strip(" ") or "\n" in body or "\r" in body:
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


@lru_cache(maxsize=1 << 16)
def code_of(text: str) -> Code:
    """What the normally spelled line does."""
    tree = parse_line(text)
    if text == "else:":
        return Code("else")
    if isinstance(tree, ast.If):
        return _conditional(text, tree)
    reader = _READERS.get(type(tree))
    if reader is None or tree is None:
        raise Unknown
    return reader(tree)


def _conditional(text: str, tree: ast.If) -> Code:
    if text.startswith("elif "):
        return Code("elif", first=read_expression(cast(ast.If, tree.orelse[0]).test))
    return Code("if", first=read_expression(_header_only(tree, tree.test)))


def _header_only(tree: ast.If | ast.For | ast.While | ast.FunctionDef, test: ast.expr) -> ast.expr:
    """Only a header without a body of its own may stand on a line."""
    if not (len(tree.body) == 1 and isinstance(tree.body[0], ast.Pass)) or getattr(tree, "orelse", None):
        raise Unknown
    return test


def _definition(tree: ast.stmt) -> Code:
    tree = cast(ast.FunctionDef, tree)
    arguments = tree.args
    plain = not (arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg)
    if arguments.defaults or not plain or tree.decorator_list:
        raise Unknown
    _header_only(tree, ast.Constant(0))
    return Code("def", tree.name, names=tuple(argument.arg for argument in arguments.args))


def _for(tree: ast.stmt) -> Code:
    tree = cast(ast.For, tree)
    over, target = _header_only(tree, tree.iter), name_of(tree.target)
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
        if not 1 <= len(over.args) <= 3 or over.keywords:
            raise Unknown
        return Code("for", target, span=tuple(read_expression(bound) for bound in over.args))
    return Code("for", target, read_expression(over))


def _while(tree: ast.stmt) -> Code:
    tree = cast(ast.While, tree)
    return Code("while", first=read_expression(_header_only(tree, tree.test)))


def _assign(tree: ast.stmt) -> Code:
    tree = cast(ast.Assign, tree)
    if len(tree.targets) != 1:
        raise Unknown
    return Code("assign", name_of(tree.targets[0]), read_expression(tree.value))


def _augment(tree: ast.stmt) -> Code:
    tree = cast(ast.AugAssign, tree)
    target = name_of(tree.target)
    whole = ast.BinOp(ast.Name(target, ast.Load()), tree.op, tree.value)
    return Code("augment", target, read_expression(whole))


def _append(tree: ast.stmt) -> Code:
    call = cast(ast.Expr, tree).value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        raise Unknown
    if len(call.args) != 1 or call.keywords:
        raise Unknown
    return Code("append", name_of(call.func.value), read_expression(call.args[0]))


def _return(tree: ast.stmt) -> Code:
    value = cast(ast.Return, tree).value
    if value is None:
        raise Unknown
    return Code("return", first=read_expression(value))


_READERS: dict[type, Callable[[ast.stmt], Code]] = {
    ast.FunctionDef: _definition, ast.For: _for, ast.While: _while, ast.Assign: _assign, ast.AugAssign: _augment,
    ast.Expr: _append, ast.Return: _return, ast.Break: lambda _: Code("break"),
    ast.Continue: lambda _: Code("continue"), ast.Pass: lambda _: Code("pass"),
}  # fmt: skip


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
