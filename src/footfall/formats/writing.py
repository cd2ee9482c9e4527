"""Writing files in any registered format: wholly or not at all, and never with something silently left out."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import IO, Any

from footfall.formats.atomic import atomic_write, sweep
from footfall.formats.files import LINE_LIMIT
from footfall.formats.math_aps import tree_record
from footfall.formats.parquet import write_parquet
from footfall.formats.reading import format_named
from footfall.formats.records import Fields, FormatError
from footfall.formats.rows import Format, Written, unwritable
from footfall.types import Judged, Message, Tree


def write(
    path: str | os.PathLike[str],
    rows: Iterable[Judged],
    format: str,
    *,
    threshold: float | None = None,
    drop: Collection[str] = (),
) -> None:
    """Write rows to a file (`.gz` compresses), whole or not at all.

    What the format cannot hold is an error that names the row and the field, unless the field is named in `drop` (for
    example "judgement.aspects" or "step.token_ids"; "judgement" writes the traces alone). With `threshold`, values become hard:
    1[value >= threshold].
    """
    sweep(Path(path))
    given = _given(rows, threshold, drop)
    if format == "parquet":
        write_parquet(path, given, "judged")
        return
    with ExitStack() as stack:
        stream = _opened(stack, path)
        for line in _lines(os.fspath(path), given, format_named(format), drop):
            stream.write(line)


def records(
    rows: Iterable[Judged], format: str, *, threshold: float | None = None, drop: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The records that `write` would write, for `datasets.Dataset.from_list` or a data frame."""
    lines = _lines("records", _given(rows, threshold, drop), format_named(format), drop)
    return [json.loads(line) for line in lines]


def _given(rows: Iterable[Judged], threshold: float | None, drop: Collection[str]) -> Iterable[Judged]:
    given = rows if threshold is None else (hardened(row, threshold) for row in rows)
    return (row._replace(judgement=None) for row in given) if "judgement" in drop else given


def _lines(name: str, rows: Iterable[Judged], chosen: Format, drop: Collection[str]) -> Iterator[bytes]:
    """The lines of the rows, of which none loses anything; errors name the row."""
    done = 0
    written = chosen.write(rows)
    while True:
        try:
            item = next(written, None)
            if item is None:
                return
            line = _line(item)
            _refuse_loss(item, line, chosen, drop)
        except FormatError as error:
            raise error.at(name, done + 1, "row") from error
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(name, "rows that JSON can hold", line=done + 1, got=str(error), unit="row") from error
        done += len(item.rows)
        yield line


def write_trees(path: str | os.PathLike[str], trees: Iterable[Tree]) -> None:
    """Write trees as nested MATH-APS records, which hold texts and values only."""
    with ExitStack() as stack:
        stream = _opened(stack, path)
        for number, tree in enumerate(trees, 1):
            try:
                stream.write(_line(Written(tree_record(tree), ())))
            except FormatError as error:
                raise error.at(os.fspath(path), number, "tree") from error
            except (TypeError, ValueError, RecursionError) as error:
                raise FormatError(
                    os.fspath(path), "trees that JSON can hold", line=number, got=str(error), unit="tree",
                    fix="write_parquet(path, trees, 'tree') holds trees of any depth",
                ) from error  # fmt: skip


def _opened(stack: ExitStack, path: str | os.PathLike[str]) -> IO[bytes] | gzip.GzipFile:
    stream = stack.enter_context(atomic_write(path))
    if os.fspath(path).endswith(".gz"):
        return stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
    return stream


