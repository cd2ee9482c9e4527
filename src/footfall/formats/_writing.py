"""Writing files in any registered format: wholly or not at all, and never with something silently left out."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from typing import IO

from footfall.formats._atomic import atomic_write
from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, hardened, lost_field, unwritable
from footfall.formats._reading import format_named
from footfall.formats.errors import FormatError
from footfall.formats.math_aps import tree_record
from footfall.formats.parquet import write_parquet
from footfall.types import Judged, Tree

__all__ = ["write", "write_trees"]


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
    example "judgement.aspects" or "step.token_ids"). With `threshold`, values become hard: 1[value >= threshold].
    """
    given = rows if threshold is None else (hardened(row, threshold) for row in rows)
    if format == "parquet":
        write_parquet(path, list(given), "judged")
        return
    chosen = format_named(format)
    with ExitStack() as stack:
        stream = _opened(stack, path)
        done = 0
        written = chosen.write(given)
        while True:
            try:
                item = next(written, None)
                if item is None:
                    return
                line = _line(item)
                _refuse_loss(item, line, chosen, drop)
            except FormatError as error:
                raise error.at(os.fspath(path), done + 1, "row") from error
            except (TypeError, ValueError, RecursionError) as error:
                raise FormatError(
                    os.fspath(path), "rows that JSON can hold", line=done + 1, got=str(error), unit="row"
                ) from error
            done += len(item.rows)
            stream.write(line)


def write_trees(path: str | os.PathLike[str], trees: Iterable[Tree]) -> None:
    """Write trees as nested MATH-APS records, which hold texts and values only."""
    with ExitStack() as stack:
        stream = _opened(stack, path)
        for tree in trees:
            stream.write(_line(Written(tree_record(tree), ())))


def _opened(stack: ExitStack, path: str | os.PathLike[str]) -> IO[bytes] | gzip.GzipFile:
    stream = stack.enter_context(atomic_write(path))
    if os.fspath(path).endswith(".gz"):
        return stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
    return stream


def _line(item: Written) -> bytes:
    return json.dumps(item.record, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def _refuse_loss(item: Written, line: bytes, format: Format, drop: Collection[str]) -> None:
    """Reads the line as anybody would and compares: the only way to be sure that nothing was lost."""
    try:
        back = format.read(Fields(json.loads(line)))
    except FormatError as error:
        expected = f"text that can be told apart again: {error.expected}"
        raise unwritable(
            format.name, item.rows[0], error.field or "record", expected, "write the format 'jsonl'"
        ) from error
    fix = "write the format 'jsonl' or 'parquet', or name the field in `drop`"
    if len(back) != len(item.rows):
        raise unwritable(format.name, item.rows[0], "trajectory.steps", "rows that stay apart", fix)
    for row, other in zip(item.rows, back, strict=True):
        field = lost_field(row, other, drop)
        if field is not None:
            raise unwritable(format.name, row, field, f"nothing that {format.name!r} cannot hold", fix)
