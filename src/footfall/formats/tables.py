"""Records that no line holds: those that a program has in memory, and the rows of another program's Parquet file.

Each is made a line of JSON and read as one, so that what is refused in a file is refused here: NaN, half a surrogate pair.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from footfall.formats.files import BadRecords, fields_of_line
from footfall.formats.parquet import parquet_rows
from footfall.formats.records import Fields, FormatError

IN_MEMORY = "records"
"""What errors call a source that has no name."""


def table_fields(path: str | os.PathLike[str], bad: BadRecords | None = None) -> Iterator[Fields]:
    """The rows of a Parquet file that another program wrote, one by one."""
    return _fields(parquet_rows(path), os.fspath(path), "row", bad)


def memory_fields(source: Any, bad: BadRecords | None = None) -> Iterator[Fields]:
    """The records of a list, of a `datasets.Dataset`, or of a data frame."""
    return _fields(_records(source), IN_MEMORY, "record", bad)


def _records(source: Any) -> Iterable[Any]:
    if hasattr(source, "notna"):  # pandas, which marks missing cells by NaN and goes through the names of its columns
        source = source.astype(object).where(source.notna(), None).to_dict("records")
    for rows in ("to_dicts", "to_pylist"):  # polars and Arrow
        if hasattr(source, rows):
            source = getattr(source, rows)()
    if isinstance(source, Mapping):
        held = ", ".join(map(str, list(source)[:9]))
        fix = "put one record into a list; of a data set with splits name one"
        raise FormatError(IN_MEMORY, "a list of records", got=f"one mapping, with {held}", fix=fix)
    return iter(source)  # type: ignore[no-any-return]


def _fields(records: Iterable[Any], name: str, unit: str, bad: BadRecords | None) -> Iterator[Fields]:
    for number, record in enumerate(records, 1):
        try:
            line = json.dumps(record, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")
            found = fields_of_line(name, number, line)
        except (TypeError, ValueError, RecursionError) as error:
            wrong = FormatError(name, "a record that JSON can hold", line=number, got=str(error), unit=unit)
            wrong = error.at(name, number, unit) if isinstance(error, FormatError) else wrong
            if bad is None:
                raise wrong from error
            bad.append(wrong)
        else:
            yield replace(found, unit=unit)


def _plain(value: Any) -> Any:
    """Arrays and numbers of numpy as lists and numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of the type {type(value).__name__}")
