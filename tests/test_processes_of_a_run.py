"""Processes that share the work of a run: Ctrl-C and a worker that the system killed are one line each, and nobody is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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


HEARING = """
import os, signal, sys, time
from pathlib import Path
from footfall.store.processes import hearing_ctrl_c, worker_processes

def work(folder):
    told = []
    with hearing_ctrl_c():
        signal.signal(signal.SIGINT, lambda *_: told.append(1))
        Path(folder, "begun").touch()
        while not told:
            time.sleep(0.02)
        time.sleep(0.5)  # what comes twice has come by now
    Path(folder, "heard").write_text(str(len(told)))

if __name__ == "__main__":
    with worker_processes(1, lambda: "work", "fewer", waited_for=True) as pool:
        pool.submit(work, sys.argv[1]).result()
"""


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["kill -INT", "a terminal"])
def test_a_worker_that_ends_by_itself_hears_ctrl_c_once_wherever_it_comes_from(
    send: Callable[[int, int], None], tmp_path: Path
) -> None:
    """Sent to the command alone it reached no worker, and rl --quick went on to its end."""
    script = tmp_path / "script.py"
    script.write_text(HEARING)
    begun = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    until = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.05)
    send(begun.pid, signal.SIGINT)
    try:
        begun.wait(30)
    finally:
        begun.kill()
    assert (tmp_path / "heard").read_text() == "1"


SCRIPTED = """
import sys
import scripts.%s as script
from scripts.loop_data import Problem, Trajectory

def work():
    %s

if __name__ == "__main__":
    sys.stderr.write("begun\\n")
    work()
"""


@pytest.mark.parametrize(
    ("script", "work"),
    [
        ("train_embedded", "script.corpus(10**7, 0, 3, 10**7)"),
        (
            "loop_data",
            "script.equal_answers([[Trajectory('t', Problem('p', '?'), (), answer=str(k)) for k in range(300)]] * 2000)",
        ),
    ],
)
def test_ctrl_c_ends_the_workers_of_a_script_without_a_word_of_theirs(script: str, work: str, tmp_path: Path) -> None:
    """Each printed a traceback of its own; that of the script itself stays."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPTED % (script, work))
    begun = subprocess.Popen(
        [sys.executable, str(file)], stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert begun.stderr is not None and begun.stderr.readline() == "begun\n"
    time.sleep(4)  # some wait for work, some are at it
    os.killpg(begun.pid, signal.SIGINT)
    _, said = begun.communicate(timeout=60)
    assert said.count("Traceback (most recent call last)") == 1 and said.endswith("KeyboardInterrupt\n")
    assert "Process " not in said


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