def _line(item: Written) -> bytes:
    """The record's line; one that no reader would take is an error."""
    line = json.dumps(item.record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    if len(line) > LINE_LIMIT:
        expected = f"at most {LINE_LIMIT} bytes in a line, which is what is read back"
        raise FormatError("record", expected, got=f"{len(line)}", fix="write Parquet, which has no such limit")
    return line


def _refuse_loss(item: Written, line: bytes, format: Format, drop: Collection[str]) -> None:
    """Reads the line as anybody would and compares: the only way to be sure that nothing was lost."""
    try:
        back = format.read(Fields(json.loads(line)))
    except FormatError as error:
        expected = f"text that can be told apart again: {error.expected}"
        raise unwritable(
            format.name, item.rows[0], error.field or "record", expected, "write the format 'jsonl'"
        ) from error
    fix = "write the format 'jsonl' or 'parquet'"
    if len(back) != len(item.rows):
        raise unwritable(format.name, item.rows[0], "trajectory.steps", "rows that stay apart", fix)
    for row, other in zip(item.rows, back, strict=True):
        lost = lost_fields(row, other, drop)
        if lost:
            whole = [*dict.fromkeys(map(_droppable, lost))]
            leave = f"{fix}, or leave out what this row would lose: drop={[*dict.fromkeys((*drop, *whole))]}"
            raise unwritable(format.name, row, lost[0], f"nothing that {format.name!r} cannot hold", leave)


def hardened(row: Judged, threshold: float) -> Judged:
    """Hard labels: 1[value >= threshold] for each judged step."""
    if row.judgement is None:
        return row
    values = tuple(None if v is None else float(v >= threshold) for v in row.judgement.values)
    return row._replace(judgement=replace(row.judgement, values=values))


def lost_fields(row: Judged, back: Judged, dropped: Collection[str] = ()) -> list[str]:
    """The fields of `row` that are not the same in `back`; what `back` has besides is no loss."""
    return [*dict.fromkeys(_losses("", row, back, frozenset(dropped)))]


_WITH_PARTS = re.compile(r".*?\.(?:cost|meta|aspects)(?=\.)")
"""What has parts under many names, of which a format holds all or few."""


def _droppable(field: str) -> str:
    """What to name in `drop` for a lost field."""
    whole = _WITH_PARTS.match(field)
    return whole[0] if whole else field


_COMPARED_WHOLE = {"judgement.values", "trajectory.problem.prompt"}


def _losses(at: str, given: Any, back: Any, dropped: Collection[str]) -> Iterator[str]:
    if at in dropped or given == back:
        return
    if at in _COMPARED_WHOLE:
        if _as_chat(given) != _as_chat(back):
            yield at
    elif isinstance(given, Judged):
        yield from _losses("trajectory", given.trajectory, getattr(back, "trajectory", None), dropped)
        if given.judgement is not None:
            yield from _losses("judgement", given.judgement, getattr(back, "judgement", None), dropped)
    elif is_dataclass(given) and type(given) is type(back):
        for f in fields(given):
            value = getattr(given, f.name)
            if f.name == "separator" or not _is_default(f, value):
                yield from _losses(f"{at}.{f.name}".lstrip("."), value, getattr(back, f.name), dropped)
    elif isinstance(given, Mapping) and isinstance(back, Mapping):
        for name, value in given.items():
            yield from _losses(f"{at}.{name}", value, back.get(name), dropped)
    elif at == "trajectory.steps" and len(given) == len(back):
        for step, other in zip(given, back, strict=True):
            yield from _losses("step", step, other, dropped)
    elif given not in ((), {}) and _listed(given) != _listed(back):
        yield at


def _listed(value: Any) -> Any:
    """The value with every list as a tuple: JSON has one kind of list."""
    if isinstance(value, list | tuple):
        return tuple(map(_listed, value))
    return {name: _listed(inner) for name, inner in value.items()} if isinstance(value, Mapping) else value


def _as_chat(prompt: Any) -> Any:
    """A plain prompt and one user message are the same prompt to every reader."""
    return (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)


def _is_default(f: Any, value: Any) -> bool:
    if f.default is not MISSING:
        return bool(value == f.default)
    return f.default_factory is not MISSING and bool(value == f.default_factory())
