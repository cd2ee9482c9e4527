"""Parquet files of the nouns: what runs write. The schema's metadata names the kind of row and the version.

Equal rows give equal bytes, so that a resumed run can be compared with an undisturbed one. pyarrow is imported when a
file is read or written, not before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from footfall.formats.files import atomic_write, refuse_lfs_pointer
from footfall.formats.nouns import Shape
from footfall.formats.records import FormatError
from footfall.types import Judged, Judgement, Problem, SearchResult, Trajectory, Tree

VERSION = 1
KINDS: dict[str, type] = {
    "problem": Problem,
    "trajectory": Trajectory,
    "judgement": Judgement,
    "judged": Judged,
    "search-result": SearchResult,
    "tree": Tree,
}
"""What a file may hold, by the name in its metadata."""

_KIND, _VERSION = b"footfall.kind", b"footfall.version"


def write_parquet(path: str | os.PathLike[str], rows: Sequence[Any], kind: str) -> None:
    """Write rows of one kind, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from footfall.formats.columns import arrow_type, to_array

    shape = _shape(kind)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, KINDS[kind]):
            raise FormatError(str(path), f"a row of kind {kind!r}", line=number, got=type(row).__name__, unit="row")
    try:
        struct = to_array(shape, rows)
        metadata = {_KIND: kind.encode(), _VERSION: str(VERSION).encode()}
        schema = pa.schema(list(arrow_type(shape)), metadata=metadata)
        table = pa.Table.from_arrays([struct.field(i) for i in range(struct.type.num_fields)], schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
        raise FormatError(str(path), f"sound rows of kind {kind!r}", got=str(error)) from error
    with atomic_write(path) as stream:
        pq.write_table(table, stream, compression="zstd", row_group_size=65536, data_page_version="1.0")


def read_parquet(path: str | os.PathLike[str], kind: str) -> list[Any]:
    """The rows of a file of this kind; a file of another kind or of a newer version is refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from footfall.formats.columns import YOUNGER, arrow_type, from_array

    shape = _shape(kind)
    found = parquet_kind(path)
    if found != kind:
        raise FormatError(str(path), f"a Parquet file of kind {kind!r}", got=f"kind {found!r}")
    try:
        table = pq.read_table(path, memory_map=False, partitioning=None)
        younger = YOUNGER.get(KINDS[kind], ())
        wanted = pa.schema([f for f in arrow_type(shape) if f.name in table.schema.names or f.name not in younger])
        missing = [name for name in wanted.names if name not in table.schema.names]
        if missing:
            raise FormatError(str(path), f"the columns of kind {kind!r}", field=missing[0], got="no such column")
        struct = table.select(wanted.names).cast(wanted).to_struct_array()
        array = struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct
        rows: list[Any] = from_array(shape, array)
    except (pa.ArrowException, ValueError, TypeError, KeyError, RecursionError, OSError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(str(path), f"sound rows of kind {kind!r}", got=str(error)) from error
    return rows


def parquet_kind(path: str | os.PathLike[str]) -> str:
    """The kind of row a Parquet file holds; an error if the file is none of ours."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with Path(path).open("rb") as stream:
            refuse_lfs_pointer(str(path), stream.read(64))
        metadata = pq.read_schema(path).metadata or {}
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(str(path), "a Parquet file", got=str(error).partition("\n")[0]) from error
    kind, version = (str(metadata.get(name, b""), "utf-8", "replace") for name in (_KIND, _VERSION))
    if kind not in KINDS or not version.isdigit():
        fix = "convert it to JSON lines first"
        raise FormatError(str(path), "a Parquet file that Footfall wrote", got="no kind in its metadata", fix=fix)
    if int(version) > VERSION:
        fix = "update footfall"
        raise FormatError(str(path), f"version {VERSION} or older", got=f"version {version}", fix=fix)
    return kind


def _shape(kind: str) -> Shape:
    if kind not in KINDS:
        raise ValueError(f"no kind of Parquet row is called {kind!r}; there are {', '.join(KINDS)}")
    return Shape("record", cls=KINDS[kind])
