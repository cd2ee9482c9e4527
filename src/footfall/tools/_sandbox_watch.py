"""Watching a sandboxed process from outside: feed it, read it with a hard cap, and end it when a limit is passed.

How much memory a tree of processes holds is their pages and what the kernel keeps for them. The kernel's part is in no
process's resident size: page tables (a page that is only read counts as nothing, its tables take 8 KiB), the list of the
pieces of memory, the buffers behind sockets and pipes, and the files of a private folder, of which an empty one takes a
kilobyte.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import IO

from footfall.tools._sandbox_cgroup import Group

TICK = 0.05
"""Seconds between two looks at memory and processes."""
FLOOD = 16
"""Output past the cap is thrown away; past this many times the cap the program is ended."""
_CHUNK = 1 << 16
_DRAIN_SECONDS = 2.0
OPEN_FILES = 64
"""Descriptors of one process."""
_CPU_GRACE = 1.0
"""Above its limit, which the process is told of first by a signal."""
_REST_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PIPE_BYTES = 16 * _PAGE
_FILE_BYTES = 2048
"""An empty file with a long name: measured 1300 bytes of inode, name and directory entry."""
_PIECE_BYTES = 256
"""The kernel's record of one mapping, which is a page or more."""
_PRIVATE_FOLDERS = ("tmp", "dev/shm")


@dataclass(frozen=True)
class Limits:
    """What one program may use. `memory_mb` holds for all processes together, with what the kernel keeps for them."""

    seconds: float = 5
    cpu_seconds: int = 5
    memory_mb: int = 512
    processes: int = 16
    output_bytes: int = 65536
    disk_mb: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"limit {field.name} must be above zero, not {getattr(self, field.name)}")
        if self.memory_mb < 64:
            raise ValueError(f"limit memory_mb must be at least 64 (Python itself needs some), not {self.memory_mb}")


@dataclass(frozen=True)
class Result:
    """What came of a program. `exit_code` is `None` if it was ended from outside.

    `killed_by` says what ended it: a limit (`time`, `cpu`, `memory`, `processes`, `output`) or a signal (`SIGSEGV`).
    """

    stdout: str
    stderr: str
    exit_code: int | None
    timed_out: bool = False
    killed_by: str | None = None
    truncated: bool = False
    seconds: float = 0.0
    warning: str = ""

    @property
    def ok(self) -> bool:
        """Whether the program ran to its end and left with exit code 0."""
        return self.exit_code == 0


