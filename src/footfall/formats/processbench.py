"""ProcessBench: people marked the earliest wrong step of each solution, or -1 where there is none.

Label k (0-based) as a judgement: steps before k are worth 1, step k is worth 0, and of the steps after it nobody said
anything, so they are `None` with a reason. Label -1: every step is worth 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, unwritable
from footfall.formats._rows import Labels, optional_keys, plain_prompt, plain_steps, read_row, with_meta
from footfall.formats.errors import show
from footfall.registry import register
from footfall.types import AFTER_ERROR, Json, Judged

__all__ = ["first_error_labels", "processbench"]

_KNOWN = ("generator", "problem", "steps", "final_answer_correct", "label")
_LISTS = ("labels", "values", "scores", "ratings")
"""What says something of every step in other formats."""


@register("format", "processbench")
def processbench() -> Format:
    """ProcessBench: steps with the index of the first error, -1 for none."""
    return Format("processbench", _sniff, _read, _write)


def first_error_labels(label: int, steps: int) -> Labels:
    """What a first-error index says of each of the steps."""
    if label == -1:
        return Labels((1.0,) * steps)
    after = steps - label - 1
    failures = (None,) * (label + 1) + (AFTER_ERROR,) * after if after else ()
    return Labels((1.0,) * label + (0.0,) + (None,) * after, failures=failures)


def _sniff(fields: Fields) -> bool:
    return "steps" in fields and "label" in fields and "problem" in fields


def _read(fields: Fields) -> list[Judged]:
    steps = fields.texts("steps")
    label = fields.integer("label")
    if (other := next((name for name in _LISTS if isinstance(fields.data.get(name), list)), None)) is not None:
        raise fields.error(other, f'one kind of labels; it has "label" and "{other}"', fix="keep one of them")
    if not -1 <= label < len(steps):
        raise fields.error("label", f"-1 or the index of one of the {len(steps)} steps", str(label))
    return [
        read_row(
            fields,
            "processbench",
            fields.text("problem"),
            steps,
            first_error_labels(label, len(steps)),
            known=_KNOWN,
            correct=fields.boolean_or_none("final_answer_correct"),
            author=fields.text_or_none("generator"),
        )
    ]


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        extra = optional_keys(row, "processbench")
        record: dict[str, Json] = {
            "id": extra.pop("id", row.trajectory.id),
            "generator": extra.pop("author", None),
            "problem": plain_prompt("processbench", row),
            "steps": plain_steps(row),
            "final_answer_correct": extra.pop("correct", None),
            "label": _label(row),
            **extra,
        }
        yield Written(with_meta("processbench", row, record), [row])


def _label(row: Judged) -> int:
    if row.judgement is None:
        raise unwritable("processbench", row, "judgement", "a judgement", "label the trajectories first")
    for k, value in enumerate(row.judgement.values):
        if value == 0.0:
            return k
        if value != 1.0:
            fix = "judge the step" if value is None else "pass a threshold to make the values hard"
            raise unwritable("processbench", row, f"judgement.values[{k}]", f"0 or 1, got {show(value)}", fix)
    return -1
