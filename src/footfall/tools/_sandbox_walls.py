"""The walls: the bubblewrap command line for a bare Python, and starting it.

The process sees a read-only root that holds Python, its shared libraries and the packages asked for, a small private /tmp, no
/proc, no network, no terminal, no environment. As root no user namespace is used: the kernel does not limit root's processes,
so the boot code turns into a user id that nobody else has.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from footfall.tools import _sandbox_seccomp
from footfall.tools._sandbox_watch import OPEN_FILES, Limits, Watch

SETUP_SECONDS = 60.0
"""A backstop for a busy machine; the program's own time begins when the walls stand."""
_SHARED_MEMORY_BYTES = 1 << 20
_PENDING_SIGNALS = 256
_SYSTEM_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
_ENVIRONMENT = {"LANG": "C.UTF-8", "HOME": "/tmp", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
_FLAGS = ("-S", "-s", "-B", "-X", "utf8")
_INSTALL = "install bubblewrap (Debian, Ubuntu: `apt install bubblewrap`; Fedora: `dnf install bubblewrap`)"


class SandboxError(RuntimeError):
    """The sandbox itself does not work here. Never raised because of what sandboxed code did."""


@dataclass(frozen=True)
class Start:
    """How to start a job behind the walls. `walls=False` keeps the limits only."""

    limits: Limits
    packages: tuple[str, ...] = ()
    walls: bool = True

    def __call__(
        self,
        job: str,
        payload: Mapping[str, Any],
        files: Mapping[str, str] = {},
        stdin: bytes | None = b"",
        folder: str | None = None,
        keep_fds: Sequence[int] = (),
        cpu_limited: bool = True,
    ) -> Watch:
        """Start `job` (a file beside this one) with its payload, and return once its code is about to run.

        `stdin=None` keeps the process's stdin open for `Watch.give`.
        """
        names = {name: _package_folder(name) for name in self.packages}
        paths = ["/packages"] if self.walls else sorted({str(path.parent) for path in names.values()})
        rlimits = _rlimits(self.limits, self.walls, cpu_limited)
        uid = 1_000_000_000 + secrets.randbelow(1 << 30) if self.walls and os.geteuid() == 0 else None
        head = {"job": _source(job), "files": dict(files), "rlimits": rlimits, "uid": uid, "paths": paths}
        ready, ready_end = os.pipe()
        try:
            with tempfile.TemporaryFile() as sent, tempfile.TemporaryFile() as filters:
                sent.write(json.dumps({**head, **payload}).encode())
                sent.seek(0)
                filters.write(_sandbox_seccomp.program() or b"")
                filters.seek(0)
                inner = [_python(), *_FLAGS, "-c", _source("_inside_boot"), str(sent.fileno()), str(ready_end)]
                command = [*_bubblewrap(self.limits, names, filters.fileno()), *inner] if self.walls else inner
                fds = (sent.fileno(), ready_end, *keep_fds, *((filters.fileno(),) if self.walls else ()))
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={} if self.walls else _ENVIRONMENT,  # bubblewrap's own environment could be read inside
                    cwd=folder,
                    pass_fds=fds,
                    start_new_session=True,
                )
            os.close(ready_end)
            ready_end = -1
            return _once_ready(Watch(process, self.limits, stdin), ready)
        finally:
            os.close(ready)
            if ready_end >= 0:
                os.close(ready_end)


def _once_ready(watch: Watch, ready: int) -> Watch:
    try:
        came = watch.until(ready, SETUP_SECONDS)
    except BaseException:  # Ctrl-C above all: nothing may be left running
        watch.end()
        raise
    if came == "sign" and os.read(ready, 1) == b"\n":
        return watch
    watch.end()
    said = watch.text()[1].strip() or "it said nothing"
    raise SandboxError(f"the sandbox does not start (exit code {watch.process.returncode}): {said[-500:]}")


