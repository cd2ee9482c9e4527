"""How much memory a tree of sandboxed processes holds, seen from outside: their pages and what the kernel keeps for them.

The kernel's part is in no process's resident size: page tables (a page that is only read counts as nothing, its tables take
8 KiB), the list of the pieces of memory, the buffers behind sockets and pipes, and the files of a private folder, of which an
empty one takes a kilobyte.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

__all__ = ["OPEN_FILES", "holds_more_than", "tree"]

OPEN_FILES = 64
"""Descriptors of one process."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PIPE_BYTES = 16 * _PAGE
_FILE_BYTES = 2048
"""An empty file with a long name: measured 1300 bytes of inode, name and directory entry."""
_PIECE_BYTES = 256
"""The kernel's record of one mapping, which is a page or more."""
_PRIVATE_FOLDERS = ("tmp", "dev/shm")


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
