"""Reading files in any registered format: which one it is, row by row, with ids that stay apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from footfall.formats.atomic import naming_file
from footfall.formats.files import LINE_LIMIT, BadRecords, Source, iter_fields
from footfall.formats.ids import Ids
from footfall.formats.jsonl import unread_steps
from footfall.formats.math_aps import read_tree
from footfall.formats.nouns import to_plain
from footfall.formats.parquet import is_foreign, iter_parquet, parquet_kind, read_parquet
from footfall.formats.problems import PROMPTS
from footfall.formats.records import MEND_IMAGE, SOUND_IMAGE, Fields, FormatError
from footfall.formats.renaming import check_names, keeping, problem_suggestion, renamed, suggestion
from footfall.formats.rows import Format
from footfall.formats.solutions import Solutions
from footfall.formats.tables import memory_fields, table_fields
from footfall.hashing import pinned
from footfall.registry import create, parts
from footfall.terminal import one_line
from footfall.types import Judged, Problem, Trajectory, Tree, content_key, image_name

Data: TypeAlias = "Source | Iterable[Any]"
"""A source, or records in memory: a list of dicts, a `datasets.Dataset`, a data frame."""

_LAST = "jsonl"
"""Forgiving, hence asked only when no other format knows the record."""
_NOT_SNIFFED = ("problems", _LAST)


def read(
    source: Data,
    format: str = "auto",
    *,
    line_limit: int = LINE_LIMIT,
    bad: BadRecords | None = None,
    solutions: Solutions | None = None,
    names: Mapping[str, str] | None = None,
) -> list[Judged]:
    """All rows of a file, `-` (standard input), a binary stream or records in memory; see `iter_read`."""
    return list(iter_read(source, format, line_limit=line_limit, bad=bad, solutions=solutions, names=names))


def iter_read(
    source: Data,
    format: str = "auto",
    *,
    line_limit: int = LINE_LIMIT,
    bad: BadRecords | None = None,
    solutions: Solutions | None = None,
    names: Mapping[str, str] | None = None,
) -> Iterator[Judged]:
    """The rows of a source, one by one. `auto` knows the format by the first record, Parquet by its first bytes.

    A source may be records in memory: a list of dicts, a `datasets.Dataset`, a data frame.

    An id that was seen before, for another trace or by the same judge, gets "~2", "~3" and so on: ids are unique in
    the result, but for one trace judged by several judges. A record that cannot be read ends the reading, unless `bad`
    is given: then the error goes there and reading goes on. `solutions` cuts solutions that are one text into steps;
    `names` says which fields hold what, e.g. `{"problem": "question_text", "steps": "cot"}`.
    """
    ids = Ids()
    if (format == "parquet" or (format == "auto" and _is_parquet(source))) and not _is_table(source):
        _refuse_names(source, names)
        rows = _parquet_rows(source, bad)
    else:
        chosen = None if format in ("auto", "parquet") else format_named(format)
        rows = _rows(source, lambda record: chosen or _sniffed(record), line_limit, bad, solutions, names)
    for row in rows:
        yield ids.unique(row)


def _pin(source: Data) -> Callable[[str], str]:
    """Names the images that lie beside the file by their content."""
    named = isinstance(source, str | os.PathLike) and source != "-"
    return partial(pinned, folder=Path(source).parent if named else None)  # type: ignore[arg-type]


def _rows(
    source: Data,
    choose: Callable[[Fields], Format],
    line_limit: int,
    bad: BadRecords | None,
    solutions: Solutions | None = None,
    names: Mapping[str, str] | None = None,
) -> Iterator[Judged]:
    """The rows of all records, in the format that is chosen by the first of them that can be read."""
    format: Format | None = None
    pin, signs = _pin(source), dict[bool, int]()
    check_names(names or {})
    for record in iter_records(source, line_limit, bad):
        try:
            fields, displaced = renamed(record, names or {})
            candidate = format or choose(fields)
            rows = read_record(candidate, replace(fields, pin=pin, solutions=solutions, signs=signs))
        except FormatError as error:
            if bad is None:
                raise
            bad.append(error)
        else:
            format = candidate
            yield from (keeping(row, displaced) for row in rows)


def iter_records(source: Data, line_limit: int = LINE_LIMIT, bad: BadRecords | None = None) -> Iterator[Fields]:
    """The records of lines, of a table, or of what a program has in memory."""
    if isinstance(source, str | os.PathLike):
        return table_fields(source, bad) if _is_table(source) else iter_fields(source, line_limit, bad=bad)
    if hasattr(source, "read"):
        return iter_fields(cast(Source, source), line_limit, bad=bad)
    return memory_fields(source, bad)


def _is_table(source: Data) -> bool:
    """Whether a source is a Parquet file that another program wrote."""
    return isinstance(source, str | os.PathLike) and _is_parquet(source) and is_foreign(source)


def _refuse_names(source: Data, names: Mapping[str, str] | None) -> None:
    if names:
        raise ValueError(f"{source}: a Parquet file of Footfall has fields of its own, so --map means nothing for it")


def read_record(format: Format, fields: Fields) -> list[Judged]:
    """The rows of one record in this format."""
    try:
        return format.read(fields)
    except RecursionError as error:
        raise fields.error(None, "a record that is not nested so deep", "too many levels") from error


def format_named(name: str) -> Format:
    """The registered format of this name."""
    made = create("format", name)
    assert isinstance(made, Format), f"the format {name!r} is registered with something else"
    return made


def _sniffed(fields: Fields) -> Format:
    names = [name for name in parts("format") if name not in _NOT_SNIFFED]
    known = [format for format in map(format_named, names) if format.sniff(fields)]
    last = format_named(_LAST)
    if not known and last.sniff(fields):
        return last
    if len(known) == 1:
        return known[0]
    got = fields.held()
    if known:
        raise fields.error(
            None, f"one format, but {' and '.join(f.name for f in known)} know it", got, "name the format"
        )
    looks = [f'rename "{name}" to "steps" if it holds the steps' for name in unread_steps(fields)[:1]]
    maps = [f"pass {found}"] if (found := suggestion(fields)) else []
    problems = ["read the file as problems"] if format_named("problems").sniff(fields) else []
    inside = next((name for name, value in fields.data.items() if _holds_records(value)), None)
    deeper = [f'write what "{inside}" holds, one record a line'] if inside else []
    fix = ", or ".join(["name the format", *looks, *maps, *deeper, *problems])
    raise fields.error(None, f"a record of a known format (tried {', '.join([*names, _LAST])})", got, fix)


def _holds_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) and "role" not in v for v in value)


def _is_parquet(source: Data) -> bool:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix == ".parquet":
            return True
        if str(source) != "-" and path.is_file():
            with naming_file(path), path.open("rb") as stream:
                return stream.read(4) == b"PAR1"
    return False


def _parquet_rows(source: Data, bad: BadRecords | None, problems: bool = False) -> Iterator[Judged]:
    """The rows of a Parquet file with their images pinned; with `problems`, a problem is a trajectory without steps."""
    if not isinstance(source, str | os.PathLike) or str(source) == "-":
        raise FormatError(str(getattr(source, "name", source)), "a path to a Parquet file", got="a stream")
    kind = parquet_kind(source)
    if kind == "judged":
        rows: Iterator[Judged] = iter_parquet(source, kind)
    elif kind == "trajectory":
        rows = (Judged(trajectory, None) for trajectory in iter_parquet(source, kind))
    elif kind == "problem" and problems:
        rows = (Judged(Trajectory(problem.id, problem), None) for problem in iter_parquet(source, kind))
    else:
        raise FormatError(os.fspath(source), "trajectories, judged or not", got=f"rows of kind {kind!r}")
    pin = _pin(source)
    for number, row in enumerate(rows, 1):
        try:
            found = row._replace(trajectory=_pinned_trace(row.trajectory, pin))
        except ValueError as error:
            wrong = FormatError(os.fspath(source), SOUND_IMAGE, line=number, got=str(error), fix=MEND_IMAGE, unit="row")
            if bad is None:
                raise wrong from error
            bad.append(wrong)
        else:
            yield found


def _pinned_trace(trajectory: Trajectory, pin: Callable[[str], str]) -> Trajectory:
    """A stored trace, whose ids are given, with its images named by their content."""
    problem = trajectory.problem
    if problem.images:
        trajectory = replace(trajectory, problem=replace(problem, images=tuple(map(pin, problem.images))))
    if any(step.images for step in trajectory.steps):
        steps = tuple(replace(step, images=tuple(map(pin, step.images))) for step in trajectory.steps)
        trajectory = replace(trajectory, steps=steps)
    return trajectory


def read_problems(
    source: Data,
    *,
    line_limit: int = LINE_LIMIT,
    bad: BadRecords | None = None,
    names: Mapping[str, str] | None = None,
) -> list[Problem]:
    """All problems of a file, `-` (standard input) or a binary stream; see `iter_problems`."""
    return list(iter_problems(source, line_limit=line_limit, bad=bad, names=names))


def iter_problems(
    source: Data,
    *,
    line_limit: int = LINE_LIMIT,
    bad: BadRecords | None = None,
    names: Mapping[str, str] | None = None,
) -> Iterator[Problem]:
    """The problems of a file, one by one: of a list of problems, of a Parquet file, or those that a file of traces is about.

    A problem that occurs again is taken once; another problem under a known id gets "~2" and so on. `bad` and `names` are as
    in `iter_read`.
    """
    if _is_parquet(source) and not _is_table(source):
        _refuse_names(source, names)
        rows = _parquet_rows(source, bad, True)
    else:
        rows = _rows(source, _problem_format, line_limit, bad, names=names)
    ids = Ids()
    for problem in (row.trajectory.problem for row in rows):
        name = ids.new(problem.id, _content(problem))
        if name is not None:
            yield replace(problem, id=name)


def _content(problem: Problem) -> str:
    """What the problem holds, with its images by name: two paths to one picture make no two problems."""
    try:
        return content_key(to_plain(replace(problem, id="", images=tuple(map(image_name, problem.images)))))
    except RecursionError as error:
        raise ValueError(f"problem {one_line(problem.id, 60)!r}: its fields are nested too deep") from error


def _problem_format(fields: Fields) -> Format:
    """As for traces, but that what no format knows is a problem if it has a prompt."""
    names = [name for name in parts("format") if name not in _NOT_SNIFFED]
    whole = isinstance(fields.data.get("problem"), dict)
    known = next((format for format in map(format_named, names) if format.sniff(fields)), None)
    last = format_named(_LAST if whole else "problems")
    if known is None and not whole and not last.sniff(fields):
        fix = f"pass {problem_suggestion(fields) or '--map problem=FIELD, the field that holds it'}"
        raise fields.error(None, f"a problem, under one of the names {', '.join(PROMPTS)}", fields.held(), fix)
    return known or last


def read_trees(source: Source, *, line_limit: int = LINE_LIMIT) -> list[Tree]:
    """The trees of a MATH-APS file, or of a Parquet file of trees."""
    if _is_parquet(source):
        return list(read_parquet(os.fspath(source), "tree"))  # type: ignore[arg-type]
    return [read_tree(fields) for fields in iter_fields(source, line_limit)]