@cache
def why_no_walls() -> str | None:
    """Why code cannot be sandboxed on this machine and what to do; `None` if it can."""
    if shutil.which("bwrap") is None:
        return f"bubblewrap (`bwrap`) is not on the PATH; {_INSTALL}"
    try:
        Start(Limits())("_inside_run", {"code": ""}).end()
    except (SandboxError, OSError) as error:
        return (
            f"bubblewrap is installed, but {error}. Allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; "
            "in Docker: --security-opt seccomp=unconfined)"
        )
    return None


def _rlimits(limits: Limits, walls: bool, cpu_limited: bool) -> dict[str, list[int]]:
    memory, disk = limits.memory_mb << 20, limits.disk_mb << 20
    chosen = {
        "RLIMIT_AS": [memory, memory],
        "RLIMIT_FSIZE": [disk, disk],
        "RLIMIT_NOFILE": [OPEN_FILES, OPEN_FILES],
        "RLIMIT_CORE": [1, 1],  # none, and none for a handler of the host either, which 0 would still start
        "RLIMIT_MEMLOCK": [0, 0],
        "RLIMIT_MSGQUEUE": [0, 0],
    }
    if cpu_limited:
        chosen["RLIMIT_CPU"] = [limits.cpu_seconds, limits.cpu_seconds + 1]
    if walls:  # without a namespace the kernel would count all processes of the caller's user
        chosen["RLIMIT_NPROC"] = [limits.processes + 1] * 2  # one is bubblewrap's own
        chosen["RLIMIT_SIGPENDING"] = [_PENDING_SIGNALS] * 2  # timers count as well
    return chosen


def _bubblewrap(limits: Limits, packages: Mapping[str, Path], filters: int) -> list[str]:
    command = [
        shutil.which("bwrap") or "bwrap",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--clearenv",
        *_namespaces(),
    ]
    for name, value in _ENVIRONMENT.items():
        command += ["--setenv", name, value]
    for library in _SYSTEM_LIBRARIES:
        command += _shown(Path(library))
    base = Path(os.path.realpath(sys.base_prefix))
    for path in (base / "lib", base / "lib64", Path(_python())):
        command += _shown(path)
    command += _parents(Path("/packages/any"))
    for name, folder in packages.items():
        command += ["--ro-bind", str(folder), f"/packages/{folder.name}"]
        libraries = folder.with_name(f"{name}.libs")  # where wheels put their shared libraries
        command += ["--ro-bind-try", str(libraries), f"/packages/{libraries.name}"]
    command += [
        "--dev",
        "/dev",
        "--tmpfs",
        "/dev/pts",
        "--remount-ro",
        "/dev/pts",
    ]  # no terminals: much kernel, little use
    command += ["--dev-bind", "/dev/full", "/dev/zero"]  # gives zeros as well, but no shared memory that nothing counts
    command += ["--perms", "1777", "--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    command += ["--perms", "1777", "--size", str(limits.disk_mb << 20), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if _sandbox_seccomp.program() is not None:
        command += ["--seccomp", str(filters)]
    return [*command, "--"]


def _namespaces() -> list[str]:
    if os.geteuid() == 0:
        kept = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # until the boot code has used them
        return [
            "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *kept,
        ]  # fmt: skip
    return ["--unshare-all", "--unshare-user"]


def _shown(path: Path) -> list[str]:
    """A path of the host at the same place inside, read-only; a link as the link it is."""
    if path.is_symlink() and path.parent == Path("/"):
        return ["--symlink", str(path.readlink()), str(path)]
    return [*_parents(path), "--ro-bind-try", str(path), str(path)]


def _parents(path: Path) -> list[str]:
    """The folders above a path, open to all: bubblewrap would make them for root alone."""
    above = [str(parent) for parent in reversed(path.parents)][1:]
    return [word for parent in above for word in ("--perms", "0755", "--dir", parent)]


def _package_folder(name: str) -> Path:
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise SandboxError(f"package {name!r} is not installed here: install it or leave it out of `packages`")
    origin = Path(spec.origin)
    return origin.parent if spec.submodule_search_locations else origin


@cache
def _python() -> str:
    """The interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
