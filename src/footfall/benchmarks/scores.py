"""Scores made elsewhere: judge there, measure here. JSON lines `{"id", "split"?, "scores": [number or null, …]}`.

A row may also hold `"value"`, one number for the whole response; then `scores` may be left out. What `footfall score --to`
writes as JSON lines is such a file too: there the numbers stand in the row's `judgement`.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from footfall.formats import LINE_LIMIT, refuse_lfs_pointer
from footfall.formats.files import open_source
from footfall.formats.records import show
from footfall.terminal import one_line
from footfall.types import Judgement, Trajectory

Key = tuple[str | None, str]
"""Split, if the row names one, and id."""
FILE_LIMIT = 2**30
"""Bytes that a scores file may have when it is unpacked: all of it is held in memory."""


class Scores:
    """Scores by trajectory id. An id that the file does not hold is left out of the figure and counted."""

    def __init__(
        self,
        name: str,
        scores: Mapping[Key, tuple[float | None, ...]],
        values: Mapping[Key, float] | None = None,
    ) -> None:
        self.name = name
        self._scores, self._values = dict(scores), dict(values or {})

    def __len__(self) -> int:
        return len(self._scores.keys() | self._values.keys())

    @classmethod
    def read(cls, path: Path | str, allow_constant: bool = False) -> Scores:
        """A scores file, plain or gzipped. A bad row is an error that names its line and field.

        A file whose numbers are all equal comes from a broken judge more often than not, so it has to be allowed.
        """
        source = Path(path)
        scores = cls.from_rows(source.name, _rows(source))
        same = scores.constant()
        if same is not None and not allow_constant:
            raise ValueError(
                f"{source.name}: every score is {same:g}, so it can order nothing; mend the judge that wrote it, or pass "
                "--allow-constant if a constant judge is what you want to measure"
            )
        return scores

    @classmethod
    def from_rows(cls, name: str, rows: Iterable[tuple[int, Any]]) -> Scores:
        """From numbered rows, as `read` does; constant scores are taken."""
        scores: dict[Key, tuple[float | None, ...]] = {}
        values: dict[Key, float] = {}
        for number, row in rows:
            where = f"{name}, line {number}"
            key, steps, value = _checked(row, where)
            if key in scores or key in values:
                raise ValueError(f"{where}: the id {one_line(key[1], 60)!r} was scored before")
            if steps is not None:
                scores[key] = steps
            if value is not None:
                values[key] = value
        return cls(name, scores, values)

    def constant(self) -> float | None:
        """The number that all of two or more scores are."""
        found = [v for steps in self._scores.values() for v in steps if v is not None] + list(self._values.values())
        return found[0] if len(found) > 1 and len(set(found)) == 1 else None

    def has(self, split: str, trajectory: Trajectory) -> bool:
        return self._key(split, trajectory) is not None

    def judgement(self, split: str, trajectory: Trajectory) -> Judgement:
        """The scores of one trajectory; a row that names its split goes before one that does not."""
        key = self._key(split, trajectory)
        if key is None:
            raise KeyError(f"{self.name} has no scores of {trajectory.id!r}")
        steps = self._scores.get(key, (None,) * len(trajectory.steps))
        if len(steps) != len(trajectory.steps):
            raise ValueError(
                f"{self.name}: {trajectory.id!r} has {len(trajectory.steps)} steps but {len(steps)} scores; "
                "write null for a step that was not judged"
            )
        return Judgement(trajectory.id, steps, self.name, self._values.get(key))

    def unknown(self, cases: Iterable[tuple[str, str]]) -> list[str]:
        """Ids here that are none of the `cases`, given as (split, id)."""
        known: set[Key] = set()
        for split, name in cases:
            known |= {(split, name), (None, name)}
        keys = dict.fromkeys([*self._scores, *self._values])
        return [name if split is None else f"{split}/{name}" for split, name in keys if (split, name) not in known]

    def _key(self, split: str, trajectory: Trajectory) -> Key | None:
        keys: tuple[Key, Key] = ((split, trajectory.id), (None, trajectory.id))
        return next((key for key in keys if key in self._scores or key in self._values), None)


def _rows(source: Path) -> Iterator[tuple[int, Any]]:
    """The JSON values of a file with their lines, bounded in memory: no line is read beyond the limit."""
    size = 0
    with open_source(source) as (_, stream):
        try:
            for number, line in enumerate(iter(lambda: stream.readline(LINE_LIMIT + 1), b""), start=1):
                size += len(line)
                where = f"{source.name}, line {number}"
                if len(line) > LINE_LIMIT:
                    raise ValueError(f"{where}: longer than {LINE_LIMIT} bytes; write one trace a line")
                if size > FILE_LIMIT:
                    raise ValueError(f"{where}: the file has more than {FILE_LIMIT} bytes; measure it in parts")
                if number == 1:
                    refuse_lfs_pointer(str(source), line)
                if line.strip():
                    yield number, _parsed(line.removeprefix(b"\xef\xbb\xbf"), where)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{source.name}: not a whole gzip file ({error}); copy or download it again") from error


def _parsed(line: bytes, where: str) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg} at column {error.colno})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: not UTF-8 text (byte {error.start + 1})") from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{where}: not JSON that can be read ({error})") from error


def _checked(row: Any, where: str) -> tuple[Key, tuple[float | None, ...] | None, float | None]:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: an object with id and scores is expected, not {type(row).__name__}")
    name, split = row.get("id"), row.get("split")
    scores, value = _said(row)
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str):
        raise ValueError(f"{where}, field id: a string or an integer is expected, not {show(name)}")
    if split is not None and not isinstance(split, str):
        raise ValueError(f"{where}, field split: a string is expected, not {show(split)}")
    whole = _finite(value, f"{where}, field value")
    if scores is None and whole is not None:
        return (split, name), None, whole
    if not isinstance(scores, list):
        got = show(scores) if "scores" in row else f"a row without it, which has {one_line(', '.join(row), 200)}"
        raise ValueError(f"{where}, field scores: a list with one number or null a step is expected, not {got}")
    steps = tuple(_finite(score, f"{where}, field scores, step {k}") for k, score in enumerate(scores, start=1))
    return (split, name), steps, whole


def _said(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """The scores of the steps and the one of the whole, in the row itself or in the judgement of a judged trace."""
    judgement = row.get("judgement")
    if isinstance(judgement, dict) and not {"scores", "value"} & row.keys():
        return judgement.get("values"), judgement.get("value")
    return row.get("scores"), row.get("value")


def _finite(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"{where}: a finite number or null is expected, not {show(value)}")
