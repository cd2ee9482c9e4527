"""Other versions of one line of a program (PRLCoder): mutations that should change what it does, refactorings that should not.

Both are only proposals, made from the syntax tree of the line: what a version is worth is for execution to say. PRLCoder
asks a language model for them; these are the changes that any Python line allows. Nothing is run here.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from footfall.worlds.code.language import is_idle, parse

VariantKind = Literal["original", "mutation", "refactor"]

_OTHER: Mapping[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NEAR: Mapping[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_MIRROR: Mapping[type, type] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq,
}  # fmt: skip
_SECOND = re.compile(r"(elif\b|else\s*:|except\b|finally\s*:)")

Change: TypeAlias = "Callable[[ast.AST], ast.AST]"


class Variant(NamedTuple):
    """A version of line `line` (0-based) of a program, with the line's indentation."""

    line: int
    text: str
    kind: VariantKind


def variants(lines: Sequence[str], line: int) -> list[Variant]:
    """The mutations and refactorings of one line, in a fixed order; none for a blank line, a `def` or half a statement.

    A version that is the line itself but for white space and comments is left out, and none comes twice.
    """
    text = lines[line]
    tree = _statement(text)
    if tree is None or isinstance(tree, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return []
    indent = text[: len(text) - len(text.lstrip())]
    names = _names(lines[:line])
    taken = {normal(text)}
    found: list[Variant] = []
    for kind, changed in _proposals(tree, names):
        new = indent + _spelled(text, changed)
        if normal(new) not in taken and not is_idle(changed):
            taken.add(normal(new))
            found.append(Variant(line, new, kind))
    return found


def normal(text: str) -> str:
    """A line in normal spelling, without white space and comments around it; text that is no Python, only stripped."""
    tree = _statement(text)
    try:
        return text.strip() if tree is None else _spelled(text, tree)
    except RecursionError:  # a sum of a thousand terms can be read, but not written
        return text.strip()


def _statement(text: str) -> ast.stmt | None:
    """The statement on a line; a header gets a body, `elif` is read as `if`. `None` for what is no whole statement."""
    body = text.strip()
    if _SECOND.match(body) and not body.startswith("elif"):
        return None
    body = body.removeprefix("el") if body.startswith("elif") else body
    for source in (body, body + " pass", body + "\n pass"):
        if (module := parse(source)) is not None:
            return module.body[0] if len(module.body) == 1 else None
    return None


def _spelled(text: str, tree: ast.stmt) -> str:
    """The first line of the statement: a header loses the body that it was lent."""
    line = ast.unparse(ast.fix_missing_locations(tree)).split("\n")[0]
    return "el" + line if text.lstrip().startswith("elif") else line


def _names(lines: Sequence[str]) -> list[str]:
    """Names that have a value before the line: parameters and what was assigned."""
    found: dict[str, None] = {}
    for line in lines:
        for node in ast.walk(_statement(line) or ast.Pass()):
            if isinstance(node, ast.arg):
                found[node.arg] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)


def _proposals(tree: ast.stmt, names: Sequence[str]) -> Iterator[tuple[VariantKind, ast.stmt]]:
    for position, node in enumerate(ast.walk(tree)):
        for change in _mutations(node, names):
            yield "mutation", _changed(tree, position, change)
        for change in _refactorings(node):
            yield "refactor", _changed(tree, position, change)


def _changed(tree: ast.stmt, position: int, change: Change) -> ast.stmt:
    """A copy of the tree with the node at `position` (in the order of `ast.walk`) replaced."""
    new = copy.deepcopy(tree)
    old = list(ast.walk(new))[position]
    made = change(old)
    if old is new:
        assert isinstance(made, ast.stmt)
        return made
    for parent in ast.walk(new):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, made)
            elif isinstance(value, list) and any(item is old for item in value):
                setattr(parent, name, [made if item is old else item for item in value])
    return new


def _mutations(node: ast.AST, names: Sequence[str]) -> Iterator[Change]:
    operator = node.ops[0] if isinstance(node, ast.Compare) else getattr(node, "op", None)
    for table in (_OTHER, _NEAR):
        if type(operator) in table:
            yield _operator(table[type(operator)])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda old, value=node.value: ast.Constant(value + 1)  # type: ignore[misc]
        if node.value > 0:
            yield lambda old, value=node.value: ast.Constant(value - 1)  # type: ignore[misc]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant):
        yield lambda old: ast.Constant(0)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for name in names:
            if name != node.id:
                yield lambda old, name=name: ast.Name(name, ast.Load())  # type: ignore[misc]


def _operator(other: type) -> Change:
    def change(node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Compare):
            node.ops = [other(), *node.ops[1:]]
        else:
            node.op = other()  # type: ignore[attr-defined]
        return node

    return change


def _refactorings(node: ast.AST) -> Iterator[Change]:
    """`a + b` as `b + a`, `a < b` as `b > a`, `x += e` as `x = x + e`: the same in most places, which is for tests to say."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        yield lambda old: ast.BinOp(old.right, old.op, old.left)  # type: ignore[attr-defined]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _MIRROR:
        yield _mirrored
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield _spelled_out


def _mirrored(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    return ast.Compare(node.comparators[0], [_MIRROR[type(node.ops[0])]()], [node.left])


def _spelled_out(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    name = node.target.id
    return ast.Assign([ast.Name(name, ast.Store())], ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value))
