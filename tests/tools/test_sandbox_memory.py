"""Memory that the kernel holds for a program counts as the program's. Each test filled the host before it was counted."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

import pytest

from footfall.tools import Limits, Sandbox, _sandbox_watch, why_no_walls
from tests.tools.attacking import LIBC, attack, refused

needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")
PATIENT = Limits(seconds=10, cpu_seconds=10, memory_mb=96)
FORKS = "import os, time\nfor _ in range(12):\n    if os.fork() == 0: break\n"

SOCKETS = f"""{FORKS}
import socket
pairs = []
try:
    while True:
        pairs.append(socket.socketpair())
        for end in pairs[-1]:
            end.setblocking(False)
            try:
                while True: end.send(bytes(1 << 16))
            except BlockingIOError: pass
except OSError: time.sleep(9)
"""
PAGE_TABLES = f"""{LIBC}
import time
for n in range(30_000):
    at = libc('mmap', (64 << 30) + (n << 30), 4096, 1, 0x100022, -1, 0)  # one page for each gigabyte, only read
    ctypes.string_at(at, 1)
time.sleep(9)
"""
EMPTY_FILES = """
import os, time
for n in range(300_000): os.mknod('x' * 200 + str(n))
time.sleep(9)
"""


@needs_walls
@pytest.mark.parametrize("code", [SOCKETS, PAGE_TABLES, EMPTY_FILES], ids=["sockets", "page-tables", "empty-files"])
def test_memory_of_the_kernel_counts(code: str) -> None:
    result = attack(code, PATIENT)
    assert result.killed_by == "memory" and result.exit_code is None, result


@needs_walls
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full"])
def test_no_device_gives_shared_memory_without_a_file(device: str) -> None:
    refused(f"import mmap, os; mmap.mmap(os.open({device!r}, os.O_RDWR), 4096)")


@needs_walls
def test_sockets_that_are_under_way_in_another_are_few() -> None:
    code = (
        "import socket\n"
        "carrier, _ = socket.socketpair()\n"
        "carrier.setblocking(False)\n"
        "sent = 0\n"
        "try:\n"
        "    while sent < 1000:\n"
        "        pairs = [socket.socketpair() for _ in range(25)]\n"
        "        sent += 50 * bool(socket.send_fds(carrier, [b'x'], [end.fileno() for pair in pairs for end in pair]))\n"
        "        del pairs\n"
        "except OSError: pass\n"
        "print(sent)"
    )
    assert 0 < int(attack(code).stdout) <= 2 * _sandbox_watch.OPEN_FILES


@needs_walls
@pytest.mark.parametrize("name", [r"\x0bVmRSS: x kB", r"\nVmRSS: x kB", r"\x0cVm", r"\xffVm"])
def test_a_process_cannot_lie_about_its_size_by_its_name(name: str) -> None:
    code = f"{LIBC}\nimport time\nlibc('prctl', 15, b'{name}')\ntime.sleep(0.2)\n"
    assert attack(code).ok
    assert attack(code + FORKS + "x = bytearray(b'x') * (40 << 20)\ntime.sleep(9)", PATIENT).killed_by == "memory"


@needs_walls
def test_a_program_below_its_limit_is_left_alone() -> None:
    code = (
        "import socket, time\nx = bytearray(40 << 20)\npairs = [socket.socketpair() for _ in range(10)]\n"
        "for n in range(1000): open(str(n), 'w')\ntime.sleep(0.3)\nprint('done')"
    )
    assert Sandbox(PATIENT).run(code).stdout == "done\n"


def test_a_process_is_charged_for_its_open_sockets() -> None:
    here = os.getpid()
    before = _sandbox_watch._buffers([here])
    pairs = [socket.socketpair() for _ in range(5)]
    try:
        assert _sandbox_watch._buffers([here]) - before == 10 * _sandbox_watch.socket_bytes()
        assert _sandbox_watch._buffers([here, here]) == _sandbox_watch._buffers([here])  # shared ones count once
    finally:
        for pair in pairs:
            for end in pair:
                end.close()


def test_a_named_pipe_counts_as_a_pipe(tmp_path: Path) -> None:
    here = os.getpid()
    before = _sandbox_watch._buffers([here])
    os.mkfifo(tmp_path / "named")
    ends = [*os.pipe(), os.open(tmp_path / "named", os.O_RDWR)]
    try:
        assert _sandbox_watch._buffers([here]) - before == 2 * 16 * mmap.PAGESIZE
    finally:
        for end in ends:
            os.close(end)


def test_each_piece_of_memory_counts() -> None:
    before = _sandbox_watch._pieces(os.getpid())
    pieces = [mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ) for _ in range(300)]
    try:
        assert _sandbox_watch._pieces(os.getpid()) - before >= 250
    finally:
        for piece in pieces:
            piece.close()


def test_a_process_that_ended_holds_nothing() -> None:
    gone = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    assert _sandbox_watch.tree(gone) == [gone] and not _sandbox_watch.holds_more_than(1, [gone])
