"""Parquet files of the nouns: what runs write. The schema's metadata names the kind of row, the version, and a checksum.

Equal rows give equal bytes, so that a resumed run can be compared with an undisturbed one. The checksum is the SHA-256 of the
whole file with zeros in the checksum's own place, so a file that was damaged anywhere is refused, never read as other rows.
Files of version 1 have none and are read unchecked. pyarrow is imported when a file is read or written, not before.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from footfall.formats.atomic import atomic_write
from footfall.formats.files import refuse_lfs_pointer
from footfall.formats.nouns import Shape
from footfall.formats.parquet_pages import Bytes, let_go, refuse_bomb
from footfall.formats.records import FormatError, naming_memory
from footfall.types import Harvest, Judged, Judgement, Problem, SearchResult, Trajectory, Tree

VERSION = 2
KINDS: dict[str, type] = {
    "problem": Problem,
    "trajectory": Trajectory,
    "judgement": Judgement,
    "judged": Judged,
    "search-result": SearchResult,
    "tree": Tree,
    "harvest": Harvest,
}
"""What a file may hold, by the name in its metadata."""

_KIND, _VERSION, _SUM, _KEY = b"footfall.kind", b"footfall.version", b"footfall.sum", b"footfall.key"
_MARK, _DIGITS = b"sha256-", 64
_UNSUMMED = _MARK + b"0" * _DIGITS
_TAIL_BYTES = 1 << 20
_AT_ONCE, _GROUP, _GROUP_BYTES = 1024, 8192, 64 << 20
"""Rows that are made into columns at a time, and rows that lie together in a file, or fewer if they have so many bytes."""
_LARGE, _LARGE_AT_ONCE = ("search-result", "tree", "harvest"), 64
"""Kinds of rows that hold many traces, and how many of those are made into columns at a time."""


_MAPPED_BYTES = 64 << 20
"""Files of more than so many bytes are not read into memory whole, but seen where they lie."""


def write_parquet(path: str | os.PathLike[str], rows: Iterable[Any], kind: str, key: str = "") -> None:
    """Write rows of one kind, whole or not at all. `key` names what they were made from; a reader can ask for it.

    Of many rows few are in memory at a time.
    """
    with atomic_write(path) as stream:
        _write(path, stream, rows, kind, key)


def parquet_bytes(path: str | os.PathLike[str], rows: Iterable[Any], kind: str, key: str = "") -> memoryview:
    """What `write_parquet` writes; errors name `path`."""
    written = io.BytesIO()
    _write(path, written, rows, kind, key)
    return written.getbuffer()


class _Summed(io.RawIOBase):
    """A file that is written from its beginning to its end: the checksum of it, and its last part."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self.stream, self.digest, self.size, self.tail = stream, hashlib.sha256(), 0, b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self.stream.write(part)
        self.digest.update(part)
        self.size += len(part)
        self.tail = (self.tail + part)[-_TAIL_BYTES:]
        return len(part)

    def tell(self) -> int:
        return self.size


