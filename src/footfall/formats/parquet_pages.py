"""A Parquet file that unpacks to far more than it is, a bomb, is refused before memory is taken.

Its footer may lie, so the headers of its pages are read: each says how many values it holds and how many bytes it unpacks to.
A dictionary repeats its entries without them; if they could be too many, the entries and how often each is used are looked at.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

from footfall.formats.records import FormatError, naming_memory

UNPACKED_LIMIT = 256 * 2**20
"""Bytes that any Parquet file may unpack to."""
UNPACKED_TIMES = 200
"""How many times its size a larger one may unpack to."""
VALUES_LIMIT = 4 * 2**20
"""Values, empty ones too, that any file may hold."""
VALUES_A_BYTE = 64
"""How many of them a larger one may hold for each of its bytes."""
_UNPACK_YOURSELF = "if you trust it, write it again without compression and dictionaries"
_DICTIONARY_PAGE = 2
_DELTA_BYTE_ARRAY = 7
"""An encoding in which each text may repeat all of the last one; nobody can tell its length from the headers."""


Bytes = bytes | mmap.mmap
"""What a file holds, in memory or, if it is large, where it lies."""


def let_go(data: Bytes) -> None:
    """Parts of a large file that were looked at need not stay in memory: they are read from the disk when they are again."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


class Page(NamedTuple):
    """What the header of a page says."""

    kind: int
    unpacked: int
    packed: int
    values: int
    encoding: int


def refuse_bomb(path: str, data: Bytes) -> None:
    """Refuse a file whose rows would take more memory than its size allows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with naming_memory(path):
            footer = pq.read_metadata(pa.BufferReader(data))
            unpacked, values, repeated = _counted(path, data, footer)
            most, most_values = (
                max(UNPACKED_LIMIT, UNPACKED_TIMES * len(data)),
                max(VALUES_LIMIT, VALUES_A_BYTE * len(data)),
            )
            if max(values, footer.num_rows) > most_values:
                got = str(max(values, footer.num_rows))
                raise FormatError(
                    path, f"at most {most_values} values in {len(data)} bytes", got=got, fix=_UNPACK_YOURSELF
                )
            _check(path, unpacked, most, len(data))
            if unpacked + sum(repeated.values()) > most:
                _check(path, unpacked + _repeated(data, list(repeated)), most, len(data))
    except (pa.ArrowException, OSError, IndexError) as error:
        raise FormatError(path, "sound pages", got=str(error).partition("\n")[0]) from error


def _counted(path: str, data: Bytes, footer: Any) -> tuple[int, int, dict[str, int]]:
    """The bytes that pages unpack to, the values in them, and the most that each column's dictionaries could repeat."""
    unpacked = values = 0
    repeated: dict[str, int] = {}
    for j in range(footer.num_columns):
        width = max(0, footer.schema.column(j).length)  # of texts of one length, which empty ones have too
        for chunk in (footer.row_group(i).column(j) for i in range(footer.num_row_groups)):
            pages = list(_pages(path, data, chunk))
            held = max(sum(page.values for page in pages if page.kind != _DICTIONARY_PAGE), chunk.num_values)
            unpacked += sum(page.unpacked for page in pages) + held * width
            values += held
            entries = sum(page.unpacked for page in pages if page.kind == _DICTIONARY_PAGE)
            if entries and chunk.physical_type == "BYTE_ARRAY":
                repeated[chunk.path_in_schema] = repeated.get(chunk.path_in_schema, 0) + held * entries
    return unpacked, values, repeated


def _check(path: str, unpacked: int, most: int, size: int) -> None:
    if unpacked > most:
        raise FormatError(
            path, f"at most {most} bytes unpacked from {size}", got=f"{unpacked} (a bomb?)", fix=_UNPACK_YOURSELF
        )


