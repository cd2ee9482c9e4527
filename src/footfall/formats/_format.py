"""What a format is: it recognises a record, reads it into judged trajectories and writes them back, or says why not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

from footfall.formats._fields import Fields
from footfall.formats.errors import FormatError, show
from footfall.types import Json, Judged, Message

__all__ = ["Format", "Written", "hard_labels", "hardened", "lost_field", "unwritable"]


class Written(NamedTuple):
    """A record, and the rows that it stands for."""

    record: Mapping[str, Json]
    rows: Sequence[Judged]


@dataclass(frozen=True, slots=True)
class Format:
    """A way to store process data as JSON records."""

    name: str
    sniff: Callable[[Fields], bool]
    """Whether a record looks like this format."""
    read: Callable[[Fields], list[Judged]]
    write: Callable[[Iterable[Judged]], Iterator[Written]]
    """Raises `FormatError` (see `unwritable`) where the format has no place for something."""


def unwritable(format: str, row: Judged, field: str, expected: str, fix: str | None = None) -> FormatError:
    """What a writer raises about one row; the caller adds the file's name and the row's number."""
    return FormatError(f"format {format}", expected, field=field, fix=fix, subject=f"trajectory {row.trajectory.id!r}")


def hardened(row: Judged, threshold: float) -> Judged:
    """Hard labels: 1[value >= threshold] for each judged step."""
    if row.judgement is None:
        return row
    values = tuple(None if v is None else float(v >= threshold) for v in row.judgement.values)
    return row._replace(judgement=replace(row.judgement, values=values))


def hard_labels(format: str, row: Judged) -> tuple[bool, ...]:
    """The row's values as booleans, for a format that has only these."""
    if row.judgement is None:
        raise unwritable(format, row, "judgement", "a judgement", "label the trajectories first")
    found = []
    for k, value in enumerate(row.judgement.values):
        if value not in (0.0, 1.0):
            fix = "judge the step" if value is None else "pass a threshold to make the values hard"
            raise unwritable(format, row, f"judgement.values[{k}]", f"0 or 1, got {show(value)}", fix)
        found.append(bool(value))
    return tuple(found)


def lost_field(row: Judged, back: Judged, dropped: Collection[str]) -> str | None:
    """The first field of `row` that is not the same in `back`; what `back` has besides is no loss."""
    return next(_losses("", row, back, frozenset(dropped)), None)


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
    elif given not in ((), {}):
        yield at


def _as_chat(prompt: Any) -> Any:
    """A plain prompt and one user message are the same prompt to every reader."""
    return (Message("user", prompt),) if isinstance(prompt, str) else prompt


def _is_default(f: Any, value: Any) -> bool:
    if f.default is not MISSING:
        return bool(value == f.default)
    return f.default_factory is not MISSING and bool(value == f.default_factory())
