"""One run of command lines in a forked process of the real program, with something happening to it at a chosen moment.

A change is what alters the folder that the commands are typed in: a file opened for writing, an fsync, a rename, a removal, a
folder made. The process that forks has loaded what the commands need, and has done nothing itself: a run costs what the command
does, not what its imports do.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

BYTES = 256
PAGE = 4096
"""Bytes by which a file system in memory gives space."""
PATIENCE = 300.0
"""Seconds that a run may take, and a process that it left behind; a run that takes longer is killed, and told as such. Of a run
those are not counted in which no processor was free for it."""
GRACE = 10.0
"""Seconds after which a process that a killed one had started counts as an orphan; while no processor was free for it, it could
not have ended, and that is not counted."""
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")
_ERRORS = {"full": errno.ENOSPC, "readonly": errno.EROFS}
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS = 0x20000


class Disturbance(NamedTuple):
    """What happens when: `at` counts changes, seconds (after) or steps of 256 bytes (size)."""

    what: Literal["nothing", "kill", "near", "after", "full", "readonly", "size", "disk"] = "nothing"
    """kill: SIGKILL just before a change. near: SIGKILL from outside, `delay` seconds after a change has begun. after: SIGKILL
    from outside after so many seconds. full: no space from a change on. readonly: from a change on nothing may be written.
    size: no file may grow beyond so many bytes, by the kernel. disk: the disk has so many pages (see `small_disk`)."""
    at: float = 0
    delay: float = 0.0


class Counts(NamedTuple):
    """Of a run's changes."""

    changes: int = 0
    refused: int = 0


class Ended(NamedTuple):
    """How a run ended: its exit code (negative if it was killed), how long it took, the changes it made if it ended itself,
    the processes it left behind, and what it wrote to stderr."""

    code: int
    seconds: float
    changes: int
    orphans: list[str]
    errors: str
    hung: bool = False
    """It did not end by itself."""
    refused: int = 0
    """Changes that met a full disk or a read-only folder, if it ended itself."""


def run(lines: Sequence[Sequence[str]], folder: Path, disturbance: Disturbance = Disturbance()) -> Ended:
    """Type the lines in the folder; stderr goes to a file beside it."""
    errors = folder.with_name(folder.name + ".err")
    folder.mkdir(parents=True, exist_ok=True)
    told, tell = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(lines, folder, disturbance, errors, tell)
    os.close(tell)
    (changes, refused), hung = _watch(pid, told, disturbance)
    os.close(told)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    seconds = time.monotonic() - began
    said = (
        errors.read_text(encoding="utf-8", errors="replace") if errors.exists() else ""
    )  # killed before it was opened
    return Ended(code, seconds, changes, orphans(), said, hung, refused)


def _watch(pid: int, told: int, disturbance: Disturbance) -> tuple[Counts, bool]:
    """Kill from outside if that is asked for; the counts that were told at the end, and whether it came to none."""
    if disturbance.what == "after":
        late = not select.select([told], [], [], disturbance.at)[0]
    else:
        began, late = time.monotonic(), False
        while not late and not select.select([told], [], [], 1.0)[0]:
            late = time.monotonic() - began - waiting(pid) > PATIENCE
    if late:
        os.kill(pid, signal.SIGKILL)
    said = os.read(told, 64)
    if said.startswith(b"now"):
        time.sleep(disturbance.delay)
        os.kill(pid, signal.SIGKILL)
    counts = said.removeprefix(b"now").split()
    return Counts(*map(int, counts)), late and disturbance.what != "after"


