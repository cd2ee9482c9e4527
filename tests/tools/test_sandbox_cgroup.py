"""A cgroup for each sandbox, with a folder in the kernel's place; and sessions, which hold nothing between their blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from footfall.tools import Limits, Sandbox, _sandbox_cgroup, why_no_cgroup, why_no_walls
from tests.tools.test_sandbox_attacks import left_behind, marked

needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")
LIMITS = Limits(seconds=3, cpu_seconds=1, memory_mb=128, disk_mb=4)


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is taken for a cgroup; what is written there stays to be read."""
    monkeypatch.setenv(_sandbox_cgroup.VARIABLE, str(tmp_path))
    monkeypatch.setattr(_sandbox_cgroup, "_REMOVAL_SECONDS", 0.0)
    return tmp_path


@needs_walls
def test_a_program_starts_in_a_group_with_its_limits_and_the_group_is_ended_with_it(groups: Path) -> None:
    assert why_no_cgroup() is None
    for made in groups.iterdir():
        for file in made.iterdir():
            file.unlink()
        made.rmdir()
    assert Sandbox(LIMITS).run("print(1)").stdout == "1\n"
    (group,) = groups.iterdir()
    told = {file.name: file.read_text().strip() for file in group.iterdir()}
    assert int(told.pop("cgroup.procs")) > 1
    assert told == {
        "memory.max": str(133 << 20), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "24",
        "cpu.weight": "20", "cgroup.kill": "1",
    }  # fmt: skip


@needs_walls
def test_a_program_that_the_kernel_ended_for_its_memory_says_so(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sandbox_cgroup.Group, "out_of_memory", lambda group: True)
    result = Sandbox(LIMITS).run("import os; os.kill(os.getpid(), 9)")
    assert result.killed_by == "memory" and result.exit_code is None


@needs_walls
def test_a_group_that_cannot_be_entered_is_not_used(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sandbox_cgroup, "ENTER", "exit 1")
    assert "may enter" in str(why_no_cgroup())
    assert Sandbox(LIMITS).run("print(1)").stdout == "1\n"


def test_events_of_the_kernel_are_read(tmp_path: Path) -> None:
    group = _sandbox_cgroup.Group(tmp_path)
    assert not group.out_of_memory()
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert group.out_of_memory()


def test_where_no_group_can_be_made_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_sandbox_cgroup.VARIABLE, str(tmp_path / "none"))
    assert "is no folder" in str(why_no_cgroup()) and _sandbox_cgroup.make_group(1, 1) is None
    monkeypatch.delenv(_sandbox_cgroup.VARIABLE)
    monkeypatch.setattr(_sandbox_cgroup, "_MOUNT", tmp_path)
    assert "no cgroup v2" in str(why_no_cgroup())
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    assert why_no_cgroup() is not None


@pytest.mark.skipif(why_no_cgroup() is not None or why_no_walls() is not None, reason=f"no cgroup: {why_no_cgroup()}")
def test_the_kernel_holds_children_to_the_limit_together() -> None:
    code = (
        "import os\nfor _ in range(3): os.fork()\nx = bytearray(os.urandom(1 << 20)) * 100\nimport time; time.sleep(3)"
    )
    assert Sandbox(LIMITS).run(code).killed_by == "memory"


@needs_walls
def test_children_that_a_block_leaves_behind_are_ended_and_the_session_goes_on() -> None:
    child, name = marked("time.sleep(60)")
    body = child.replace("\n", "; ")
    with Sandbox(LIMITS).session() as session:
        session.run("x = 1")
        started = f"import os, time\nfor _ in range(4):\n    if os.fork() == 0: {body}; os._exit(0)\ntime.sleep(0.2)"
        assert session.run(started).exit_code == 0 and session.alive
        states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in left_behind(name, 0.0)]
        assert set(states) <= {"Z"}, "ended; the stopped parent has not been told yet"
        assert session.run("print(x)").stdout == "1\n"


@needs_walls
def test_nothing_runs_between_blocks() -> None:
    with Sandbox(LIMITS).session() as session:
        session.run("x = 1")
        worker = session._watch._own[-1]
        assert Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        assert session.run("print(x)").stdout == "1\n"


@needs_walls
def test_a_thread_cannot_answer_for_a_later_block() -> None:
    spray = (
        "import os, threading, time\n"
        "def go():\n    while True:\n        for fd in range(3, 64):\n            try: os.write(fd, b'0\\n')\n"
        "            except OSError: pass\n        time.sleep(0.001)\n"
    )
    with Sandbox(LIMITS).session() as session:
        assert session.run(spray + "threading.Thread(target=go, daemon=True).start()").exit_code == 0
        later = session.run("raise ValueError")
        assert later.exit_code != 0 and "a thread outlived its block" in later.stderr


@needs_walls
def test_a_thread_that_ends_the_process_between_blocks_does_not_say_how_the_next_one_ended() -> None:
    leave = "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(.2), os._exit(0)), daemon=True).start()"
    with Sandbox(Limits(seconds=10)).session() as session:
        assert session.run(leave).exit_code == 0
        later = session.run("raise ValueError")
        assert later.exit_code is None and later.killed_by == "session"
        assert "outlived its block" in later.stderr or "ended after the block" in later.stderr


@needs_walls
def test_replies_written_beforehand_answer_for_nothing() -> None:
    spray = "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'0\\n' * 50)\n    except OSError: pass"
    with Sandbox(LIMITS).session() as session:
        assert session.run(spray).exit_code == 0
        assert session.run("raise ValueError").exit_code == 1 and session.run("x = 1").exit_code == 0


@needs_walls
def test_a_thread_that_was_joined_ends_nothing() -> None:
    code = (
        "import threading\nthreads = [threading.Thread(target=lambda: None) for _ in range(8)]\n"
        "for thread in threads: thread.start()\nfor thread in threads: thread.join()"
    )
    with Sandbox(LIMITS).session() as session:
        assert session.run(code).exit_code == 0 and session.alive


@needs_walls
def test_a_block_cannot_raise_its_limit_on_processor_time() -> None:
    burn = (
        "import resource, signal, time\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2)\nwhile True: pass"
    )
    with Sandbox(Limits(seconds=60, cpu_seconds=1)).session() as session:
        assert session.run(burn).killed_by == "cpu" and not session.alive