def _write(path: str | os.PathLike[str], stream: IO[bytes], rows: Iterable[Any], kind: str, key: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from footfall.formats.columns import arrow_type

    shape = _shape(kind)
    metadata = {_KIND: kind.encode(), _VERSION: str(VERSION).encode(), _SUM: _UNSUMMED}
    metadata |= {_KEY: key.encode()} if key else {}
    schema = pa.schema(list(arrow_type(shape)), metadata=metadata)
    summed = _Summed(stream)
    with pq.ParquetWriter(summed, schema, compression="zstd", data_page_version="1.0") as writer:
        for group in _groups(_tables(path, rows, kind, schema)):
            writer.write_table(pa.concat_tables(group).combine_chunks(), row_group_size=_GROUP)
    place = summed.size - len(summed.tail) + _place_of_sum(memoryview(summed.tail))
    stream.seek(place)
    stream.write(_MARK + summed.digest.hexdigest().encode())
    stream.seek(0, os.SEEK_END)


def _at_once(kind: str) -> int:
    return _LARGE_AT_ONCE if kind in _LARGE else _AT_ONCE


def _groups(tables: Iterable[Any]) -> Iterator[list[Any]]:
    """Tables that are written together."""
    group: list[Any] = []
    for table in tables:
        group.append(table)
        if sum(each.num_rows for each in group) >= _GROUP or sum(each.nbytes for each in group) >= _GROUP_BYTES:
            yield group
            group = []
    if group:
        yield group


def _tables(path: str | os.PathLike[str], rows: Iterable[Any], kind: str, schema: Any) -> Iterator[Any]:
    """The rows as tables of a thousand each, or fewer large ones; one that is empty if there are none."""
    import pyarrow as pa

    from footfall.formats.columns import to_array

    rest, done = iter(rows), 0
    while (part := list(islice(rest, _at_once(kind)))) or not done:
        for number, row in enumerate(part, done + 1):
            if not isinstance(row, KINDS[kind]):
                raise FormatError(str(path), f"a row of kind {kind!r}", line=number, got=type(row).__name__, unit="row")
        try:
            struct = to_array(_shape(kind), part)
            yield pa.Table.from_arrays([struct.field(i) for i in range(struct.type.num_fields)], schema=schema)
        except MemoryError:  # Arrow's is one of its exceptions too; the rows are not to blame
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:
            raise FormatError(str(path), f"sound rows of kind {kind!r}", got=str(error)) from error
        if not part:
            return
        done += len(part)


def _place_of_sum(data: memoryview) -> int:
    """Where the checksum stands: in the file's last part, after all rows."""
    tail = min(len(data), _TAIL_BYTES)
    found = bytes(data[-tail:]).rfind(_MARK)
    return found if found < 0 else len(data) - tail + found


def _intact(data: Bytes) -> bool:
    """Whether the checksum in the file is that of the file."""
    seen = memoryview(data)
    place = _place_of_sum(seen)
    after = place + len(_UNSUMMED)
    if place < 0 or after > len(seen):
        return False
    digest = hashlib.sha256()

    def add(begin: int, end: int) -> None:
        for at in range(begin, end, _MAPPED_BYTES):
            digest.update(seen[at : min(at + _MAPPED_BYTES, end)])
            let_go(data)

    add(0, place)
    digest.update(_UNSUMMED)
    add(after, len(seen))
    return bytes(seen[place:after]) == _MARK + digest.hexdigest().encode()


class DamagedError(FormatError):
    """A file is not what was written, or not what its name says; a newer version or an unreadable disk is not that."""


def set_aside(path: Path, error: DamagedError) -> None:
    """Rename a damaged file, so that what it held is made again and it can still be looked at; the last such one is kept."""
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    warnings.warn(f"{error}. It is now {aside.name}; what it held is made again", stacklevel=2)


def read_parquet(path: str | os.PathLike[str], kind: str, key: str = "") -> list[Any]:
    """The rows of a file of this kind; another kind, a newer version, another `key` and a damaged file are refused."""
    return list(iter_parquet(path, kind, key))


def iter_parquet(path: str | os.PathLike[str], kind: str, key: str = "") -> Iterator[Any]:
    """The same one by one: a thousand rows are in memory, or fewer large ones, and the bytes of a file that is not large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from footfall.formats.columns import YOUNGER, arrow_type, from_array

    shape = _shape(kind)
    data = _checked(str(path), kind, key)
    try:
        with naming_memory(path):
            file = pq.ParquetFile(pa.BufferReader(data))
            there, younger = file.schema_arrow.names, YOUNGER.get(KINDS[kind], ())
            wanted = pa.schema([f for f in arrow_type(shape) if f.name in there or f.name not in younger])
            missing = [name for name in wanted.names if name not in there]
            if missing:
                raise FormatError(str(path), f"the columns of kind {kind!r}", field=missing[0], got="no such column")
            for batch in file.iter_batches(_at_once(kind)):
                table = pa.Table.from_batches([batch]).select(wanted.names).cast(wanted)
                yield from from_array(shape, table.to_struct_array().combine_chunks())
                let_go(data)
    except (pa.ArrowException, ValueError, TypeError, KeyError, RecursionError, OSError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(str(path), f"sound rows of kind {kind!r}", got=str(error)) from error


def read_ids(path: str | os.PathLike[str], kind: str) -> list[str]:
    """The ids of a file's rows, without building the rows; refused where `read_parquet` would refuse the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with naming_memory(path):
            data = pa.BufferReader(_checked(str(path), kind))
            ids: list[str] = pq.read_table(data, columns=["id"], partitioning=None)["id"].to_pylist()
    except (pa.ArrowException, KeyError) as error:
        raise FormatError(str(path), f"rows of kind {kind!r} with ids", got=str(error), fix=_DAMAGED) from error
    return ids


def _bytes_of(path: str) -> Bytes:
    """What the file holds; of a large one, parts are read from the disk when they are looked at."""
    with Path(path).open("rb") as stream:
        if os.fstat(stream.fileno()).st_size <= _MAPPED_BYTES:
            return stream.read()
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _checked(path: str, kind: str, key: str = "") -> Bytes:
    """The bytes of a file, if they are whole and hold what is asked for."""
    _refuse_pipe(path)
    try:
        with naming_memory(path):
            data = _bytes_of(path)
    except OSError as error:
        raise FormatError(path, "a Parquet file", got=str(error)) from error
    found, summed, made_from = _described(path, data)
    if summed and not _intact(data):
        raise DamagedError(
            path, "a file as it was written", got="another checksum: it was damaged or rewritten", fix=_DAMAGED
        )
    if found != kind:
        raise FormatError(path, f"a Parquet file of kind {kind!r}", got=f"kind {found!r}")
    if key and made_from and made_from != key:
        raise DamagedError(path, f"the rows of {key}", got=f"those of {made_from}", fix=_DAMAGED)
    refuse_bomb(path, data)
    let_go(data)
    return data


_DAMAGED = (
    "take it from a copy, or run the command that wrote it again; a file that another program wrote needs no "
    "footfall.sum and footfall.version 1 in its metadata"
)


def parquet_kind(path: str | os.PathLike[str]) -> str:
    """The kind of row a Parquet file holds; an error if the file is none of ours."""
    _refuse_pipe(str(path))
    return _described(str(path))[0]


def _refuse_pipe(path: str) -> None:
    if Path(path).exists() and not Path(path).is_file():
        raise FormatError(path, "a Parquet file", got="a folder, pipe or device")  # whose end may never come


def _described(path: str, data: Bytes | None = None) -> tuple[str, bool, str]:
    """A file's kind, whether it has a checksum, and the key of what it was made from."""
    metadata = _metadata(path, data)
    kind, version, key = (str(metadata.get(name, b""), "utf-8", "replace") for name in (_KIND, _VERSION, _KEY))
    if kind not in KINDS or not version.isdecimal():
        raise FormatError(path, "a Parquet file that Footfall wrote", got="no kind in its metadata")
    if version not in map(str, range(1, VERSION + 1)):
        raise FormatError(path, f"version {VERSION} or older", got=f"version {version[:20]}", fix="update footfall")
    return kind, version != "1" or _SUM in metadata, key


def _metadata(path: str, data: Bytes | None = None) -> dict[bytes, bytes]:
    """What the schema of a file says of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with Path(path).open("rb") as stream:
            refuse_lfs_pointer(path, stream.read(64))
        with naming_memory(path):
            return pq.read_schema(path if data is None else pa.BufferReader(data)).metadata or {}
    except FormatError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raised = FormatError if data is None else DamagedError  # of bytes that were read, the disk is not to blame
        raise raised(path, "a Parquet file", got=str(error).partition("\n")[0]) from error


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether a Parquet file is another program's: nothing in its metadata says that Footfall wrote it."""
    _refuse_pipe(str(path))
    return _KIND not in _metadata(str(path))


def parquet_rows(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The rows of another program's file, column by column name; some hundreds are in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with naming_memory(path):
            data = _bytes_of(os.fspath(path))
            refuse_bomb(os.fspath(path), data)
            for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches(_LARGE_AT_ONCE):
                yield from batch.to_pylist()
                let_go(data)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(os.fspath(path), "sound rows", got=str(error).partition("\n")[0]) from error


def _shape(kind: str) -> Shape:
    if kind not in KINDS:
        raise ValueError(f"no kind of Parquet row is called {kind!r}; there are {', '.join(KINDS)}")
    return Shape("record", cls=KINDS[kind])
