"""Python programs as processes of their own, without the seconds in which each would load torch and transformers: they are
forked from a process that has loaded them and does nothing else. What a program does from its first line to
its end, by SIGKILL too, is what `python …` would do; tests of the start itself, and of torchrun, use `subprocess`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

LOADED = ["torch", "transformers.trainer", "peft", "datasets", "trl.trainer.grpo_trainer", "s3fs", "footfall.cli",
          "footfall.train", "footfall.rl.loop"]  # fmt: skip
"""By the process that the others are forked from; what is not installed is left out."""


class Forked:
    """`python WORDS` with what `subprocess.Popen` has of methods. Words begin with `-m MODULE`, `-c SOURCE` or a file."""

    def __init__(self, words: Sequence[object], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(LOADED)
        self._folder = tempfile.TemporaryDirectory(prefix="footfall-forked-")
        self._written = [Path(self._folder.name) / name for name in ("printed", "said")]
        given = [*map(str, words)], str(cwd or Path.cwd()), dict(os.environ if env is None else env)
        # A daemon: one that a failed test leaves behind is ended with the tests.
        self.process = context.Process(target=_run, args=(*given, self._written), daemon=True)
        self.process.start()
        self.pid = int(self.process.pid)

    @property
    def returncode(self) -> int | None:
        """As `subprocess` has it: −9 after SIGKILL."""
        code: int | None = self.process.exitcode
        return code

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self.returncode

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        self.process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.process.name, timeout or 0.0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to standard output and error, when it has ended."""
        self.wait(timeout)
        printed, said = (path.read_text(encoding="utf-8") if path.exists() else "" for path in self._written)
        return printed, said


def run(
    words: Sequence[object], cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with its output."""
    process = Forked(words, cwd, env)
    printed, said = process.communicate(timeout)
    return subprocess.CompletedProcess([*map(str, words)], process.wait(), printed, said)


class Job:
    """`torchrun --nproc-per-node=N WORDS`: the store in which processes meet is here; when one fails the others are ended."""

    def __init__(self, processes: int, words: Sequence[object], **environment: str) -> None:
        distributed: Any = import_module("torch.distributed")
        self._store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self._store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
                 "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "test", "OMP_NUM_THREADS": "1",
                 "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}  # fmt: skip
        self.processes = [
            Forked(words, env={**os.environ, **place, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(processes)
        ]

    @property
    def returncode(self) -> int | None:
        """0 if all ended well, None while one runs and none has failed."""
        codes = [process.poll() for process in self.processes]
        return next((code for code in codes if code), None if None in codes else 0)

    def poll(self) -> int | None:
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What all wrote, in the order of their ranks, when all have ended."""
        deadline = time.monotonic() + timeout
        while self.returncode is None and time.monotonic() < deadline:
            time.sleep(0.02)
        late = self.returncode is None
        for process in self.processes:
            if late or self.returncode:
                process.kill()
        printed, said = zip(*(process.communicate() for process in self.processes), strict=True)
        if late:
            raise subprocess.TimeoutExpired("a job of several processes", timeout, "".join(printed), "".join(said))
        return "".join(printed), "".join(said)


def _run(words: list[str], cwd: str, environment: dict[str, str], written: list[Path]) -> None:
    """In the new process: become `python WORDS`."""
    multiprocessing.current_process().daemon = False  # a daemon may have no children
    for descriptor, place in enumerate(written, 1):
        os.dup2(os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT), descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    if (threads := environment.get("OMP_NUM_THREADS")) and "torch" in sys.modules:
        import torch

        torch.set_num_threads(int(threads))
    kind, *rest = words
    try:
        if kind == "-m":
            sys.argv = rest
            sys.path.insert(0, cwd)
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.argv = ["-c", *rest[1:]]
            sys.path.insert(0, cwd)
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(kind).parent))
            runpy.run_path(kind, run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out
