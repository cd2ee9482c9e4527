"""A helper process that answers a line with a line: what may not end, or may take all memory, is done there and killed."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading

_WALL_SECONDS = 600.0 if hasattr(signal, "setitimer") else 60.0
"""A backstop for a helper that waits and does not work; it may get a hundredth of a core for its few seconds. Where processor
time cannot be limited (Windows) it is the only limit."""


class HelperProcess:
    """A process that answers a line with a line, started at the first question: safe from any thread, and never a hang.

    `module` has a `main(cpu_seconds)` that says `ready` and then serves; `cpu_seconds` is the processor time for one question,
    counted in the helper, so that a busy machine changes nothing. `remedy` is what to do where it does not start.
    """

    def __init__(self, module: str, cpu_seconds: float, remedy: str) -> None:
        self.module, self.cpu_seconds, self.remedy = module, cpu_seconds, remedy
        self.forget()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)  # a pipe must not be shared with a forked child

    def forget(self) -> None:
        """Begin anew, with one question let through at a time."""
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> str:
        """The reply line, or an empty string if the process ended over this question."""
        with self.lock:
            process = self.process = self.process or self._start()
            timer = threading.Timer(_WALL_SECONDS, process.kill)
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
        """End the process, if there is one; the next question starts another."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _start(self) -> subprocess.Popen[str]:
        # The caller's own path, and not the folder it stands in: that may hold a file called `types.py`.
        path = [entry for entry in sys.path if entry]
        script = f"import sys; sys.path[:] = {path!r}; from {self.module} import main; main({self.cpu_seconds})"
        process = subprocess.Popen(
            [sys.executable, "-c", script],
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
            raise RuntimeError(f"the helper process `{sys.executable} -m {self.module}` does not start: {self.remedy}")
        return process
