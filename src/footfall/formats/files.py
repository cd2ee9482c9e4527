"""JSON records from a file, a pipe or any binary stream (`atomic` has the way out).

Reading is bounded in memory, strict in UTF-8 and in JSON. Lines are read one by one and never beyond a limit, so neither a
100 MB line nor a gzip bomb fills the memory. A file that is one JSON document (an array, or objects spread over lines) is
read whole, up to a limit of its own.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

from footfall.damaged import LFS_POINTER
from footfall.formats.records import Fields, FormatError, show
from footfall.types import Json

Source: TypeAlias = "str | os.PathLike[str] | IO[bytes] | io.RawIOBase"
"""A path, `-` for standard input, or a binary stream."""

LINE_LIMIT = 16 * 2**20
"""Bytes a line may have."""
DOCUMENT_LIMIT = 64 * 2**20
"""Bytes that a file which is one JSON document may have."""

_GZIP = b"\x1f\x8b"
_PACKED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"\xfd7zXZ\0": ("xz", "xz -dc"),
    b"BZh": ("bzip2", "bzip2 -dc"),
    b"PK\x03\x04": ("zip", "unzip -p"),
    _GZIP: ("gzip", "gzip -dc"),  # in another one
}
"""How other packed files begin, their name and what unpacks them."""
_OF_RUNS = ("judged.parquet", "trajectories.parquet", "held_out.parquet")
"""What a run's folder holds of traces."""
_OF_DATA = (".jsonl", ".jsonl.gz", ".parquet")
_CELL = re.compile(r'\s*"?[\w .-]{1,60}"?\s*')
"""Of the first line of a table: a name."""
_LONGEST_NAME = 200
UNPACKED_TIMES = 200
"""How many times its size a gzip file may unpack to, beyond `DOCUMENT_LIMIT`; text is seldom packed to a twentieth."""
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)


class BadRecords(Protocol):
    """Where errors about bad records go, so that reading can go on: a list, say."""

    def append(self, error: FormatError, /) -> None:
        """Take note of a record that could not be read."""
        ...


def iter_fields(
    source: Source,
    line_limit: int = LINE_LIMIT,
    document_limit: int = DOCUMENT_LIMIT,
    bad: BadRecords | None = None,
) -> Iterator[Fields]:
    """The records of `source`, one by one, each with its line.

    With `bad`, a line that is no record goes there and reading goes on; a line beyond the limit and a broken JSON document
    still end it, for nobody can tell where the next record begins.
    """
    with open_source(source) as (path, stream):
        try:
            number, first = _first_line(stream, line_limit)
            refuse_lfs_pointer(path, first)
            _refuse_packed(path, first)
            _refuse_csv(path, number, first)
            if _is_document(path, first):
                yield from _document(path, number, first, stream, document_limit)
            else:
                yield from _lines(path, number, first, stream, line_limit, bad)
        except _BROKEN_GZIP as error:
            raise FormatError(path, "a whole gzip file", got=str(error), fix="copy or download it again") from error
        except OSError as error:  # a failing disk; the system call names no file
            raise _unreadable(path, error) from error


def refuse_lfs_pointer(path: str, start: bytes) -> None:
    """A file begins with this where Git LFS has left its pointer and not the data."""
    if start.startswith(LFS_POINTER):
        fix = "run `git lfs pull` in the clone that it lies in"
        raise FormatError(path, "the data themselves", got="a Git LFS pointer to them", fix=fix)


def _refuse_packed(path: str, first: bytes) -> None:
    """A file that is packed in a way that is not unpacked here is told as what it is, not as text in a wrong encoding."""
    for begin, (name, command) in _PACKED.items():
        if first.startswith(begin):
            fix = f"unpack it first: {command} {shlex.quote(path)} > data.jsonl"
            if path.endswith(".eval"):  # a log of inspect_ai, which has more in it than the samples
                fix = f"take its samples: unzip -p {shlex.quote(path)} 'samples/*' > data.json"
            raise FormatError(path, "JSON lines, as they are or packed once by gzip", got=f"a {name} file", fix=fix)


def _refuse_csv(path: str, number: int, first: bytes) -> None:
    """A table with names in its first line is no JSON; it is told as what it is, with the command that makes lines of it."""
    head = first.decode("utf-8", "replace").strip()
    tabs = "\t" in head
    cells = head.split("\t" if tabs else ",")
    named = path.removesuffix(".gz").endswith((".csv", ".tsv"))
    if head[:1] in ("{", "[") or not (named or (len(cells) > 1 and all(map(_CELL.fullmatch, cells)))):
        return
    delimiter = ", delimiter='\\t'" if tabs else ""
    rows = (
        f"csv.DictReader(open(0, encoding='utf-8-sig', newline=''){delimiter})"  # spreadsheets write a byte order mark
    )
    script = f"import csv, json; [print(json.dumps(row)) for row in {rows}]"
    fix = f'python3 -c "{script}" < {shlex.quote(path)} > data.jsonl'
    got = f"a {'TSV' if tabs else 'CSV'} file whose columns are {show(head)}"
    raise FormatError(path, "JSON, one record a line", line=number, got=got, fix=fix)


