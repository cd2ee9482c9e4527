"""Rows that are too many for memory: a sequence that lies in Parquet files, of which one at a time is read.

It is for who goes through the rows in their order; a row by its number reads the file that it is in.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import tempfile
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any, TypeVar, overload

from footfall.formats.parquet import iter_parquet, write_parquet

T = TypeVar("T")
IN_MEMORY = 20_000
"""Rows up to which they are a list."""
_A_FILE = 1024
_PREFIX = "footfall-rows-"
_SETTLED = 60.0
"""Seconds after which the folder of a living process has been locked."""


class _Folder:
    """A temporary folder that goes with its owner. One whose process was killed is removed by the next that makes one: its lock
    is free. The lock names the machine, for some file systems that machines share keep locks from each other."""

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _sweep(left)
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        self.path = Path(self._folder.name)
        self._lock: IO[str] = (self.path / ".lock").open("w", encoding="utf-8")
        with suppress(OSError):  # a file system without locks, where nothing is swept either
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.write(self._lock.fileno(), socket.gethostname().encode())


def _sweep(folder: Path) -> None:
    """Remove the folder if nobody holds its lock."""
    try:
        about = folder.lstat()
        settled = time.time() - about.st_mtime >= _SETTLED
        if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode) or not settled:
            return
        # Without a lock is what somebody was killed over removing.
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:  # somebody else's, or gone by now
        return
    try:
        with suppress(OSError):  # its process lives
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.read(lock, 1024).decode("utf-8", "replace") in ("", socket.gethostname()):
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def shard_name(number: int, key: str) -> str:
    """The file of a run's chunk, by its place and the 16 hex digits that its content gives."""
    return f"{number:05d}-{key}.parquet"


class Shards(Sequence[Path]):
    """Files of these names in one folder, in the order of their numbers: eight bytes of each are held, for they may be many."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._keys = array("Q")

    def add(self, key: str) -> None:
        """The next one."""
        self._keys.append(int(key, 16))

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> Path: ...
    @overload
    def __getitem__(self, at: slice) -> list[Path]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        return self.folder / shard_name(number, f"{self._keys[number]:016x}")


class Spool(Sequence[T]):
    """The rows of these files, which have so many each. `folder` goes with it. With `inside`, what the files hold is no row,
    but has rows in the field of that name."""

    def __init__(
        self,
        kind: str,
        files: Sequence[Path],
        sizes: Iterable[int],
        folder: _Folder | None = None,
        inside: str | None = None,
    ) -> None:
        self._kind, self._files, self._folder = kind, files, folder
        self._ends = array("q", accumulate(sizes))
        self._inside = inside
        self._read: tuple[int, list[T]] = -1, []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[T]:
        for file in self._files:
            yield from self._rows(file)

    def _rows(self, file: Path) -> Iterator[T]:
        found = iter_parquet(file, self._kind)
        return found if self._inside is None else (row for each in found for row in getattr(each, self._inside))

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        row = range(len(self))[at]
        file = bisect_right(self._ends, row)
        if self._read[0] != file:
            self._read = file, list(self._rows(self._files[file]))
        return self._read[1][row - self._ends[file]]


class Mapped(Sequence[T]):
    """What is made of the rows of sequences side by side, wherever these lie, each time it is asked for."""

    def __init__(self, make: Callable[..., T], *rows: Sequence[Any]) -> None:
        self._make, self._rows = make, rows

    def __len__(self) -> int:
        return len(self._rows[0])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, *self._rows)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> Any:
        found = [rows[at] for rows in self._rows]
        return list(map(self._make, *found)) if isinstance(at, slice) else self._make(*found)


def spooled(rows: Iterable[T], kind: str) -> Sequence[T]:
    """The rows as a list, or where they are many in a temporary folder (TMPDIR says where)."""
    rest = iter(rows)
    first = list(islice(rest, IN_MEMORY + 1))
    if len(first) <= IN_MEMORY:
        return first
    folder = _Folder()
    files: list[Path] = []
    sizes: list[int] = []

    def keep(part: Sequence[T]) -> None:
        files.append(folder.path / f"{len(files):07d}.parquet")
        sizes.append(len(part))
        write_parquet(files[-1], part, kind)

    for at in range(0, len(first), _A_FILE):
        keep(first[at : at + _A_FILE])
    del first
    while part := list(islice(rest, _A_FILE)):
        keep(part)
    return Spool(kind, files, sizes, folder)
