"""Reading files in any registered format: which one it is, row by row, with ids that stay apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from footfall.formats.files import LINE_LIMIT, BadRecords, Source, iter_fields
from footfall.formats.jsonl import unread_steps
from footfall.formats.math_aps import read_tree
from footfall.formats.parquet import parquet_kind, read_parquet
from footfall.formats.records import Fields, FormatError
from footfall.formats.rows import Format
from footfall.images import pinned
from footfall.registry import create, parts
from footfall.types import Judged, Problem, Trajectory, Tree

_LAST = "jsonl"
"""Forgiving, hence asked only when no other format knows the record."""
_NOT_SNIFFED = ("problems", _LAST)


def read(
    source: Source, format: str = "auto", *, line_limit: int = LINE_LIMIT, bad: BadRecords | None = None
) -> list[Judged]:
    """All rows of a file, `-` (standard input) or a binary stream; see `iter_read`."""
    return list(iter_read(source, format, line_limit=line_limit, bad=bad))


def iter_read(
    source: Source, format: str = "auto", *, line_limit: int = LINE_LIMIT, bad: BadRecords | None = None
) -> Iterator[Judged]:
    """The rows of a source, one by one. `auto` knows the format by the first record, Parquet by its first bytes.

    An id that was seen before, for another trace or by the same judge, gets "~2", "~3" and so on: ids are unique in
    the result, but for one trace judged by several judges. A record that cannot be read ends the reading, unless `bad`
    is given: then the error goes there and reading goes on.
    """
    names = _Names()
    if format == "parquet" or (format == "auto" and _is_parquet(source)):
        rows: Iterable[Judged] = _parquet_rows(source)
    else:
        chosen = None if format == "auto" else format_named(format)
        rows = _rows(source, lambda record: chosen or _sniffed(record), line_limit, bad)
    for row in rows:
        yield names.unique(row._replace(trajectory=_pinned_trace(row.trajectory, source)))


def _pinned_trace(trajectory: Trajectory, source: Source) -> Trajectory:
    """The trace with its images named by their content, where they lie beside the file."""
    problem = _pinned_problem(trajectory.problem, source)
    if not any(step.images for step in trajectory.steps):
        return trajectory if problem is trajectory.problem else replace(trajectory, problem=problem)
    steps = tuple(replace(step, images=_pinned(step.images, source)) for step in trajectory.steps)
    return replace(trajectory, problem=problem, steps=steps)


def _pinned_problem(problem: Problem, source: Source) -> Problem:
    return replace(problem, images=_pinned(problem.images, source)) if problem.images else problem


def _pinned(images: Iterable[str], source: Source) -> tuple[str, ...]:
    named = isinstance(source, str | os.PathLike) and source != "-"
    folder = Path(source).parent if named else None  # type: ignore[arg-type]
    try:
        return tuple(pinned(reference, folder) for reference in images)
    except ValueError as error:
        raise FormatError(str(source), "an image", got=str(error)) from error


def _rows(
    source: Source, choose: Callable[[Fields], Format], line_limit: int, bad: BadRecords | None
) -> Iterator[Judged]:
    """The rows of all records, in the format that is chosen by the first of them (the first that one knows)."""
    format: Format | None = None
    for fields in iter_fields(source, line_limit, bad=bad):
        try:
            format = format or choose(fields)
            rows = _read_record(format, fields)
        except FormatError as error:
            if bad is None:
                raise
            bad.append(error)
        else:
            yield from rows


def _read_record(format: Format, fields: Fields) -> list[Judged]:
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
    got = f"the fields {', '.join(fields.data) or '(none)'}"
    if known:
        raise fields.error(
            None, f"one format, but {' and '.join(f.name for f in known)} know it", got, "name the format"
        )
    fix = "name the format"
    if format_named("problems").sniff(fields):
        looks = [f'rename "{name}" to "steps" if it holds the steps' for name in unread_steps(fields)[:1]]
        fix = ", or ".join([fix, *looks, "read the file as problems"])
    raise fields.error(None, f"a record of a known format (tried {', '.join([*names, _LAST])})", got, fix)


class _Names:
    """Keeps the ids of trajectories apart."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, set[str]]] = {}

    def unique(self, row: Judged) -> Judged:
        """The row, with another id if its own was taken."""
        name, number = row.trajectory.id, 1
        judge = row.judgement.judge if row.judgement is not None else ""
        while not self._free(name, row.trajectory.key, judge):
            number += 1
            name = f"{row.trajectory.id}~{number}"
        if number == 1:
            return row
        judgement = row.judgement
        if judgement is not None and judgement.trajectory_id == row.trajectory.id:
            judgement = replace(judgement, trajectory_id=name)
        return Judged(replace(row.trajectory, id=name), judgement)

    def _free(self, name: str, key: str, judge: str) -> bool:
        held, judges = self._seen.setdefault(name, (key, set()))
        if held != key or judge in judges:
            return False
        judges.add(judge)
        return True


def _is_parquet(source: Source) -> bool:
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix == ".parquet":
            return True
        if str(source) != "-" and path.is_file():
            with path.open("rb") as stream:
                return stream.read(4) == b"PAR1"
    return False


def _parquet_rows(source: Source) -> list[Judged]:
    if not isinstance(source, str | os.PathLike) or str(source) == "-":
        raise FormatError(str(getattr(source, "name", source)), "a path to a Parquet file", got="a stream")
    kind = parquet_kind(source)
    if kind == "trajectory":
        return [Judged(trajectory, None) for trajectory in read_parquet(source, kind)]
    if kind == "judged":
        return list(read_parquet(source, kind))
    raise FormatError(os.fspath(source), "trajectories, judged or not", got=f"rows of kind {kind!r}")


def read_problems(source: Source, *, line_limit: int = LINE_LIMIT, bad: BadRecords | None = None) -> list[Problem]:
    """The problems of a file: of a list of problems, of a Parquet file, or those that a file of traces is about.

    A problem that occurs again is taken once; another problem under a known id gets "~2" and so on. `bad` is as in
    `iter_read`.
    """
    if _is_parquet(source):
        path = os.fspath(source)  # type: ignore[arg-type]
        is_problems = parquet_kind(path) == "problem"
        found = (
            read_parquet(path, "problem") if is_problems else [row.trajectory.problem for row in _parquet_rows(path)]
        )
    else:
        found = [row.trajectory.problem for row in _rows(source, _problem_format, line_limit, bad)]
    known: dict[str, Problem] = {}
    for problem in (_pinned_problem(each, source) for each in found):
        name, number = problem.id, 1
        while name in known and known[name] != replace(problem, id=name):
            number += 1
            name = f"{problem.id}~{number}"
        known[name] = replace(problem, id=name)
    return list(known.values())


def _problem_format(fields: Fields) -> Format:
    """As for traces, but that what no format knows is a problem rather than an error."""
    names = [name for name in parts("format") if name not in _NOT_SNIFFED]
    whole = isinstance(fields.data.get("problem"), dict)
    known = (format for format in map(format_named, names) if format.sniff(fields))
    return next(known, None) or format_named(_LAST if whole else "problems")


def read_trees(source: Source, *, line_limit: int = LINE_LIMIT) -> list[Tree]:
    """The trees of a MATH-APS file, or of a Parquet file of trees."""
    if _is_parquet(source):
        return list(read_parquet(os.fspath(source), "tree"))  # type: ignore[arg-type]
    return [read_tree(fields) for fields in iter_fields(source, line_limit)]
