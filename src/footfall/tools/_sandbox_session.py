"""A sandbox that lives on: blocks of code share one namespace, as in a notebook, behind the same walls."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import ExitStack
from types import TracebackType

from footfall.tools._sandbox_walls import Start
from footfall.tools._sandbox_watch import Result

__all__ = ["SandboxSession"]

_LAST_SECONDS = 2.0


class SandboxSession:
    """Runs blocks in one Python behind the walls. A limit that is passed ends the session; later blocks are told so.

    A session belongs to the thread that started it: the kernel ends it with that thread.
    """

    def __init__(self, start: Start, warning: str = "") -> None:
        self._limits, self._warning = start.limits, warning
        self._over = ""
        self._replies, their_end = os.pipe()
        with ExitStack() as stack:
            stack.callback(os.close, self._replies)
            folder = None if start.walls else stack.enter_context(tempfile.TemporaryDirectory())
            payload = {"replies": their_end, "cpu_seconds": start.limits.cpu_seconds}
            try:
                self._watch = start("_inside_session", payload, {}, None, folder, (their_end,), cpu_limited=False)
            finally:
                os.close(their_end)
            stack.callback(self._watch.end)
            self._stack = stack.pop_all()

    @property
    def alive(self) -> bool:
        """Whether another block can run."""
        return not self._over

    def run(self, code: str) -> Result:
        """Run one block after those before it. `exit_code` is 1 if it raised; the names it set stay."""
        if self._over:
            return Result("", f"the session is over: {self._over}", None, killed_by="session", warning=self._warning)
        began = time.monotonic()
        self._watch.forget()
        self._watch.give(json.dumps(code).encode() + b"\n")
        how = self._watch.until(self._replies, self._limits.seconds)
        reply = os.read(self._replies, 64) if how == "sign" else b""
        if reply:
            self._watch.drain()
            exit_code = _number(reply)
        else:
            if how == "sign":  # the pipe is closed: the process is about to end, and bubblewrap to say how
                how = self._watch.until(None, _LAST_SECONDS)
            self._end(f"its limit on {how} was passed" if how != "exit" else "its process ended")
            exit_code = self._watch.exit_code()
        return self._watch.result(how, time.monotonic() - began, exit_code, self._warning)

    def close(self) -> None:
        """End the process and all it started."""
        if not self._over:
            self._end("it was closed")

    def _end(self, reason: str) -> None:
        self._over = reason
        self._stack.close()

    def __enter__(self) -> SandboxSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _number(reply: bytes) -> int:
    """The block's exit code; code that writes to the reply pipe itself can only spoil its own."""
    try:
        return int(reply.split(b"\n")[0]) & 0xFF
    except ValueError:
        return 1