class Watch:
    """One running process with its streams. `until` waits for a signal, the end or a broken limit."""

    def __init__(
        self, process: subprocess.Popen[bytes], limits: Limits, stdin: bytes | None = b"", group: Group | None = None
    ) -> None:
        assert process.stdout is not None and process.stderr is not None
        self.process, self.limits, self.group = process, limits, group
        self._out_of_memory = False
        self._cpu_before: dict[int, float] | None = None
        self._own: list[int] = []
        """The processes before the first block; the last is the one that runs them."""
        self.streams: tuple[IO[bytes], IO[bytes]] = (process.stdout, process.stderr)
        self.selector = selectors.DefaultSelector()
        for stream in self.streams:
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream.fileno(), selectors.EVENT_READ)
        self.forget()
        self._to_feed = memoryview(b"")
        self._keep_stdin = stdin is None
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        if stdin is not None:
            self.give(stdin)

    def give(self, data: bytes) -> None:
        """Write to the process while it is being watched; never blocks, whatever the process does with it."""
        assert self.process.stdin is not None
        if not self._to_feed:
            self.selector.register(self.process.stdin.fileno(), selectors.EVENT_WRITE)
        self._to_feed = memoryview(bytes(self._to_feed) + data)

    def forget(self) -> None:
        """Begin to count output anew."""
        self.kept = {stream.fileno(): bytearray() for stream in self.streams}
        self.seen = dict.fromkeys(self.kept, 0)

    @property
    def truncated(self) -> bool:
        return any(seen > self.limits.output_bytes for seen in self.seen.values())

    def text(self) -> tuple[str, str]:
        """What was written to stdout and stderr, up to the cap; bytes that are not UTF-8 are replaced."""
        out, err = (kept.decode("utf-8", "replace") for kept in self.kept.values())
        return out, err

    def until(self, sign: int | None, seconds: float) -> str:
        """Wait until `sign` can be read ("sign") or the process is over ("exit"), or say which limit was passed."""
        if sign is not None:
            self.selector.register(sign, selectors.EVENT_READ)
        now = time.monotonic()
        deadline, next_look = now + seconds, now
        try:
            while True:
                if now >= next_look:
                    broken = self._look()
                    if broken:
                        return broken
                    next_look = now + TICK
                if now >= deadline:
                    return "time"
                if self._serve(min(deadline, next_look) - now, sign):
                    return "sign"
                if max(self.seen.values()) > FLOOD * self.limits.output_bytes:
                    return "output"
                if self._over():
                    return "exit"
                now = time.monotonic()
        finally:
            if sign is not None:
                self.selector.unregister(sign)

    def end(self) -> None:
        """Kill the process and all it started, and read what is left in its pipes."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.group is not None:
            self._out_of_memory = self.group.out_of_memory()
            self.group.end()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while not self._over() and time.monotonic() < deadline:
            self._serve(TICK, None)
        self.process.wait()
        self.close()

    def close(self) -> None:
        self.selector.close()
        for stream in (*self.streams, self.process.stdin):
            if stream is not None and not stream.closed:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _over(self) -> bool:
        """The process is gone, and so is what it wrote. A stray child that keeps the pipe open is not waited for."""
        open_pipes = {key.fd for key in self.selector.get_map().values()} & self.kept.keys()
        if open_pipes:
            return self.process.poll() is not None and not self._serve_now()
        try:
            self.process.wait(TICK)
        except subprocess.TimeoutExpired:
            return False
        return True

    def drain(self) -> None:
        """Read what is in the pipes now."""
        while self._serve_now() and max(self.seen.values()) <= FLOOD * self.limits.output_bytes:
            pass

    def result(self, how: str, seconds: float, exit_code: int | None, warning: str = "") -> Result:
        """The plain result. `how` is what `until` said; a code above 128 is a signal, as in a shell."""
        out, err = self.text()
        killed_by = None
        if self._out_of_memory:
            how = "memory"
        if how not in ("sign", "exit"):
            exit_code, killed_by = None, how
        elif exit_code is not None and exit_code > 128:
            killed_by = _signal_name(exit_code - 128)
        timed_out = killed_by in ("time", "cpu")
        return Result(out, err, exit_code, timed_out, killed_by, self.truncated, seconds, warning)

    def exit_code(self) -> int:
        """The code that the ended process left with; a process ended by signal n has left with 128 + n."""
        code = self.process.returncode
        return 128 - code if code < 0 else code

    def _serve_now(self) -> bool:
        before = sum(self.seen.values())
        self._serve(0, None)
        return sum(self.seen.values()) > before

    def _serve(self, seconds: float, sign: int | None) -> bool:
        """Move bytes for at most `seconds`; true if the sign came."""
        came = False
        for key, _ in self.selector.select(max(0.0, seconds)):
            if key.fd == sign:
                came = True
            elif key.fd in self.kept:
                self._read(key.fd)
            elif key.events & selectors.EVENT_WRITE:
                self._feed(key.fd)
            # Else it is a sign that is not asked for now: it stays readable for the next look.
        return came

    def _read(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not data:
            self.selector.unregister(fd)
        self.seen[fd] += len(data)
        self.kept[fd] += data[: max(0, self.limits.output_bytes - len(self.kept[fd]))]

    def _feed(self, fd: int) -> None:
        assert self.process.stdin is not None
        try:
            self._to_feed = self._to_feed[os.write(fd, self._to_feed[:_CHUNK]) :]
        except BrokenPipeError:
            self._to_feed = self._to_feed[:0]
        if not self._to_feed:
            self.selector.unregister(fd)
            if not self._keep_stdin:
                self.process.stdin.close()

    def _look(self) -> str | None:
        """The limit of all processes together that is passed, if one is."""
        pids = tree(self.process.pid)
        if len(pids) > self.limits.processes + 3:  # bubblewrap has up to three of its own
            return "processes"
        if self._cpu_before is not None:
            used = (seconds - self._cpu_before.get(pid, 0.0) for pid, seconds in _cpu_seconds(pids).items())
            if max(used, default=0.0) > self.limits.cpu_seconds + _CPU_GRACE:
                return "cpu"
        return "memory" if holds_more_than(self.limits.memory_mb << 20, pids) else None

    def wake(self) -> None:
        """Let the stopped process run again, for a block of its own: processor time is counted from here."""
        pids = tree(self.process.pid)
        self._own = self._own or pids
        self._cpu_before = _cpu_seconds(pids)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._own[-1], signal.SIGCONT)

    def rest(self) -> str:
        """Stop the process until it is woken and end those that it started; what is left over if that cannot be done."""
        deadline = time.monotonic() + _REST_SECONDS
        while _threads(self._own[-1]) > 1 and time.monotonic() < deadline - _REST_SECONDS / 2:
            time.sleep(0.002)  # one that was joined is gone in a moment
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._own[-1], signal.SIGSTOP)
        while _state(self._own[-1]) not in "TZX" and time.monotonic() < deadline:
            time.sleep(0.0005)
        while True:
            others = [pid for pid in set(tree(self.process.pid)).difference(self._own) if _state(pid) not in "ZX"]
            if not others:
                break
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return "a process outlived its block"
            time.sleep(0.002)
        if _state(self._own[-1]) in "ZX":  # ended by what the block left running: no later block may be told of its end
            return "its process ended after the block"
        return "a thread outlived its block" if _threads(self._own[-1]) > 1 else ""


def _cpu_seconds(pids: Iterable[int]) -> dict[int, float]:
    """Processor time of each process, all its threads together."""
    found: dict[int, float] = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def _state(pid: int) -> str:
    """The kernel's letter: T is stopped, Z ended and not yet told of, X gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return "X"


