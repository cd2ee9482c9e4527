"""Runs that ask judges anew: what they are told is an edition of its own in the rollout store (`footfall.drive.rollout_store`).

The run keeps the edition's name until it is finished. One that was killed goes on with the replies that it has, and with no
other, whether it is asked for anew once more or not.
"""

from __future__ import annotations

import time
from pathlib import Path

from footfall.formats import atomic_write

__all__ = ["begin_edition", "edition_of", "end_edition"]

_MARK = ".again"


def edition_of(folder: Path, again: bool, fresh: bool) -> str:
    """The edition that the run in the folder has begun; if none, a new one to ask anew for, or "" for what is there."""
    mark = folder / _MARK
    if mark.is_file() and not fresh:
        return mark.read_text(encoding="ascii")
    return f"{time.time_ns():020d}" if again or fresh else ""  # the last is found first, so names grow


def begin_edition(folder: Path, edition: str) -> None:
    """Note that the run asks for this edition, if it is one."""
    if edition:
        with atomic_write(folder / _MARK) as stream:
            stream.write(edition.encode("ascii"))


def end_edition(folder: Path) -> None:
    """The run is finished; the next that asks anew has another edition."""
    (folder / _MARK).unlink(missing_ok=True)
