"""Processes of this machine that share the work of a run: they end with it, quietly, whatever ends it.

Ctrl-C in a terminal reaches every process of a command, and one from elsewhere (`kill -INT`) the main one. Here the main one
alone hears it; it ends the workers, or passes it on to those that end by themselves, and the command says its one line. A
worker that the system killed, as it does where memory runs out, is one line too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import parent_process, resource_tracker
from typing import Any, TypeVar

from footfall.store.folder import RunError

T = TypeVar("T")


class Processes(ProcessPoolExecutor):
    """Workers that do not hear Ctrl-C, each begun by `begin(*given)`."""

    def __init__(self, workers: int, begin: Callable[..., None] | None = None, *given: Any) -> None:
        # Not forked: a copy of a process that has threads may hang.
        super().__init__(workers, multiprocessing.get_context("spawn"), _begin, (begin, given))

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Do this in a worker; one that is begun for it has what this thread has blocked."""
        with begun_deaf():
            return super().submit(work, *args, **named)

    def end(self) -> None:
        """At once, whatever they are doing."""
        self._send(signal.SIGKILL)

    def pass_on(self) -> None:
        """Ctrl-C, for those that hear it (`hearing_ctrl_c`)."""
        self._send(signal.SIGINT)

    def _send(self, number: signal.Signals) -> None:
        for process in list((self._processes or {}).values()):
            if process.pid is not None:
                with suppress(ProcessLookupError):  # it has ended
                    os.kill(process.pid, number)


@contextmanager
def begun_deaf() -> Iterator[None]:
    """Processes that are spawned inside do not hear Ctrl-C."""
    resource_tracker.ensure_running()  # which would unblock it, where it is not running yet
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def worker_processes(
    workers: int,
    what: Callable[[], str],
    fewer: str,
    begin: Callable[..., None] | None = None,
    *given: Any,
    waited_for: bool = False,
) -> Iterator[Processes]:
    """`Processes` for the block: after an error they end what they are at, after Ctrl-C they are ended. Where they are
    `waited_for` it is passed on to them instead, each time, and they end by themselves (`hearing_ctrl_c`).

    One that was killed is an error that says `what` was under way, and how the user has `fewer` of them.
    """
    pool = Processes(workers, begin, *given)
    try:
        yield pool
    except BrokenProcessPool:
        raise RunError(
            f"{what()}: a worker process was killed, most likely because memory ran out; {fewer}. "
            "What is finished is kept, and the same command goes on"
        ) from None
    except (KeyboardInterrupt, GeneratorExit):
        if waited_for:
            pool.pass_on()
        else:
            pool.end()
        raise
    finally:
        _shut_down(pool, waited_for)


def _shut_down(pool: Processes, waited_for: bool) -> None:
    while True:
        try:
            return pool.shutdown(cancel_futures=True)
        except KeyboardInterrupt:
            if not waited_for:
                raise
            pool.pass_on()


@contextmanager
def hearing_ctrl_c() -> Iterator[None]:
    """In a worker, for work that ends by itself when it hears it: once, from the main process and not from the terminal."""
    os.setpgid(0, 0)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    _end_with_parent()
    if begin is not None:
        begin(*given)


def _end_with_parent() -> None:
    """A worker that waits for work would not notice: it holds the other end of its pipe itself."""

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
