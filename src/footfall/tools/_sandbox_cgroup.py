"""Control groups (cgroup v2): the kernel itself counts memory and processes of a sandbox, for as long as it lives.

A group needs a folder of the cgroup tree that we may write to: our own, or one that the operator names by FOOTFALL_CGROUP
(`systemd-run --user --scope -p Delegate=yes` makes one). Where there is none, looks at the process tree have to do; `why_none`
says why, and `footfall info` shows it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VARIABLE = "FOOTFALL_CGROUP"
_MOUNT = Path("/sys/fs/cgroup")
_REMOVAL_SECONDS = 1.0
_CPU_WEIGHT = "20"
"""Of 100, the usual share: a busy program leaves the machine to others."""
ENTER = 'echo $$ > "$0"/cgroup.procs && exec "$@"'
"""Shell words that put the shell into the group `$0` and turn it into the command: nothing of it ever runs outside."""


@dataclass(frozen=True)
class Group:
    """One group, made for one sandbox."""

    folder: Path

    def command(self, words: list[str]) -> list[str]:
        """The command, started inside the group."""
        return ["/bin/sh", "-c", ENTER, str(self.folder), *words]

    def limit(self, memory: int, processes: int) -> None:
        """Bytes of memory, with the kernel's part and private files, and processes, threads included."""
        _write(self.folder / "memory.max", str(memory))
        _write(self.folder / "pids.max", str(processes))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1"), ("cpu.weight", _CPU_WEIGHT)):
            with contextlib.suppress(OSError):  # not every kernel has them, and not every folder the controller cpu
                _write(self.folder / name, value)

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for its memory."""
        return _number(self.folder / "memory.events", "oom_kill") > 0

    def end(self) -> None:
        """Kill all that is in the group, wherever it hid, and remove it."""
        with contextlib.suppress(OSError):
            _write(self.folder / "cgroup.kill", "1")
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while self.folder.is_dir():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)


def make_group(memory: int, processes: int) -> Group | None:
    """A new group with these limits, or nothing where none can be had."""
    parent = _parent()
    return None if isinstance(parent, str) or _refusal(parent) else _made(parent, memory, processes)


def why_none() -> str | None:
    """Why no group can be made here; `None` if one can."""
    parent = _parent()
    return parent if isinstance(parent, str) else _refusal(parent)


@cache
def _refusal(parent: Path) -> str | None:
    """Why a group in this folder would be of no use, tried once: made, limited and entered."""
    group = _made(parent, 1 << 30, 64)
    if group is None:
        return f"{parent} cannot be written to; name a delegated folder by {VARIABLE}"
    entered = subprocess.run(group.command(["/bin/sh", "-c", ":"]), capture_output=True, check=False).returncode == 0
    group.end()
    return (
        None
        if entered
        else f"no process of ours may enter a group in {parent}; run Footfall within that folder's scope"
    )


def _made(parent: Path, memory: int, processes: int) -> Group | None:
    group = Group(parent / f"footfall-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        group.folder.mkdir()
        group.limit(memory, processes)
    except OSError:
        group.end()
        return None
    return group


def _parent() -> Path | str:
    """The folder to make groups in, or why there is none."""
    if named := os.environ.get(VARIABLE):
        return Path(named) if Path(named).is_dir() else f"{VARIABLE}={named} is no folder"
    if not (_MOUNT / "cgroup.controllers").is_file():
        return "there is no cgroup v2 at /sys/fs/cgroup"
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        return str(error)
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = _MOUNT / own.lstrip("/")
    try:
        enabled = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
    except OSError as error:
        return str(error)
    if not {"memory", "pids"} <= set(enabled):
        return f"{folder} does not hand on memory and pids; name a delegated folder by {VARIABLE}"
    return (
        folder
        if os.access(folder, os.W_OK)
        else f"{folder} cannot be written to; name a delegated folder by {VARIABLE}"
    )


def _write(path: Path, text: str) -> None:
    """In one write, as the kernel wants it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _number(path: Path, name: str) -> int:
    """The number after a name in a file of `name number` lines; 0 where there is none."""
    try:
        pairs = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
        return int(pairs.get(name, 0))
    except (OSError, ValueError):
        return 0
