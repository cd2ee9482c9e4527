"""What the loaders of benchmarks share: records of JSON, JSON lines (gzipped or not), Parquet or Arrow, and cases of them.

Every error names file, line (row) and field. What some data sets store as a JSON string inside JSON is unpacked here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from footfall.formats import Fields, FormatError, iter_fields, parse_json, refuse_lfs_pointer
from footfall.formats.records import naming_memory
from footfall.metrics.cases import Case
from footfall.types import Json, Judgement, Message, Problem, Step, Trajectory

_SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".parquet", ".arrow")


class DataSource(NamedTuple):
    """What a command must know of a benchmark's data before it is made."""

    folder: str = ""
    """The name of the folder that its authors ship, where it is not the benchmark's."""
    rows: bool = False
    """Whether rows in memory, such as the traces of a world, can be its data."""
    reader: bool = False
    """Whether its factory takes a `reader` of files in any format; else figures are of all records as they are."""


F = TypeVar("F", bound=Callable[..., Any])
_DECLARED: dict[Callable[..., Any], DataSource] = {}


def data_source(folder: str = "", rows: bool = False, reader: bool = False) -> Callable[[F], F]:
    """Declares the data of a benchmark beside its registration; without it the defaults of `DataSource` hold."""

    def declare(factory: F) -> F:
        _DECLARED[factory] = DataSource(folder, rows, reader)
        return factory

    return declare


def source_of(factory: Callable[..., Any]) -> DataSource:
    """What a benchmark's factory declares of its data."""
    return _DECLARED.get(factory, DataSource())


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

    with path.open("rb") as stream:
        refuse_lfs_pointer(str(path), stream.read(64))
    try:
        with naming_memory(path):
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
        self._last: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many were given out."""
        return len(self._seen)

    def unique(self, wanted: str) -> str:
        name, number = wanted, self._last.get(wanted, 1)
        while name in self._seen:
            number += 1
            name = f"{wanted}~{number}"
        self._last[wanted] = number
        self._seen.add(name)
        return name


Read = Callable[[Fields, Path, Names], Iterable[Case]]
"""The cases of one record of a file."""


def load_cases(data: str | Path, read: Read, what: str) -> tuple[list[Case], str]:
    """The cases of each record of a file or folder, and the data's revision; none at all is an error."""
    cases, revision = file_cases(data_files(data), read)
    if not cases:
        raise no_records(data, what)
    return cases, revision


def file_cases(files: Iterable[Path], read: Read) -> tuple[list[Case], str]:
    """The cases of each record of these files, and the data's revision."""
    paths, names = list(files), Names()
    cases = [case for path in paths for fields in records(path) for case in read(fields, path, names)]
    return cases, file_revision(paths)


def stem(path: Path) -> str:
    """A file's name without its endings, which is a split's name in many data sets."""
    return path.name.partition(".")[0]


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
        return parse_json(value)
    except json.JSONDecodeError as error:
        raise fields.wrong(field, f"a string that holds JSON ({error.msg} at column {error.colno} of it)") from error
    except (ValueError, RecursionError) as error:
        raise fields.wrong(field, f"a string that holds JSON ({type(error).__name__}: {error})") from error


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


def numbered_responses(fields: Fields, field: str, count: int | None = None) -> dict[str, tuple[Step, ...]]:
    """A list of responses in steps, each called "field-number"; one at least, or so many."""
    texts = fields.texts(field)
    if count is not None and len(texts) != count:
        raise fields.error(field, f"{count} responses, one a style", f"{len(texts)}")
    if not texts:
        raise fields.wrong(field, "at least one response")
    return {f"{field}-{i}": response_steps(text) for i, text in enumerate(texts)}


def tools_of(fields: Fields, *names: str) -> tuple[Mapping[str, Json], ...]:
    """The tool catalogue under the first of these names that the record has; none if it has none of them."""
    for name in names:
        if fields.data.get(name) is not None:
            return tuple(tool.data for tool in objects(fields, name))
    return ()


def no_records(data: str | Path, what: str) -> FormatError:
    """What to raise about a file or folder without a single record."""
    return FormatError(str(data), f"at least one {what}", got="none")


_LINES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


def benchmark_files(data: str | Path, names: Sequence[str], benchmark: str) -> dict[str, Path]:
    """The files `name.jsonl`, `name.json` (or gzipped) of a folder by name; a file stands for itself."""
    place = Path(data)
    if place.is_file():
        return {stem(place): place}
    found = {name: path for name in names for suffix in _LINES[::-1] if (path := place / (name + suffix)).is_file()}
    if not found:
        wanted = ", ".join(f"{name}.json" for name in names)
        raise FileNotFoundError(
            f"{place} is neither a file of {benchmark} nor a folder with one of {wanted} (or .jsonl, or gzipped)"
        )
    return found


def first_error_truth(first: int | None, steps: int) -> tuple[float | None, ...]:
    """Right before step `first` (counted from 1), wrong at it, unknown after it; all right if there is none."""
    if first is None:
        return (1.0,) * steps
    return (1.0,) * (first - 1) + (0.0,) + (None,) * (steps - first)


def step_case(
    split: str, name: str, problem: Problem, steps: Sequence[str | Step], truth: Sequence[float | None], judge: str,
    *, group: str = "", correct: bool | None = None, author: str | None = None, separator: str = "\n\n",
    meta: Mapping[str, Json] | None = None,
) -> Case:  # fmt: skip
    """A trajectory with the truth of its steps; `correct` is the truth of the whole and is not told to the judge."""
    made = tuple(Step(step) if isinstance(step, str) else step for step in steps)
    whole = None if correct is None else float(correct)
    trajectory = Trajectory(name, problem, made, author=author, separator=separator, meta=meta or {})
    return Case(split, trajectory, Judgement(name, tuple(truth), judge, value=whole), group)


def counted(number: int, sentence: str) -> tuple[str, ...]:
    """A note that begins with how many rows it is about, if there are any."""
    return (f"{number} {sentence}",) if number else ()


def with_steps(cases: Sequence[Case]) -> tuple[list[Case], tuple[str, ...]]:
    """The cases that have a step, and a note of the others: in a trace without a step there is none to find or to pass."""
    kept = [case for case in cases if case.trajectory.steps]
    return kept, counted(len(cases) - len(kept), "traces have no step and are left out")


def step_number(fields: Fields, field: str, none: str = "N/A") -> int | None:
    """A step counted from 1, given as a number or as text; `None` for what the data writes when there is no error."""
    value = fields.get(field, f"a step number or {none!r}")
    if value == none:
        return None
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise fields.wrong(field, f"a step number counted from 1, or {none!r}")
    return number
