"""TRL's stepwise supervision: `{"prompt", "completions": [step, …], "labels": [true, 0.25, …]}`.

Labels are booleans or numbers. A soft label stays soft, both ways; the format says nothing of what separates the steps,
so a blank line is assumed unless the record has a `separator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from footfall.formats._fields import Fields
from footfall.formats._format import Format, Written, unwritable
from footfall.formats._rows import Labels, optional_keys, plain_steps, prompt_json, read_prompt, read_row, with_meta
from footfall.registry import register
from footfall.types import Json, Judged

__all__ = ["trl"]

_KNOWN = ("prompt", "completions", "labels")


@register("format", "trl")
def trl() -> Format:
    """TRL stepwise supervision: prompt, completions, labels (hard or soft)."""
    return Format("trl", _sniff, _read, _write)


def _sniff(fields: Fields) -> bool:
    return all(name in fields for name in _KNOWN)


def _read(fields: Fields) -> list[Judged]:
    prompt = read_prompt(fields, "prompt")
    steps = fields.texts("completions")
    labels = Labels(fields.values("labels", len(steps)))
    return [read_row(fields, "trl", prompt, steps, labels, known=_KNOWN)]


def _write(rows: Iterable[Judged]) -> Iterator[Written]:
    for row in rows:
        record: dict[str, Json] = {
            "prompt": prompt_json(row.trajectory.problem.prompt),
            "completions": plain_steps(row),
            "labels": _labels(row),
            **optional_keys(row, "trl"),
        }
        yield Written(with_meta("trl", row, record), [row])


def _labels(row: Judged) -> list[Json]:
    """Booleans where all values are 0 or 1, so that the data set's column has the type that the trainer expects."""
    if row.judgement is None:
        raise unwritable("trl", row, "judgement", "a judgement", "label the trajectories first")
    values = row.judgement.values
    if None in values:
        raise unwritable("trl", row, f"judgement.values[{values.index(None)}]", "a number", "judge every step")
    return [bool(v) for v in values] if set(values) <= {0.0, 1.0} else list(values)