def _repeated(data: Bytes, columns: list[str]) -> int:
    """Bytes of text in these columns with every repetition; read as dictionaries, in which each entry stands once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def lengths(array: Any) -> Iterator[int]:
        if isinstance(array, pa.ChunkedArray):
            for part in array.chunks:
                yield from lengths(part)
        elif isinstance(array, pa.DictionaryArray):
            used = array.indices.value_counts()
            sizes = pa.compute.binary_length(array.dictionary).to_pylist()
            for each in used:
                index = each["values"].as_py()
                yield 0 if index is None else (sizes[index] or 0) * each["counts"].as_py()
        elif pa.types.is_struct(array.type):
            for part in array.flatten():
                yield from lengths(part)
        elif hasattr(array, "values"):
            yield from lengths(array.values)

    # Group by group: pyarrow cannot put the dictionaries of two groups together below a list or struct.
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=columns)
    total = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=columns)
        total += sum(size for column in table.columns for size in lengths(column))
        let_go(data)
    return total


def _pages(path: str, data: Bytes, chunk: Any) -> Iterator[Page]:
    """The pages of a column's chunk, as a reader meets them: up to as many values as the footer says there are."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        at = min(at, chunk.dictionary_page_offset)
    seen = 0
    while seen < chunk.num_values:
        try:
            page, at = _header(memoryview(data), at)
        except (IndexError, ValueError, RecursionError) as error:
            raise FormatError(path, "sound pages", field=chunk.path_in_schema, got="a broken page") from error
        if min(page.packed, page.unpacked, page.values) < 0 or page.encoding == _DELTA_BYTE_ARRAY:
            got = "a page of negative size" if page.encoding != _DELTA_BYTE_ARRAY else "texts written as changes"
            raise FormatError(path, "sound pages", field=chunk.path_in_schema, got=got)
        at += page.packed
        seen += page.values if page.kind != _DICTIONARY_PAGE else 0
        yield page


# A page's header is a Thrift struct in the compact protocol: https://parquet.apache.org/docs/file-format/

_STRUCT, _STOP, _TRUE, _FALSE = 12, 0, 1, 2
_NUMBERS, _BYTE, _DOUBLE, _BINARY, _LISTS = (4, 5, 6), 3, 7, 8, (9, 10)
_COUNTED = {5: 2, 7: 2, 8: 4}
"""The fields in which a page tells its values (data page, dictionary page, data page of version 2), and there its encoding."""


def _header(data: memoryview, at: int) -> tuple[Page, int]:
    if at < 0:
        raise ValueError("before the file")
    found, at = _struct(data, at)
    told = [(found[field], encoding) for field, encoding in _COUNTED.items() if isinstance(found.get(field), dict)]
    values = sum(_int(each, 1) for each, _ in told)
    encoding = max((_int(each, field) for each, field in told), default=0)
    return Page(_int(found, 1), _int(found, 2), _int(found, 3), values, encoding), at


def _int(struct: dict[int, Any], field: int) -> int:
    found = struct.get(field)
    return found if isinstance(found, int) else 0


def _struct(data: memoryview, at: int) -> tuple[dict[int, Any], int]:
    """The numbers and structs of a struct, by field; all else is passed over."""
    found: dict[int, Any] = {}
    field = 0
    while True:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if kind == _STOP:
            return found, at
        if step:
            field += step
        else:
            field, at = _number(data, at)
        found[field], at = (None, at) if kind in (_TRUE, _FALSE) else _value(data, at, kind)


def _value(data: memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        return _number(data, at)
    if kind == _STRUCT:
        return _struct(data, at)
    if kind == _BINARY:
        length, at = _unsigned(data, at)
        return None, at + length
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind not in _LISTS:
        raise ValueError("no such type")
    length, inner = data[at] >> 4, data[at] & 15
    at += 1
    if length == 15:
        length, at = _unsigned(data, at)
    if length > len(data) - at:
        raise ValueError("a list that is longer than the file")
    for _ in range(length):
        _, at = (None, at + 1) if inner in (_TRUE, _FALSE) else _value(data, at, inner)
    return None, at


def _number(data: memoryview, at: int) -> tuple[int, int]:
    found, at = _unsigned(data, at)
    return (found >> 1) ^ -(found & 1), at


def _unsigned(data: memoryview, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    raise ValueError("a number of more than 64 bits")
