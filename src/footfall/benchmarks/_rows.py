"""What the loaders of step-labelled benchmarks share: finding the files, and labels that name a step by its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from footfall.formats import Fields
from footfall.types import Json, Judgement, Problem, Step, Trajectory

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


def benchmark_files(data: str | Path, names: Sequence[str], benchmark: str) -> dict[str, Path]:
    """The files `name.jsonl`, `name.json` (or gzipped) of a folder by name; a file stands for itself."""
    place = Path(data)
    if place.is_file():
        return {place.name.partition(".")[0]: place}
    found = {name: path for name in names for suffix in _SUFFIXES[::-1] if (path := place / (name + suffix)).is_file()}
    if not found:
        wanted = ", ".join(names)
        raise FileNotFoundError(f"{place} is neither a file of {benchmark} nor a folder with one of {wanted} (.jsonl)")
    return found


def first_error_truth(first: int | None, steps: int) -> tuple[float | None, ...]:
    """Right before step `first` (counted from 1), wrong at it, unknown after it; all right if there is none."""
    if first is None:
        return (1.0,) * steps
    return (1.0,) * (first - 1) + (0.0,) + (None,) * (steps - first)


def traced(
    name: str, problem: Problem, steps: Sequence[str | Step], truth: Sequence[float | None], judge: str,
    *, correct: bool | None = None, author: str | None = None, separator: str = "\n\n",
    meta: Mapping[str, Json] | None = None,
) -> tuple[Trajectory, Judgement]:  # fmt: skip
    """A trajectory with its truth; `correct` is the truth of the whole and is not told to the judge."""
    made = tuple(Step(step) if isinstance(step, str) else step for step in steps)
    whole = None if correct is None else float(correct)
    trajectory = Trajectory(name, problem, made, author=author, separator=separator, meta=meta or {})
    return trajectory, Judgement(name, tuple(truth), judge, value=whole)


def counted(number: int, sentence: str) -> tuple[str, ...]:
    """A note that begins with how many rows it is about, if there are any."""
    return (f"{number} {sentence}",) if number else ()


def step_number(fields: Fields, field: str, none: str = "N/A") -> int | None:
    """A step counted from 1, given as a number or as text; `None` for what the data writes when there is no error."""
    value = fields.get(field, f"a step number or {none!r}")
    if value == none:
        return None
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise fields.wrong(field, f"a step number counted from 1, or {none!r}")
    return number
