"""PRMBench: solutions rewritten to hold one kind of flaw; `error_steps` names every wrong step, counted from 1.

The tested trace is `modified_process`, whose leading numbers ("3. …") are kept as they stand. An error step past the
end of the process (100 of the published rows have one) can label nothing; it is kept in the trajectory's
`meta["error_steps_outside"]`. All other fields are kept in `meta` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, hard_labels
from footfall.formats._rows import Labels, optional_keys, plain_prompt, plain_steps, read_row, with_meta
from footfall.registry import register
from footfall.types import Json, Judged

__all__ = ["OUTSIDE", "prmbench"]

OUTSIDE = "error_steps_outside"
_KNOWN = ("modified_question", "modified_process", "error_steps")


@register("format", "prmbench")
def prmbench() -> Format:
    """PRMBench: a modified process and the 1-based numbers of all its wrong steps."""
    return Format("prmbench", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return "modified_process" in fields and "error_steps" in fields


def _read(fields: Fields) -> list[Judged]:
    steps = fields.texts("modified_process")
    errors = fields.integers("error_steps")
    values = tuple(float(k + 1 not in errors) for k in range(len(steps)))
    outside: list[Json] = [e for e in errors if not 1 <= e <= len(steps)]
    data = {**fields.data, **({"id": name} if (name := _case(fields)) else {})}
    data |= {OUTSIDE: outside} if outside else {}
    return [
        read_row(
            fields.holding(data), "prmbench", fields.text("modified_question"), steps, Labels(values), known=_KNOWN
        )
    ]


def _case(fields: Fields) -> str | None:
    """An `idx` occurs once in each class of flaws, so the two together name a case."""
    if "id" in fields:
        return None
    if "case_id" in fields:
        return fields.identifier("case_id")
    index = fields.identifier("idx")
    return f"{fields.text('classification')}_{index}" if index is not None and "classification" in fields else None


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        meta = dict(row.trajectory.meta)
        outside = meta.pop(OUTSIDE, ())
        wrong: list[Json] = [k + 1 for k, good in enumerate(hard_labels("prmbench", row)) if not good]
        record: dict[str, Json] = {
            "modified_question": plain_prompt("prmbench", row),
            "modified_process": plain_steps(row),
            "error_steps": wrong + (list(outside) if isinstance(outside, list | tuple) else []),
            **optional_keys(row, "prmbench"),
        }
        with_meta("prmbench", row, record)
        yield Written({**record, **meta}, [row])
