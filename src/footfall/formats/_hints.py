"""The shape of the nouns, read once from their type hints; JSON and Parquet are both derived from it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from footfall.types import Message, Unjudged

__all__ = ["REQUIRED", "Field", "Shape", "fields_of", "shape_of"]

Kind = Literal[
    "text", "integer", "number", "boolean", "choice", "reason", "sequence", "record", "json", "columns", "prompt"
]  # fmt: skip
_PLAIN: dict[Any, Kind] = {str: "text", int: "integer", float: "number", bool: "boolean", Unjudged: "reason"}
REQUIRED: Any = object()
"""Stands for the default of a field that has none."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a type hint allows. `columns` is a mapping from names to sequences, `json` a mapping to any JSON, `choice` one of
    the texts of a `Literal`, `reason` an `Unjudged`."""

    kind: Kind
    optional: bool = False
    item: Shape | None = None
    """Of a sequence's items, or of the values of `columns`."""
    cls: type | None = None
    """The class of a record, or `tuple` or `list` for a sequence."""
    options: tuple[str, ...] = ()
    """Of a choice."""

    @property
    def inner(self) -> Shape:
        assert self.item is not None, f"{self.kind} has no items"
        return self.item

    def make(self, values: Any) -> Any:
        """An object of the shape's class."""
        assert self.cls is not None, f"{self.kind} has no class"
        return self.cls(*values) if self.kind == "record" else self.cls(values)


class Field(NamedTuple):
    """A field of a record class."""

    name: str
    shape: Shape
    default: Any


def fields_of(cls: Any) -> tuple[Field, ...]:
    """The fields of a dataclass or named tuple, in order."""
    return _fields_of(cls)


@cache
def _fields_of(cls: Any) -> tuple[Field, ...]:
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        return tuple(Field(f.name, shape_of(hints[f.name]), _default(f)) for f in fields(cls))
    return tuple(Field(name, shape_of(hints[name]), REQUIRED) for name in cls._fields)


def _default(f: Any) -> Any:
    if f.default is not MISSING:
        return f.default
    return REQUIRED if f.default_factory is MISSING else f.default_factory()


def shape_of(hint: Any) -> Shape:
    """The shape that a type hint stands for; an error for hints that the nouns do not use yet."""
    if hint in _PLAIN:
        return Shape(_PLAIN[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(hint, [a for a in arguments if a is not type(None)])
    if origin is Literal:
        return Shape("choice", options=arguments)
    if origin in (tuple, list):
        return Shape("sequence", item=shape_of(arguments[0]), cls=origin)
    if origin is Mapping:
        if get_origin(arguments[1]) is tuple:
            return Shape("columns", item=shape_of(arguments[1]))
        return Shape("json")
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return Shape("record", cls=hint)
    raise TypeError(f"a noun has a field of type {hint}, which no shape describes; add one here")


def _union(hint: Any, options: list[Any]) -> Shape:
    if set(options) == {str, tuple[Message, ...]}:
        return Shape("prompt")
    if len(options) != 1:
        raise TypeError(f"a noun has a field of type {hint}, which no shape describes; add one here")
    inner = shape_of(options[0])
    return Shape(inner.kind, True, inner.item, inner.cls, inner.options)
