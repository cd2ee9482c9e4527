"""Scores made elsewhere: judge there, measure here. JSON lines `{"id", "split"?, "scores": [number or null, …]}`."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from footfall.types import Judgement, Trajectory

__all__ = ["Scores"]

Key = tuple[str | None, str]


class Scores:
    """Step scores by trajectory id. An id that the file does not hold is left out of the figure and counted."""

    def __init__(self, name: str, scores: Mapping[Key, tuple[float | None, ...]]) -> None:
        self.name = name
        self._scores = dict(scores)

    def __len__(self) -> int:
        return len(self._scores)

    @classmethod
    def read(cls, path: Path | str) -> Scores:
        """A scores file, plain or gzipped. A bad row is an error that names its line and field."""
        source = Path(path)
        content = source.read_bytes()
        text = (gzip.decompress(content) if source.suffix == ".gz" else content).decode("utf-8")
        return cls.from_rows(source.name, _parsed(text.splitlines(), source.name))

    @classmethod
    def from_rows(cls, name: str, rows: Iterable[tuple[int, Any]]) -> Scores:
        """From numbered rows, as `read` does."""
        found: dict[Key, tuple[float | None, ...]] = {}
        for number, row in rows:
            key, values = _checked(row, f"{name}, line {number}")
            if key in found:
                raise ValueError(f"{name}, line {number}: the id {key[1]!r} was scored before")
            found[key] = values
        return cls(name, found)

    def has(self, split: str, trajectory: Trajectory) -> bool:
        return (split, trajectory.id) in self._scores or (None, trajectory.id) in self._scores

    def judgement(self, split: str, trajectory: Trajectory) -> Judgement:
        """The scores of one trajectory; a row that names its split goes before one that does not."""
        values = self._scores.get((split, trajectory.id))
        if values is None:
            values = self._scores[None, trajectory.id]
        if len(values) != len(trajectory.steps):
            raise ValueError(
                f"{self.name}: {trajectory.id!r} has {len(trajectory.steps)} steps but {len(values)} scores; "
                "write null for a step that was not judged"
            )
        return Judgement(trajectory.id, values, self.name)


def _parsed(lines: Iterable[str], name: str) -> Iterable[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{name}, line {number}: not JSON ({error.msg} at column {error.colno})") from error


def _checked(row: Any, where: str) -> tuple[Key, tuple[float | None, ...]]:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: an object with id and scores is expected, not {type(row).__name__}")
    name, split, scores = row.get("id"), row.get("split"), row.get("scores")
    if not isinstance(name, str):
        raise ValueError(f"{where}, field id: a string is expected, not {name!r}")
    if split is not None and not isinstance(split, str):
        raise ValueError(f"{where}, field split: a string is expected, not {split!r}")
    if not isinstance(scores, list):
        raise ValueError(f"{where}, field scores: a list with one number or null a step is expected, not {scores!r}")
    for k, value in enumerate(scores, start=1):
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if value is not None and not number:
            raise ValueError(f"{where}, field scores, step {k}: a finite number or null is expected, not {value!r}")
    return (split, name), tuple(None if value is None else float(value) for value in scores)
