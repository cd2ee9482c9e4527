"""Asking the computer-algebra process: safe from any thread, and no expression can hang the caller.

math-verify limits its time by `signal.alarm`, which works in the main thread only and cannot stop a big-integer power.
Here it runs in one helper process a program, started at the first question; what uses up its time is "not equal".
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from functools import lru_cache

__all__ = ["form", "same"]

_MODULE = "footfall._answers_worker"

LONGEST = 400
"""Characters; a longer text is not sent: no final answer is that long, and parsing time grows fast."""
CPU_SECONDS = 3.0
"""Processor time for one question, counted in the helper process, so that a busy machine changes nothing."""
WALL_SECONDS = 60.0
"""A backstop, and the only limit where processor time cannot be limited (Windows)."""


def form(text: str) -> str | None:
    """`text` parsed, simplified and printed back; `None` if that fails or does not end in time."""
    return _form(text) if _reads(text) else None


def same(a: str, b: str) -> bool:
    """Whether math-verify takes the two for equal, in either direction."""
    first, second = sorted((a, b))
    return _reads(first) and _reads(second) and _same(first, second)


@lru_cache(maxsize=1 << 16)
def _reads(text: str) -> bool:
    # Asked before all else: a hostile text costs its time limit once, not once for each partner.
    return len(text) <= LONGEST and _ask("reads", text) is True


@lru_cache(maxsize=1 << 16)
def _form(text: str) -> str | None:
    reply = _ask("form", text)
    return reply if isinstance(reply, str) else None


@lru_cache(maxsize=1 << 16)
def _same(a: str, b: str) -> bool:
    return _ask("same", a, b) is True


class _Worker:
    """The helper process and the lock that lets one question through at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> str:
        """The reply line, or an empty string if the process ended over this question."""
        with self.lock:
            process = self.process = self.process or _start()
            timer = threading.Timer(WALL_SECONDS, process.kill)
            timer.daemon = True
            timer.start()
            reply = ""
            try:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(line + "\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except BrokenPipeError:
                pass
            finally:
                timer.cancel()
                if not reply:  # also after Ctrl-C: a late reply must not be taken for the next question's
                    self.close()
            return reply

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def _start() -> subprocess.Popen[str]:
    # The caller's own path, and not the folder it stands in: that may hold a file called `types.py`.
    path = [entry for entry in sys.path if entry]
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; from {_MODULE} import main; main({CPU_SECONDS})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env={**os.environ, "PYTHONHASHSEED": "0"},
        start_new_session=True,  # Ctrl-C is for the caller
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.kill()
        process.communicate()
        raise RuntimeError(f"cannot compare answers: `{sys.executable} -m {_MODULE}` does not start; run it to see why")
    return process


def _ask(*request: str) -> str | bool | None:
    reply = _worker.ask(json.dumps(request))
    answer: str | bool | None = json.loads(reply) if reply else None
    return answer


def _forget_worker() -> None:
    global _worker
    _worker = _Worker()


_worker = _Worker()
atexit.register(lambda: _worker.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_worker)  # a pipe must not be shared with a forked child