@contextmanager
def open_source(source: Source) -> Iterator[tuple[str, _Bytes]]:
    """The name and the (decompressed) bytes of a source. A stream that the caller opened is not closed."""
    if isinstance(source, str) and source == "-":
        yield "<stdin>", _unpacked("<stdin>", sys.stdin.buffer)
    elif isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        with ExitStack() as stack:
            try:
                stream = stack.enter_context(Path(path).open("rb"))
            except OSError as error:
                raise _unreadable(path, error) from error
            yield path, _unpacked(path, stream)
    else:
        name = str(getattr(source, "name", "<stream>"))
        yield name, _unpacked(name, source)


def _unreadable(path: str, error: OSError) -> FormatError:
    folder = Path(path)
    held = [file for name in _OF_RUNS if (file := folder / name).is_file()]
    held += sorted(file for file in folder.glob("*") if file.name.endswith(_OF_DATA))
    fix = f"pass {held[0]}" if held else ""
    if not held and (folder / "dataset_info.json").is_file():
        fix = f"in Python: footfall.read(datasets.load_from_disk({path!r}))"
    return FormatError(path, "a file that can be read", got=error.strerror or type(error).__name__, fix=fix)


class _Bytes(Protocol):
    """What is needed of a stream here; `GzipFile` is not an `IO[bytes]` to the type checker."""

    def read(self, size: int = ..., /) -> bytes: ...
    def readline(self, size: int = ..., /) -> bytes: ...


class _Raw(io.RawIOBase):
    """Any object with `read` as a raw stream, so that it can be buffered and peeked into."""

    def __init__(self, stream: IO[bytes] | io.RawIOBase) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        if not isinstance(data, bytes):
            raise TypeError("the source is a text stream; open it in binary mode")
        buffer[: len(data)] = data
        return len(data)