def _child(lines: Sequence[Sequence[str]], folder: Path, disturbance: Disturbance, errors: Path, tell: int) -> None:
    code = 70
    try:
        with errors.open("ab") as stream:
            stream.truncate(0)
            os.dup2(stream.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.chdir(folder)
        counts = disturb(disturbance, lambda: os.write(tell, b"now"))
        from footfall.cli import main

        for words in lines:
            code = main(list(words))
            if code:
                break
        sys.stdout.flush()
        os.write(tell, "{} {}".format(*counts()).encode())
        if disturbance.what == "nothing":
            errors.with_suffix(".modules").write_text("\n".join(sys.modules), encoding="utf-8")
    except BaseException:  # noqa: BLE001 - told as the interpreter would tell it; this process ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def disturb(disturbance: Disturbance, tell: Callable[[], object]) -> Callable[[], Counts]:
    """From now on, in this process; how many changes there were, and how many of them were refused."""
    what, at, folder, count, refused = disturbance.what, disturbance.at, str(Path.cwd()), 0, 0
    if what == "size":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(at) * BYTES, int(at) * BYTES))

    def change(event: str, path: str | None) -> None:
        nonlocal count, refused
        count += 1
        if what == "kill" and count == at:
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "near" and count == at:
            tell()
        if what in _ERRORS and count >= at and (what == "readonly" or event not in ("os.remove", "os.rmdir")):
            refused += 1
            raise OSError(_ERRORS[what], os.strerror(_ERRORS[what]), path)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] is not None and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in _CHANGES) and isinstance(arguments[0], str | os.PathLike):
            path = str(Path(arguments[0]).absolute())
            if path.startswith(folder):
                change(event, path)

    fsync = os.fsync

    def synced(fd: Any) -> None:
        change("fsync", None)  # as a system call: it names no file
        fsync(fd)

    sys.addaudithook(hook)
    vars(os)["fsync"] = synced
    return lambda: Counts(count, refused)


@contextmanager
def small_disk(folder: Path, pages: int) -> Iterator[Callable[[], object]]:
    """A file system of so many pages at the folder, seen by this process alone; and what makes it large."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise PermissionError(ctypes.get_errno(), "a file system of one's own needs root")
    folder.mkdir(parents=True, exist_ok=True)

    def mount(*words: str) -> None:
        subprocess.run(["mount", *words, str(folder)], check=True)

    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    mount("-t", "tmpfs", "-o", f"size={pages * PAGE}", "tmpfs")
    try:
        yield lambda: mount("-o", "remount,size=1g")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def adopt() -> None:
    """Let this process be the parent of what its killed children leave behind."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def orphans() -> list[str]:
    """The command lines of processes that a run left behind and that do not end in time; they are killed."""
    seen: dict[int, tuple[float, float]] = {}

    def late(pid: int) -> bool:
        now, waited = time.monotonic(), waiting(pid)
        first, before = seen.setdefault(pid, (now, waited))
        return now - first - (waited - before) > GRACE or now - first > PATIENCE

    while living := _children():
        slow = [late(pid) for pid in living]
        if all(slow):
            break
        time.sleep(0.01)
    found = []
    for pid in living:
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
            os.kill(pid, signal.SIGKILL)
    while living and _children():
        time.sleep(0.01)
    return found


def waiting(pid: int) -> float:
    """Seconds that a process has been ready to run, and no processor was free: of its threads the one that waited longest."""
    with suppress(OSError):  # it ended meanwhile
        return max(map(waited, Path(f"/proc/{pid}/task").iterdir()), default=0.0)
    return 0.0


def waited(task: Path) -> float:
    """Of one thread, or of a process's first; 0 where the kernel does not tell."""
    with suppress(OSError):
        return int((task / "schedstat").read_text().split()[1]) / 1e9
    return 0.0


def _children() -> list[int]:
    """Those that live; the dead are reaped."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    return [pid for pid in children(os.getpid()) if pid not in KEPT]


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:  # a kernel that does not tell
        stats = [_stat(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()]
        return [own for own, parent in stats if parent == pid]


def _stat(pid: int) -> tuple[int, int]:
    """A process and its parent."""
    with suppress(OSError, IndexError):
        return pid, int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid, -1


KEPT: set[int] = set()
"""Children of this process that are no part of a run."""
_SLOW = ("footfall", "pyarrow", "numpy", "math_verify", "latex2sympy2_extended", "sympy", "z3", "torch", "transformers", "peft",
         "accelerate", "tokenizers", "safetensors", "httpx", "httpcore", "anyio", "jinja2", "rich", "tyro", "trl",
         "datasets")  # fmt: skip


def load(modules: Sequence[str]) -> None:
    """Import once, for all processes to come, what a run had imported."""
    for name in modules:
        if name.partition(".")[0] in _SLOW and name not in sys.modules:
            with suppress(ImportError):
                importlib.import_module(name)