def _threads(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 1


def _signal_name(number: int) -> str | None:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return None
    return "cpu" if name == "SIGXCPU" else name


def tree(root: int) -> list[int]:
    """The process and all that descend from it; one entry where the system does not tell."""
    found: list[int] = []
    todo = [root]
    while todo and len(found) < 10_000:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # it ended meanwhile
    return found


def holds_more_than(most: int, pids: Sequence[int]) -> bool:
    """Whether the processes hold more than `most` bytes together: first a quick bound from above, then the slower truth."""
    statuses = {pid: _status(pid) for pid in pids}
    sure = _files(pids) * _FILE_BYTES + sum(status.get("VmPTE", 0) for status in statuses.values())
    pages = {pid: status.get("VmRSS", 0) + status.get("VmSwap", 0) for pid, status in statuses.items()}
    pieces = sum(status.get("VmSize", 0) for status in statuses.values()) // _PAGE
    rough = sum(pages.values()) + pieces * _PIECE_BYTES + len(pids) * OPEN_FILES * socket_bytes()
    if sure + rough <= most:
        return False
    own = sum(_own_bytes(pid, at_most) for pid, at_most in pages.items())
    return sure + own + sum(map(_pieces, pids)) * _PIECE_BYTES + _buffers(pids) > most


@cache
def socket_bytes() -> int:
    """The most that waits in one socket: its buffer and one piece of half that size which was let in before it was full."""
    try:
        return int(Path("/proc/sys/net/core/wmem_default").read_text()) * 3 // 2
    except (OSError, ValueError):
        return 3 << 17


def _status(pid: int) -> dict[str, int]:
    """The sizes that the kernel tells of a process, in bytes; none if it ended meanwhile."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().split(b"\n")  # a name may hold what else ends a line
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.startswith(b"Vm"))
    return {name.rstrip(b":").decode(): int(kilobytes) << 10 for name, kilobytes, _ in sizes}


def _own_bytes(pid: int, at_most: int) -> int:
    """Memory with shared pages split among those who share them: forked copies count once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return at_most
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss:", "SwapPss:")))


def _pieces(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def _buffers(pids: Iterable[int]) -> int:
    """What the open sockets and pipes hold when they are full; the kernel does not tell how full they are."""
    found: dict[tuple[int, int], int] = {}
    hidden = 0
    for pid in pids:
        try:
            found.update(_buffers_of(pid))
        except PermissionError:
            hidden += OPEN_FILES
        except OSError:
            continue  # it ended meanwhile
    return sum(found.values()) + hidden * socket_bytes()


def _buffers_of(pid: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Each open socket and pipe of a process, by its device and number, with what it may hold."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            seen = descriptor.stat()
        except FileNotFoundError:
            continue  # closed meanwhile
        if stat.S_ISSOCK(seen.st_mode):
            yield (seen.st_dev, seen.st_ino), socket_bytes()
        elif stat.S_ISFIFO(seen.st_mode):
            yield (seen.st_dev, seen.st_ino), _PIPE_BYTES


def _files(pids: Sequence[int]) -> int:
    """Files in the private folders. The first process is outside the walls, those found last are inside."""
    for pid in reversed(pids):
        root = Path(f"/proc/{pid}/root")
        try:
            if root.samefile("/"):
                continue
            counts = [os.statvfs(root / folder) for folder in _PRIVATE_FOLDERS]
        except OSError:
            continue  # it ended meanwhile, or its walls are not up yet
        return sum(count.f_files - count.f_ffree for count in counts)
    return 0
