"""The tiny Python of the code world, one line at a time: what it says in normal spelling, and what it does.

Statements: `def`, `for`, `while`, `if`, `elif`, `else`, `=`, `+=` and its like, `.append`, `return`, `break`,
`continue`, `pass`; one on a line. `ast` only parses; nothing is ever handed to `eval` or `exec`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, cast

from footfall.worlds._code_expressions import Expression, Unknown, name_of, read_expression

__all__ = ["Code", "Line", "code_of", "is_blank", "parse", "parse_line", "read_line", "spell_line"]

_LONGEST_LINE = 200
_SECOND = re.compile(r"(elif\b|else\s*:)")
"""Lines that are only half of a statement."""
_COMMENT = re.compile(r"\s*#[^'\"]*$")


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
