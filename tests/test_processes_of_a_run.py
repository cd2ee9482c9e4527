"""Processes that share the work of a run: Ctrl-C and a worker that the system killed are one line each, and nobody is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from footfall.store import RunError
from footfall.store.processes import worker_processes

STARTED = """
import os, signal, sys, time
from pathlib import Path
from footfall.cli import main
from footfall.store.processes import worker_processes

def work(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)

def command(config):
    with worker_processes(3, lambda: "work", "fewer") as pool:
        for future in [pool.submit(work, sys.argv[1]) for _ in range(2)]:  # the third has nothing to do
            future.result()

if __name__ == "__main__":
    import footfall.commands.demo
    footfall.commands.demo.main = command
    sys.exit(main(["demo"]))
"""


def test_ctrl_c_ends_workers_without_a_word_of_theirs(tmp_path: Path) -> None:
    script, told = tmp_path / "script.py", tmp_path / "told"
    script.write_text(STARTED)
    told.mkdir()
    begun = subprocess.Popen(
        [sys.executable, str(script), str(told)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + 60
    while len(list(told.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    workers = [int(path.name) for path in told.iterdir()]
    os.killpg(begun.pid, signal.SIGINT)  # as a terminal does: all processes of the command
    _, said = begun.communicate(timeout=30)
    assert begun.returncode == 130
    assert said.startswith("footfall: stopped;") and len(said.splitlines()) == 1
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_a_worker_that_was_killed_is_one_error_with_its_work_and_the_fix() -> None:
    with (
        pytest.raises(
            RunError, match=r"^omegaprm seed 3: a worker process was killed, .* memory .*; pass fewer --workers\."
        ),
        worker_processes(1, lambda: "omegaprm seed 3", "pass fewer --workers") as pool,
    ):
        pool.submit(os.kill, os.getpid(), 0).result()
        pool.submit(_kill_itself).result()


def test_work_that_fails_is_told_as_it_failed() -> None:
    with pytest.raises(ZeroDivisionError), worker_processes(1, lambda: "work", "fewer") as pool:
        pool.submit(divmod, 1, 0).result()


def _kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
