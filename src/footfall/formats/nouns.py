"""The shape of the nouns, read once from their type hints: for plain JSON, written and read here, and for Parquet's columns.

Fields at their default are left out of the JSON.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from footfall.formats.records import Fields, is_finite, show
from footfall.formats.rows import prompt_json, read_prompt
from footfall.types import Json, Message, Unjudged

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
        """The shape of its items."""
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


T = TypeVar("T")
_EXPECTED = {"text": "a string", "integer": "an integer", "number": "a finite number", "boolean": "true or false"}
_TYPES: dict[str, set[type]] = {"text": {str}, "integer": {int}, "number": {float}, "boolean": {bool}}


def to_plain(value: Any) -> dict[str, Json]:
    """A noun as a JSON object."""
    found = {}
    for name, shape, default in fields_of(type(value)):
        held = getattr(value, name)
        if default is REQUIRED or held != default:
            found[name] = _plain(shape, held)
    return found


def _plain(shape: Shape, value: Any) -> Json:
    if value is None:
        return None
    if shape.kind == "record":
        return to_plain(value)
    if shape.kind == "sequence":
        if shape.inner.kind in _TYPES:
            return list(value)
        return [_plain(shape.inner, item) for item in value]
    if shape.kind == "columns":
        # In Parquet's order: rows that were read from a shard must give the bytes of those that never left this process.
        return {name: _plain(shape.inner, column) for name, column in sorted(value.items())}
    if shape.kind == "prompt":
        return prompt_json(value)
    if shape.kind == "reason":
        return str(value.stored)
    return dict(value) if shape.kind == "json" else value


def from_plain(cls: type[T], fields: Fields, given: Mapping[str, Any] | None = None) -> T:
    """The noun that a JSON object describes; `given` holds what the caller has made of some fields already."""
    ready = given or {}
    known = fields_of(cls)
    refuse_unknown(fields, [name for name, _, _ in known], ready)
    arguments = {}
    for name, shape, default in known:
        if name in ready:
            arguments[name] = ready[name]
        elif name in fields or default is REQUIRED:
            arguments[name] = _value(fields, name, shape, fields.get(name, _EXPECTED.get(shape.kind, "a value")))
    try:
        return cls(**arguments)
    except ValueError as error:
        raise fields.error(None, f"a sound {cls.__name__.lower()}", str(error)) from error


def refuse_unknown(fields: Fields, known: list[str], ready: Mapping[str, Any] | None = None) -> None:
    """A field that nobody reads is a slip of the pen, and slips must not be swallowed."""
    for name in fields.data:
        if name not in known and name not in (ready or {}):
            near = difflib.get_close_matches(name, known, n=1)
            fix = f"rename it{f' to {near[0]}' if near else ''}, or put it into meta"
            raise fields.error(name, f"one of the fields {', '.join(known)}", fix=fix)


def _value(fields: Fields, name: str, shape: Shape, value: Json) -> Any:
    if value is None and shape.optional:
        return None
    if shape.kind in ("choice", "reason"):
        return _word(fields, name, shape, value)
    if shape.kind in _EXPECTED:
        return _scalar(fields, name, shape, value)
    if shape.kind == "prompt":
        return read_prompt(fields, name)
    if shape.kind == "sequence":
        if not isinstance(value, list):
            raise fields.error(name, "a list", show(value))
        if _all_of_kind(shape.inner, value):
            return shape.make(value)
        return shape.make(_value(fields, f"{name}[{i}]", shape.inner, item) for i, item in enumerate(value))
    inside = fields.within(name, value)
    if shape.kind == "record":
        return from_plain(cast(Any, shape.cls), inside)
    if shape.kind == "columns":
        return {key: _value(inside, key, shape.inner, column) for key, column in inside.data.items()}
    return dict(inside.data)


def _all_of_kind(shape: Shape, values: list[Json]) -> bool:
    """Whether a list needs no closer look; thousands of token ids a row make this the fast path."""
    nothing = {type(None)} if shape.optional else set()
    if shape.kind not in _TYPES or not set(map(type, values)) <= _TYPES[shape.kind] | nothing:
        return False
    return shape.kind != "number" or all(v is None or math.isfinite(v) for v in values)  # type: ignore[arg-type]


def _word(fields: Fields, name: str, shape: Shape, value: Json) -> str:
    if not isinstance(value, str):
        raise fields.error(name, "a string", show(value))
    if shape.kind == "reason":
        return Unjudged.read(value)
    if value not in shape.options:
        raise fields.error(name, f"one of {', '.join(shape.options)}", show(value))
    return value


def _scalar(fields: Fields, name: str, shape: Shape, value: Json) -> Any:
    kind = "boolean" if isinstance(value, bool) else shape.kind
    if kind == shape.kind == "number" and isinstance(value, int | float) and is_finite(value):
        return float(value)
    allowed = {"integer": int, "text": str, "boolean": bool}.get(shape.kind)
    if kind != shape.kind or allowed is None or not isinstance(value, allowed):
        raise fields.error(name, _EXPECTED[shape.kind], show(value))
    return value
