"""What runs in a Ray actor: the parts of a run, opened once on a processor of its own, and what does a chunk with them.

An actor writes nothing into the run directory; what it made, or what went wrong in words that travel, is its reply.
"""

from __future__ import annotations

import copy
import os
import re
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from footfall.registry import name_files
from footfall.store import Chunk, RunError, Task


@dataclass(frozen=True)
class Call:
    """Work on items of any kind, whose result is no shard of a run."""

    work: Callable[[Any], Any]
    counts: Callable[[], Any] | None = None

    def shard(self, items: Sequence[Any], key: str) -> tuple[Any, int]:
        """What comes of the one item."""
        (item,) = items
        return self.work(item), 1


class Sent(NamedTuple):
    """Something large that the cluster holds once, for all workers that ask for it."""

    place: Any

    def get(self) -> Any:
        """It, in a worker."""
        import ray

        return ray.get(self.place)


@contextmanager
def _errors_that_travel() -> Iterator[None]:
    """Put an error that the driver could not make again from its arguments into the words of one that it can.

    `Error(*error.args)` is how an exception is made again elsewhere. Where its class wants other arguments, Ray has nothing to
    give the driver, which would take the worker for lost.
    """
    try:
        yield
    except Exception as error:
        try:
            copy.copy(error)  # it makes exceptions again in the same way
        except Exception:  # noqa: BLE001  (a class of the user may raise anything)
            *_, at = traceback.extract_tb(error.__traceback__)
            kind = MemoryError if isinstance(error, MemoryError) else RunError
            raise kind(f"{type(error).__name__}: {error} ({at.filename}, line {at.lineno})") from None
        raise


class Worker:
    """What an actor is: the parts, opened once, and what does a chunk."""

    def __init__(
        self, make: Callable[[], Task | Call], folder: str, files: tuple[str, ...], gpus: float, stays: bool
    ) -> None:
        self._make, self._folder, self._files, self._gpus, self._stays = make, folder, files, gpus, stays
        self._task: Task | Call | None = None

    def here(self) -> dict[str, Any]:
        """Which process this is: a worker that can say so has begun, and what it takes from then on is for opening."""
        return {"node": os.uname().nodename, "pid": os.getpid(), "log": os.path.realpath("/proc/self/fd/2")}

    @_errors_that_travel()
    def open(self) -> None:
        """Open the parts, as the driver named them: from the same folder, with the same files of the user's own."""
        if not Path(self._folder).is_dir():
            raise RunError(
                f"{self._folder} is not on {os.uname().nodename}: workers need the folder the run was started in"
            )
        os.chdir(self._folder)
        if not self._gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # those that were not asked for are others'
        name_files(self._files)
        if self._stays:
            stay_on_a_processor()
        self._task = self._make()

    @_errors_that_travel()
    def do(self, chunk: Chunk) -> tuple[Any, int, float, Any]:
        """The chunk's shard, its number of rows, the seconds it took, and what this worker has counted so far."""
        assert self._task is not None
        begun = time.monotonic()
        shard, rows = self._task.shard(chunk.items, chunk.name)
        return shard, rows, time.monotonic() - begun, self._task.counts and self._task.counts()


_held: list[socket.socket] = []
"""By which this process has its processor."""


def stay_on_a_processor(among: str = "workers") -> int | None:
    """Move this process, for good, to a processor that no other process `among` those of this name has; None if all are taken.

    Ray runs workers at low priority, and Linux lets several of those share a processor while others are idle. Who has a
    processor holds an address of its number, which the kernel takes back with the process, however that ends.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    for number in sorted(os.sched_getaffinity(0), key=_core_mates):
        mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            mine.bind(f"\0footfall-{among}-{number}")
        except OSError:
            mine.close()
            continue
        os.sched_setaffinity(0, {number})
        _held.append(mine)
        return number
    return None


def _core_mates(number: int) -> tuple[int, int]:
    """How many threads of the processor's core come before it: second threads are for when all cores are taken."""
    try:
        said = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return 0, number
    return sum(int(each) < number for each in re.split(r"[,-]", said.strip())), number
