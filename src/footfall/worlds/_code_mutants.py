"""Plausible wrong versions of one line of a program, by the kind of mistake."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, cast

from footfall.worlds._code_language import Line, code_of, parse_line, read_line, spell_line

__all__ = ["KINDS", "Kind", "is_update", "mutants"]

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
            if new is not None and new != line and not _is_idle(changed):
                found[new] = None
    return list(found)


def _is_idle(tree: ast.stmt) -> bool:
    """`x = x`, or a comparison of something with itself: nobody writes these."""
    pairs = [(node.left, node.comparators[0]) for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    if isinstance(tree, ast.Assign):
        pairs.append((tree.targets[0], tree.value))
    return any(ast.unparse(left) == ast.unparse(right) for left, right in pairs)


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
