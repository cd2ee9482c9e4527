"""Records of benchmarks that compare responses: JSON, JSON lines (gzipped or not), Parquet or Arrow.

Every error names file, line (row) and field. What some data sets store as a JSON string inside JSON is unpacked here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from footfall.formats import Fields, FormatError, iter_fields
from footfall.types import Json, Message, Step

_SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".parquet", ".arrow")


def data_files(data: str | Path) -> list[Path]:
    """The file itself, or all data files below a folder, in order of their names."""
    path = Path(data)
    if path.is_file():
        return [path]
    found = sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES) and p.is_file())
    if not found:
        raise FileNotFoundError(f"{path} is neither a file nor a folder that holds one of *{', *'.join(_SUFFIXES)}")
    return found


def file_revision(paths: Iterable[Path]) -> str:
    """sha256 over names and bytes of the data files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"sha256:{digest.hexdigest()[:16]}"


def records(path: Path) -> Iterator[Fields]:
    """The records of one file, each with its line (or row)."""
    if path.suffix not in (".parquet", ".arrow"):
        yield from iter_fields(path)
        return
    for row, record in enumerate(_table_rows(path), start=1):
        yield Fields(record, str(path), row, unit="row")


def _table_rows(path: Path) -> Iterator[dict[str, Json]]:
    """The rows of a Parquet file, or of an Arrow stream as the Hub's `datasets` keeps them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".parquet":
            batches = pq.ParquetFile(path).iter_batches()
        else:
            batches = iter(pa.ipc.open_stream(pa.memory_map(str(path))))
        for batch in batches:
            yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise FormatError(str(path), "a whole table file", got=str(error).splitlines()[0]) from error


class Names:
    """Ids that stay apart: one that was used before becomes "id~2", "id~3" and so on."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def unique(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._seen:
            number += 1
            name = f"{wanted}~{number}"
        self._seen.add(name)
        return name


def name_of(fields: Fields, field: str = "id") -> str:
    """An id that is text or a whole number."""
    value = fields.get(field, "a string or an integer")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise fields.wrong(field, "a string or an integer")
    return str(value)


def nested(fields: Fields, field: str) -> Json:
    """The field's value; text is read as the JSON that it holds."""
    value = fields.get(field, "a JSON value, or a string that holds one")
    if not isinstance(value, str):
        return value
    try:
        inner: Json = json.loads(value)
    except json.JSONDecodeError as error:
        raise fields.wrong(field, f"a string that holds JSON ({error.msg} at column {error.colno} of it)") from error
    return inner


def objects(fields: Fields, field: str) -> list[Fields]:
    """A list of objects, or a string that holds one; each remembers where it stands."""
    value = nested(fields, field)
    if not isinstance(value, list):
        raise fields.wrong(field, "a list of objects, or a string that holds one as JSON")
    return [fields.within(f"{field}[{i}]", item) for i, item in enumerate(value)]


def messages(fields: Fields, field: str) -> tuple[Message, ...]:
    """A chat: a list of objects with role and content (text)."""
    said = tuple(Message(turn.text("role"), turn.text("content")) for turn in objects(fields, field))
    if not said:
        raise fields.wrong(field, "at least one message")
    return said


def as_text(fields: Fields, field: str) -> str:
    """What a model wrote: text as it is, a call or a list of calls as one line of JSON."""
    value = fields.get(field, "text, an object or a list")
    if isinstance(value, str):
        return value
    if not isinstance(value, list | Mapping):
        raise fields.wrong(field, "text, an object or a list")
    return json.dumps(value, ensure_ascii=False)


def response_steps(text: str) -> tuple[Step, ...]:
    """A response cut at blank lines (not inside display mathematics or fenced code); one step if nothing cuts it."""
    from footfall.segment import blank_lines, split_steps

    return split_steps(text, blank_lines()) or (Step(text),)


def tools_of(fields: Fields, *names: str) -> tuple[Mapping[str, Json], ...]:
    """The tool catalogue under the first of these names that the record has; none if it has none of them."""
    for name in names:
        if fields.data.get(name) is not None:
            return tuple(tool.data for tool in objects(fields, name))
    return ()


def no_records(data: str | Path, what: str) -> FormatError:
    """What to raise about a file or folder without a single record."""
    return FormatError(str(data), f"at least one {what}", got="none")
