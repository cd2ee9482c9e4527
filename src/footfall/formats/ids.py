"""Ids that stay apart: which were seen, and another name for one that is taken, with little memory however many there are."""

from __future__ import annotations

import errno
import sqlite3
import tempfile
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from footfall.types import Judged

_IDS_IN_MEMORY = 100_000


@contextmanager
def _told() -> Iterator[None]:
    """A full disk is told as any other file tells it, and any other fault of the file in SQLite's words."""
    where = tempfile.gettempdir()  # asked when the disk is full, it is another folder
    try:
        yield
    except sqlite3.DatabaseError as error:
        if "is full" in str(error):
            raise OSError(errno.ENOSPC, f"no space left for ids ({error})", where) from error
        raise OSError(
            errno.EIO, f"the temporary file of ids failed ({error}); TMPDIR names another folder", where
        ) from error


class Once:
    """Ids that occurred once, each with a number; all but the last of many lie in a temporary file (TMPDIR says where)."""

    def __init__(self) -> None:
        self._last: dict[bytes, bytes] = {}
        self._file: Any = None

    def __contains__(self, name: Any) -> bool:
        return self.get(name) is not None

    def get(self, name: str) -> int | None:
        """The number of an id, if it is here."""
        found = self._last.get(name.encode())
        if found is None and self._file is not None:
            with _told():
                row = self._file.execute("SELECT number FROM once WHERE id = ?", (name.encode(),)).fetchone()
            (found,) = row or (None,)
        return None if found is None else int.from_bytes(found, "big")

    def put(self, name: str, number: int) -> None:
        """An id that is not here."""
        self._last[name.encode()] = number.to_bytes(20, "big")
        if len(self._last) >= _IDS_IN_MEMORY:
            with _told():
                if self._file is None:
                    self._file = sqlite3.connect(
                        "", check_same_thread=False
                    )  # without a name: it goes with the process
                    self._file.execute("CREATE TABLE once (id BLOB PRIMARY KEY, number BLOB) WITHOUT ROWID")
                self._file.executemany("INSERT INTO once VALUES (?, ?)", sorted(self._last.items()))
            self._last.clear()

    def pop(self, name: str) -> int | None:
        """The number of an id, which is no longer here."""
        found = self.get(name)
        if found is not None and self._last.pop(name.encode(), None) is None:
            with _told():
                self._file.execute("DELETE FROM once WHERE id = ?", (name.encode(),))
        return found


class Ids:
    """Keeps the ids of trajectories apart, in a time that does not grow with how often one occurs, and with little memory for
    those that occur once."""

    def __init__(self) -> None:
        self._once = Once()
        """Each with the content of the trace and its judge as one number."""
        self._taken: set[str] = set()
        """The others, and the names that were made of them."""
        self._judges: dict[str, int] = {}
        self._names: dict[tuple[str, int], list[str]] = {}
        """The names of traces by id and content."""
        self._used: dict[tuple[str, int, int], int] = {}
        """How many of these a judge has judged."""
        self._last: dict[str, int] = {}
        """The number at the end of the last name that was made of an id."""

    def __contains__(self, name: Any) -> bool:
        return name in self._taken or name in self._once

    def unique(self, row: Judged) -> Judged:
        """The row, with another id if its own was taken."""
        wanted = row.trajectory.id
        name = self._name(wanted, row.trajectory.key, row.judgement.judge if row.judgement is not None else "")
        if name == wanted:
            return row
        judgement = row.judgement
        if judgement is not None and judgement.trajectory_id == wanted:
            judgement = replace(judgement, trajectory_id=name)
        return Judged(replace(row.trajectory, id=name), judgement)

    def new(self, wanted: str, key: str) -> str | None:
        """The name of what this id was not seen with before; `None` for what it was."""
        content = int(key[:32], 16)
        if self._once.get(wanted) == content << 32 or (wanted, content) in self._names:
            return None
        return self._name(wanted, key, "")

    def _name(self, wanted: str, key: str, judge: str) -> str:
        """The first of `wanted`, `wanted~2`, … that is free, or is of this trace and not yet of this judge."""
        content, by = int(key[:32], 16), self._judges.setdefault(judge, len(self._judges))
        if wanted not in self:
            self._once.put(wanted, content << 32 | by)
            return wanted
        if (before := self._once.pop(wanted)) is not None:
            self._taken.add(wanted)
            self._names[wanted, before >> 32] = [wanted]
            self._used[wanted, before >> 32, before & 0xFFFFFFFF] = 1
        names = self._names.setdefault((wanted, content), [])
        used = self._used.get((wanted, content, by), 0)
        self._used[wanted, content, by] = used + 1
        if used < len(names):
            return names[used]
        name = _free(wanted, self, self._last)
        self._taken.add(name)
        names.append(name)
        return name


def apart(names: Iterable[str]) -> Iterator[str]:
    """The names in their order, one that occurred before as `name~2` and so on."""
    taken, last = Once(), dict[str, int]()
    for wanted in names:
        name = _free(wanted, taken, last)
        taken.put(name, 0)
        yield name


def _free(wanted: str, taken: Container[str], last: dict[str, int]) -> str:
    """The first of `wanted`, `wanted~2`, … that is not taken."""
    name, number = wanted, last.get(wanted, 1)
    while name in taken:
        number += 1
        last[wanted] = number
        name = f"{wanted}~{number}"
    return name
