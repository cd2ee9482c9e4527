"""Writing that happens wholly or not at all: a temporary file beside the target, fsync, rename."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from footfall.formats.errors import FormatError

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` when the block ends well; on any error nothing is left behind."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FormatError(str(target), "a directory to write into", got="none", fix=f"mkdir -p {target.parent}")
    if target.is_dir():
        raise FormatError(str(target), "a file to write", got="a directory")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Makes the rename itself durable, where the system lets a directory be opened."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
