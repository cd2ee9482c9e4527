"""Formats that hold a list of steps and, beside it, labels: TRL's, ProcessBench's and PRMBench's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats.records import Fields
from footfall.formats.rows import (
    Format,
    Labels,
    Written,
    hard_label,
    hard_labels,
    judged_values,
    optional_keys,
    plain_prompt,
    plain_steps,
    prompt_json,
    read_prompt,
    read_row,
    unwritable,
    with_meta,
)
from footfall.registry import register
from footfall.types import AFTER_ERROR, Json, Judged

_TRL = ("prompt", "completions", "labels")


@register("format", "trl")
def trl() -> Format:
    """TRL stepwise supervision: prompt, completions, labels (hard or soft).

    `{"prompt", "completions": [step, …], "labels": [true, 0.25, …]}`: a soft label stays soft, both ways. The format says
    nothing of what separates the steps, so a blank line is assumed unless the record has a `separator`.
    """
    return Format("trl", _sniff_trl, _read_trl, _write_trl)


def _sniff_trl(fields: Fields) -> bool:
    return all(name in fields for name in _TRL)


def _read_trl(fields: Fields) -> list[Judged]:
    prompt = read_prompt(fields, "prompt")
    steps = fields.texts("completions")
    labels = Labels(fields.values("labels", len(steps)))
    return [read_row(fields, "trl", prompt, steps, labels, known=_TRL)]


def _write_trl(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        record: dict[str, Json] = {
            "prompt": prompt_json(row.trajectory.problem.prompt),
            "completions": plain_steps(row),
            "labels": _trl_labels(row),
            **optional_keys(row, "trl"),
        }
        yield Written(with_meta("trl", row, record), [row])


def _trl_labels(row: Judged) -> list[Json]:
    """Booleans where all values are 0 or 1, so that the data set's column has the type that the trainer expects."""
    values = judged_values("trl", row)
    if None in values:
        raise unwritable("trl", row, f"judgement.values[{values.index(None)}]", "a number", "judge every step")
    return [bool(v) for v in values] if set(values) <= {0.0, 1.0} else list(values)


_PROCESSBENCH = ("generator", "problem", "steps", "final_answer_correct", "label")
_LISTS = ("labels", "values", "scores", "ratings")
"""What says something of every step in other formats."""


@register("format", "processbench")
def processbench() -> Format:
    """ProcessBench: steps with the index of the first error, -1 for none.

    Label k (0-based) as a judgement: steps before k are worth 1, step k is worth 0, and of the steps after it nobody said
    anything, so they are `None` with a reason. Label -1: every step is worth 1.
    """
    return Format("processbench", _sniff_processbench, _read_processbench, _write_processbench)


def first_error_labels(label: int, steps: int) -> Labels:
    """What a first-error index says of each of the steps."""
    if label == -1:
        return Labels((1.0,) * steps)
    after = steps - label - 1
    failures = (None,) * (label + 1) + (AFTER_ERROR,) * after if after else ()
    return Labels((1.0,) * label + (0.0,) + (None,) * after, failures=failures)


def _sniff_processbench(fields: Fields) -> bool:
    return "steps" in fields and "label" in fields and "problem" in fields


def _read_processbench(fields: Fields) -> list[Judged]:
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
            known=_PROCESSBENCH,
            correct=fields.boolean_or_none("final_answer_correct"),
            author=fields.text_or_none("generator"),
        )
    ]


def _write_processbench(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        extra = optional_keys(row, "processbench")
        record: dict[str, Json] = {
            "id": extra.pop("id", row.trajectory.id),
            "generator": extra.pop("author", None),
            "problem": plain_prompt("processbench", row),
            "steps": plain_steps(row),
            "final_answer_correct": extra.pop("correct", None),
            "label": _first_error(row),
            **extra,
        }
        yield Written(with_meta("processbench", row, record), [row])


def _first_error(row: Judged) -> int:
    for k, value in enumerate(judged_values("processbench", row)):
        if not hard_label("processbench", row, k, value):
            return k
    return -1


OUTSIDE = "error_steps_outside"
_PRMBENCH = ("modified_question", "modified_process", "error_steps")


@register("format", "prmbench")
def prmbench() -> Format:
    """PRMBench: a modified process and the 1-based numbers of all its wrong steps.

    The tested trace is `modified_process`, whose leading numbers ("3. …") are kept as they stand. An error step past the
    end of the process (100 of the published rows have one) can label nothing; it is kept in the trajectory's
    `meta["error_steps_outside"]`. All other fields are kept in `meta` too.
    """
    return Format("prmbench", _sniff_prmbench, _read_prmbench, _write_prmbench)


def _sniff_prmbench(fields: Fields) -> bool:
    return "modified_process" in fields and "error_steps" in fields


def _read_prmbench(fields: Fields) -> list[Judged]:
    steps = fields.texts("modified_process")
    errors = fields.integers("error_steps")
    values = tuple(float(k + 1 not in errors) for k in range(len(steps)))
    outside: list[Json] = [e for e in errors if not 1 <= e <= len(steps)]
    data = {**fields.data, **({"id": name} if (name := _case_id(fields)) else {})}
    data |= {OUTSIDE: outside} if outside else {}
    question = fields.text("modified_question")
    return [read_row(fields.holding(data), "prmbench", question, steps, Labels(values), known=_PRMBENCH)]


def _case_id(fields: Fields) -> str | None:
    """An `idx` occurs once in each class of flaws, so the two together name a case."""
    if "id" in fields:
        return None
    if "case_id" in fields:
        return fields.identifier("case_id")
    index = fields.identifier("idx")
    return f"{fields.text('classification')}_{index}" if index is not None and "classification" in fields else None


def _write_prmbench(rows: Iterable[Judged]) -> Iterator[Written]:
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