class _Packed:
    """Gzip data, with a count of what was read of it."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data

    def seek(self, place: int, /) -> object:
        raise io.UnsupportedOperation("gzip data are read once")


class _Unpacked:
    """What gzip data unpack to, as long as they are no bomb."""

    def __init__(self, path: str, stream: io.BufferedReader) -> None:
        self._path, self._packed, self._count = path, _Packed(stream), 0
        self._stream = gzip.GzipFile(fileobj=self._packed, mode="rb")

    def read(self, size: int = -1, /) -> bytes:
        return self._checked(self._stream.read(size))

    def readline(self, size: int = -1, /) -> bytes:
        return self._checked(self._stream.readline(size))

    def _checked(self, data: bytes) -> bytes:
        self._count += len(data)
        if self._count > DOCUMENT_LIMIT and self._count > UNPACKED_TIMES * self._packed.count:
            raise FormatError(
                self._path, f"gzip that unpacks to at most {UNPACKED_TIMES} times its size", got="more",
                fix="unpack it yourself if you trust it",
            )  # fmt: skip
        return data


def _unpacked(path: str, stream: IO[bytes] | io.RawIOBase) -> _Bytes:
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_Raw(stream))
    try:
        packed = buffered.peek(2)[:2] == _GZIP
    except OSError as error:
        raise _unreadable(path, error) from error
    return _Unpacked(path, buffered) if packed else buffered


def _first_line(stream: _Bytes, limit: int) -> tuple[int, bytes]:
    """The first line that is not blank, and its number."""
    number = 1
    line = stream.readline(limit + 1).removeprefix(b"\xef\xbb\xbf")
    while line and not line.strip():
        number += 1
        line = stream.readline(limit + 1)
    return number, line


def _is_document(path: str, first: bytes) -> bool:
    start = first.strip()
    return start.startswith(b"[") or start == b"{" or path.removesuffix(".gz").endswith(".json")


def _lines(path: str, number: int, line: bytes, stream: _Bytes, limit: int, bad: BadRecords | None) -> Iterator[Fields]:
    while line:
        if len(line) > limit:
            raise FormatError(
                path, f"at most {limit} bytes in a line", line=number, got="more",
                fix="one record a line, or raise the limit",
            )  # fmt: skip
        if line.strip():
            try:
                found = fields_of_line(path, number, line)
            except FormatError as error:
                if bad is None:
                    raise
                bad.append(error)
            else:
                yield found
        number += 1
        line = stream.readline(limit + 1)


def fields_of_line(path: str, number: int, line: bytes) -> Fields:
    """The record that a line of JSON is."""
    text = _text(path, number, line)
    value, end = _parse(path, number, text, len(text) - len(text.lstrip()), _Care.of(text))
    if text[end:].strip():
        raise FormatError(path, "one JSON object in a line", line=number, got=f"also {show(text[end:].strip())}")
    return _object(path, number, value)


def _document(path: str, number: int, first: bytes, stream: _Bytes, limit: int) -> Iterator[Fields]:
    """The elements of top-level arrays and the top-level objects of a file, with the line each begins at."""
    data = first + stream.read(max(0, limit + 1 - len(first)))
    if len(data) > limit:
        raise FormatError(
            path, f"at most {limit} bytes in a JSON document", line=number, got="more",
            fix="write one record a line, in a file whose name ends in .jsonl",
        )  # fmt: skip
    text = _text(path, number, data)
    care = _Care.of(text)
    at = counted = 0
    inside, after_value = False, False
    while at < len(text):
        sign = text[at]
        if sign in " \t\r\n":
            at += 1
        elif not inside and sign == "[":
            inside, after_value, at = True, False, at + 1
        elif inside and sign == "]":
            inside, at = False, at + 1
        elif inside and after_value and sign == ",":
            after_value, at = False, at + 1
        else:
            number, counted = number + text.count("\n", counted, at), at
            if inside and after_value:
                raise FormatError(path, "a comma between two records", line=number, got=show(text[at : at + 20]))
            value, at = _parse(path, number, text, at, care)
            after_value = True
            yield _object(path, number, value)
    if inside:
        raise FormatError(
            path, "a closing ]", line=number + text.count("\n", counted), got="the end of the file (truncated)"
        )


def _text(path: str, number: int, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = number + data.count(b"\n", 0, error.start)
        raise FormatError(
            path, "UTF-8 text", line=line, got=f"byte 0x{data[error.start]:02x}", fix="convert the file to UTF-8"
        ) from error


class _Duplicate(ValueError):
    """A JSON object holds one name twice."""


class _NotFinite(ValueError):
    """A JSON number is NaN or infinite."""


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _Duplicate(next(name for name, count in counts.items() if count > 1))
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _NotFinite(text)
    return value


def _refuse(text: str) -> float:
    raise _NotFinite(text)


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_WARY = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
_EXPONENTS = (re.compile(r"e\+?\d{3}"), re.compile(r"E\+?\d{3}"))
"""In practice only such numbers exceed 1.8e308; looking at each number of every line would double the time."""
_LAX = json.JSONDecoder()


class _Care(NamedTuple):
    """How closely a text must be looked at; found out once a text, as a document has many records."""

    decoder: json.JSONDecoder
    surrogates: bool

    @classmethod
    def of(cls, text: str) -> _Care:
        wary = any(exponent.search(text) for exponent in _EXPONENTS)
        return cls(_WARY if wary else _STRICT, "\\ud" in text or "\\uD" in text)


def _parse(path: str, number: int, text: str, at: int, care: _Care) -> tuple[Json, int]:
    """The JSON value that begins at `at`, and where it ends."""
    try:
        value, end = care.decoder.raw_decode(text, at)
        if care.surrogates:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value, end
    except _Duplicate as error:
        raise FormatError(path, "each field once", line=number, field=str(error), got="it twice") from error
    except _NotFinite as error:
        field = _find_not_finite(_LAX.raw_decode(text, at)[0])
        raise FormatError(
            path, "a finite number", line=number, field=field, got=str(error), fix="write null for a missing value"
        ) from error
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or "Unterminated" in error.msg
        got = "JSON that ends too early (truncated)" if cut else f"{error.msg} at column {error.colno}"
        line = number + text.count("\n", at, error.pos) if not cut else number
        raise FormatError(path, "one whole JSON object", line=line, got=got) from error
    except RecursionError as error:
        raise FormatError(path, "JSON that is not nested so deep", line=number, got="too many levels") from error
    except UnicodeEncodeError as error:
        raise FormatError(path, "valid Unicode text", line=number, got="half of a surrogate pair") from error
    except ValueError as error:
        raise FormatError(path, "numbers of a usual length", line=number, got=str(error)) from error


def parse_json(text: str) -> Json:
    """The value of a JSON text inside a record, read as strictly as files: a `ValueError` or `RecursionError` if it is none."""
    value: Json = _WARY.decode(text)
    return value


def _find_not_finite(value: Json) -> str | None:
    """The dotted name of the first NaN or infinity; `None` if it is too deep for one."""
    waiting: list[tuple[str, Json]] = [("", value)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return at if len(at) < _LONGEST_NAME else None
        if isinstance(value, dict):
            inner = [(f"{at}.{name}" if at else name, item) for name, item in value.items()]
        else:
            inner = [(f"{at}[{i}]", item) for i, item in enumerate(value)] if isinstance(value, list) else []
        waiting += ((name[:_LONGEST_NAME], item) for name, item in reversed(inner))
    return None


def _object(path: str, number: int, value: Json) -> Fields:
    if not isinstance(value, dict):
        raise FormatError(path, "a JSON object", line=number, got=show(value))
    return Fields(value, path, number)
