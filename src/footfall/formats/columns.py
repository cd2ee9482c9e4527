"""Nouns to Arrow columns and back, column by column, driven by their type hints.

A dataclass is a struct, a tuple a list, an optional value a null. A mapping to any JSON is a JSON string with sorted
keys, a mapping to columns an Arrow map with sorted keys, and a prompt a struct of either text or messages; so equal rows
give equal bytes. Working by column keeps it fast: Python touches each value once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from footfall.formats.nouns import Field, Shape, fields_of, shape_of
from footfall.types import Judgement, Message, Node, SearchResult, Step, Unjudged

_MESSAGES = shape_of(tuple[Message, ...])
YOUNGER: dict[type, tuple[str, ...]] = {
    Step: ("author", "observation_ids"),
    Judgement: ("initial", "token_values"),
    Node: ("cost", "pruned"),
    SearchResult: ("decisions", "policy_cost", "judge_cost", "stopped"),
}
"""Fields that version 1 got after its first files were written."""


def arrow_type(shape: Shape) -> pa.DataType:
    """The Arrow type of a shape."""
    plain = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "choice": pa.string(),
        "reason": pa.string(),
        "json": pa.string(),
    }
    if shape.kind in plain:
        return plain[shape.kind]
    if shape.kind == "sequence":
        return pa.list_(arrow_type(shape.inner))
    if shape.kind == "columns":
        return pa.map_(pa.string(), arrow_type(shape.inner))
    if shape.kind == "prompt":
        return pa.struct([pa.field("text", pa.string()), pa.field("messages", arrow_type(_MESSAGES))])
    assert shape.cls is not None
    return pa.struct([pa.field(f.name, arrow_type(f.shape)) for f in fields_of(shape.cls)])


def to_array(shape: Shape, values: Sequence[Any]) -> pa.Array:
    """A column of these values; `None` becomes a null whatever the shape."""
    if shape.kind == "record":
        return _struct(shape, values)
    if shape.kind == "sequence":
        if str in set(map(type, values)):  # which would be a list of its letters
            raise ValueError(f"a text stands where a list belongs: {next(v for v in values if isinstance(v, str))!r}")
        lengths = [None if v is None else len(v) for v in values]
        inner = to_array(shape.inner, [item for v in values if v is not None for item in v])
        return pa.ListArray.from_arrays(_offsets(lengths), inner)
    if shape.kind == "columns":
        return _map(shape, values)
    if shape.kind == "prompt":
        texts = [v if isinstance(v, str) else None for v in values]
        chats = [None if isinstance(v, str) else v for v in values]
        arrays = [pa.array(texts, pa.string()), to_array(_MESSAGES, chats)]
        return pa.StructArray.from_arrays(arrays, ["text", "messages"], mask=_missing(values))
    if shape.kind == "json":
        values = [None if v is None else _json(v) for v in values]
    elif shape.kind == "reason":
        values = [None if v is None else v.stored for v in values]
    elif shape.kind == "choice" and (other := set(values) - {None, *shape.options}):
        raise ValueError(f"{min(other, key=repr)!r} is none of {', '.join(shape.options)}")
    elif shape.kind == "integer" and not set(map(type, values)) <= {int, type(None)}:
        part = [v for v in values if v is not None and v != int(v)]
        if part:  # Arrow would cut it off
            raise ValueError(f"{part[0]!r} stands where a whole number belongs")
    return pa.array(values, arrow_type(shape))


def _struct(shape: Shape, values: Sequence[Any]) -> pa.Array:
    assert shape.cls is not None
    arrays, names = [], []
    missing = sum(v is None for v in values)
    for name, inner, _ in fields_of(shape.cls):
        array = to_array(inner, [None if v is None else getattr(v, name) for v in values])
        if not inner.optional and array.null_count > missing:
            raise ValueError(f"{shape.cls.__name__}.{name} is None in some row")
        arrays.append(array)
        names.append(name)
    return pa.StructArray.from_arrays(arrays, names, mask=_missing(values))


def _map(shape: Shape, values: Sequence[Any]) -> pa.Array:
    pairs = [None if v is None else sorted(v.items()) for v in values]
    flat = [pair for v in pairs if v is not None for pair in v]
    offsets = _offsets([None if v is None else len(v) for v in pairs])
    keys = pa.array([key for key, _ in flat], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, to_array(shape.inner, [column for _, column in flat]))


def _offsets(lengths: Sequence[int | None]) -> pa.Array:
    """Where each list begins; a null offset marks a null list."""
    ends = [0, *accumulate(n or 0 for n in lengths)]
    return pa.array([None if n is None else e for n, e in zip(lengths, ends, strict=False)] + ends[-1:], pa.int32())


def _missing(values: Sequence[Any]) -> pa.Array:
    return pa.array([v is None for v in values], pa.bool_())


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def from_array(shape: Shape, array: pa.Array, name: str = "") -> list[Any]:
    """The values of a column; a null where the shape has no room for one is an error."""
    if array.null_count == 0:
        return _values(shape, array, name)
    if not shape.optional:
        raise ValueError(f"field {name!r} is null in some row")
    present = iter(_values(shape, array.drop_null(), name))
    return [next(present) if valid else None for valid in array.is_valid().to_pylist()]


def _values(shape: Shape, array: pa.Array, name: str) -> list[Any]:
    if shape.kind == "record":
        assert shape.cls is not None
        columns = [_field(shape.cls, f, array, name) for f in fields_of(shape.cls)]
        return [shape.cls(*values) for values in zip(*columns, strict=True)] if len(array) else []
    if shape.kind == "sequence":
        inner = from_array(shape.inner, array.flatten(), f"{name}[]")
        return [shape.make(part) for part in _parts(inner, array.value_lengths().to_pylist())]
    if shape.kind == "columns":
        lengths = [
            end - start
            for start, end in zip(array.offsets[:-1].to_pylist(), array.offsets[1:].to_pylist(), strict=True)
        ]
        first = array.offsets[0].as_py()
        keys = array.keys.slice(first, sum(lengths)).to_pylist()
        items = from_array(shape.inner, array.items.slice(first, sum(lengths)), f"{name}[]")
        return [dict(part) for part in _parts(list(zip(keys, items, strict=True)), lengths)]
    if shape.kind == "prompt":
        texts = array.field("text").to_pylist()
        chats = from_array(Shape("sequence", True, _MESSAGES.item, tuple), array.field("messages"), name)
        return [chat if text is None else text for text, chat in zip(texts, chats, strict=True)]
    if shape.kind == "json":
        found = [json.loads(text) for text in array.to_pylist()]
        if not all(isinstance(value, dict) for value in found):
            raise ValueError(f"field {name!r} is no JSON object in some row")
        return found
    if shape.kind == "reason":
        return [Unjudged.read(text) for text in array.to_pylist()]
    if shape.kind == "choice" and not set(found := array.to_pylist()) <= set(shape.options):
        raise ValueError(f"field {name!r} is none of {', '.join(shape.options)} in some row: {sorted(set(found))[0]!r}")
    return list(array.to_pylist())


def _field(cls: type, field: Field, array: pa.Array, name: str) -> list[Any]:
    """A column of a struct; a field that files of long ago do not have (after a cast: only nulls of) is its default."""
    if field.name in YOUNGER.get(cls, ()):
        at = array.type.get_field_index(field.name)
        if at < 0 or array.field(at).null_count == len(array):
            return [field.default] * len(array)
    return from_array(field.shape, array.field(field.name), f"{name}.{field.name}".lstrip("."))


def _parts(items: list[Any], lengths: list[int]) -> list[list[Any]]:
    ends = [0, *accumulate(lengths)]
    return [items[start:end] for start, end in pairwise(ends)]
