"""Writing that happens wholly or not at all: a file has its old content or its new one, whenever the process is killed.

What is written goes into a file beside the target, which takes its place when all of it is on the disk. Half-written ones of
killed processes are known by their names and by a lock that nobody holds, and are swept.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from footfall.formats.records import FormatError

_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp")
_swept: set[Path] = set()
"""Folders that this process has written into: strays are looked for before the first time."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` when the block ends well; on any error nothing is left behind.

    What killed processes left in that folder is swept before this process writes there first. A link stays one: what it leads
    to is written. A pipe or device is refused, for it would be gone and a file in its place. Who may read and write a file
    stays as it was.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        raise FormatError(
            str(target), "a file to write", got="a pipe or device", fix="write a file, then copy it there"
        )
    if target.is_symlink():
        target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise FormatError(str(target), "a directory to write into", got="none", fix=f"mkdir -p {target.parent}")
    if target.is_dir():
        raise FormatError(str(target), "a file to write", got="a directory")
    if (folder := target.parent.absolute()) not in _swept:
        _swept.add(folder)
        sweep(folder)
    temporary, stream = _temporary(target)
    try:
        with naming_file(target, temporary):
            with stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                temporary.replace(target)
            _sync_directory(target.parent)
    except BaseException:  # Ctrl-C too: nothing half written may stay
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def naming_file(path: Path, instead_of: Path | None = None) -> Iterator[None]:
    """A system call on an open file fails without a name: an error of one names this file, also instead of another."""
    try:
        yield
    except OSError as error:
        if error.strerror and error.filename in (None, str(instead_of)):
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise


def remove_folder(folder: Path) -> None:
    """With all that is in it; an error names the folder, where the system call of `shutil.rmtree` names a file without one."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(folder)) from error


def remove(path: Path) -> None:
    """A file, a link, or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    else:
        path.unlink(missing_ok=True)


def _temporary(target: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside the target, locked for as long as it is open: `sweep` must not take it for a stray one.

    It has the target's mode from the start, so that what is private is at no moment open to others.
    """
    mode = stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else None
    while True:
        path = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        stream = open(path, "xb", opener=None if mode is None else partial(os.open, mode=mode))  # noqa: SIM115
        if _locked(stream) and os.fstat(stream.fileno()).st_nlink:
            if mode is not None and stat.S_IMODE(path.stat().st_mode) != mode:
                path.chmod(mode)  # of which the umask had left something out
            return path, stream
        stream.close()  # swept before it was locked


def _locked(stream: IO[bytes]) -> bool:
    """Whether this process holds the file now, where the system has such locks."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES)  # a file system without locks
    return True


def sweep(place: Path) -> None:
    """Remove what killed processes left half-written of a file, or of any file of a folder; what a living one writes stays."""
    folder = place if place.is_dir() else place.parent
    for stray in folder.glob(".*.tmp"):
        ours = _TEMPORARY.fullmatch(stray.name)
        if ours and (folder == place or ours[1] == place.name):
            with suppress(FileNotFoundError, PermissionError), stray.open("rb") as stream:
                if _locked(stream):
                    stray.unlink()


def _sync_directory(directory: Path) -> None:
    """Makes the rename itself durable, where the system lets a directory be opened."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
