"""The walls: the bubblewrap command line for a bare Python, the filter of its system calls, and starting it.

The process sees a read-only root that holds Python, its shared libraries and the packages asked for, a small private /tmp, no
/proc, no network, no terminal, no environment. As root no user namespace is used: the kernel does not limit root's processes,
so the boot code turns into a user id that nobody else has.

The system calls that it does not get are a classic BPF program for `bwrap --seccomp`. Denied is what a Python program does
not need and what would get around a wall: every socket but a pair within the sandbox (a network namespace does not cover
AF_VSOCK, the way to the hypervisor), memory that no limit counts (memfd, shared anonymous memory, System V objects, message
queues, grown or queued kernel buffers, extended attributes), kernel keys, looking into other processes, new namespaces and
mounts, large kernel surfaces (bpf, io_uring, perf, userfaultfd).
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from footfall.tools._sandbox_cgroup import make_group
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
                filters.write(system_call_filter() or b"")
                filters.seek(0)
                inner = [_python(), *_FLAGS, "-c", _source("_inside_boot"), str(sent.fileno()), str(ready_end)]
                command = [*_bubblewrap(self.limits, names, filters.fileno()), *inner] if self.walls else inner
                group = make_group((self.limits.memory_mb + self.limits.disk_mb + 1) << 20, self.limits.processes + 8)
                command = command if group is None else group.command(command)
                fds = (sent.fileno(), ready_end, *keep_fds, *((filters.fileno(),) if self.walls else ()))
                try:
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
                except OSError:
                    if group is not None:
                        group.end()
                    raise
            os.close(ready_end)
            ready_end = -1
            return _once_ready(Watch(process, self.limits, stdin, group), ready)
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
    if system_call_filter() is not None:
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


# System calls

_DENIED = {  # name: (x86_64, aarch64)
    "add_key": (248, 217), "bpf": (321, 280), "connect": (42, 203), "fanotify_init": (300, 262), "fsconfig": (431, 431),
    "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "inotify_init": (253, -1),
    "inotify_init1": (294, 26), "io_setup": (206, 0), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "kcmp": (312, 272), "keyctl": (250, 219), "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444), "listen": (50, 201), "listmount": (458, 458), "lsetxattr": (189, 6),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "modify_ldt": (154, -1), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180), "msgget": (68, 186),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "request_key": (249, 218),
    "seccomp": (317, 277), "semget": (64, 190), "sendfile": (40, 71), "setns": (308, 268), "setxattr": (188, 5),
    "shmget": (29, 194), "splice": (275, 76), "statmount": (457, 457), "syslog": (103, 116),
    "tee": (276, 77), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
}  # fmt: skip
"""`connect`: nobody listens within, so it could only reach a socket file of the host. `listen`: each waiting connection is a
socket with a buffer that no descriptor stands for. `splice` and its like: a byte in a buffer keeps a whole page. `inotify`: a
queue of thousands of events. `semget`: gigabytes of semaphores."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the tables, audit architecture."""
_CLONE3 = 435
_FIRST_UNKNOWN = 463
"""Calls that are newer than these tables, and the x32 calls, which begin at 512 or have bit 30 set."""

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _ESOCKTNOSUPPORT, _EAFNOSUPPORT = _ERROR | 1, _ERROR | 38, _ERROR | 94, _ERROR | 97

_Rule = tuple[int, int, int, int]


class _Argument(NamedTuple):
    """Which values an argument may have (`only`) or may not have (`never`), after `mask`. The kernel reads its low half."""

    position: int
    only: tuple[int, ...] = ()
    never: tuple[int, ...] = ()
    mask: int = 0xFFFFFFFF
    error: int = _EPERM


_UNIX = _Argument(0, only=(1,), error=_EAFNOSUPPORT)
_STREAM_OR_PACKETS = _Argument(1, only=(1, 5), mask=0xF, error=_ESOCKTNOSUPPORT)
"""Datagrams can be sent by many to one: a queue of buffers that no descriptor stands for."""
_CHECKED: dict[str, tuple[tuple[int, int], tuple[_Argument, ...]]] = {
    "socket": ((41, 198), (_UNIX, _STREAM_OR_PACKETS)),
    "socketpair": ((53, 199), (_UNIX, _STREAM_OR_PACKETS)),
    # SOL_SOCKET with SO_REUSEADDR, SO_KEEPALIVE, SO_LINGER or a timeout: none that makes a buffer larger
    "setsockopt": ((54, 208), (_Argument(1, only=(1,)), _Argument(2, only=(2, 9, 13, 20, 21)))),
    "fcntl": ((72, 25), (_Argument(1, never=(1024, 1026, 1031)),)),  # F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ
    "ioctl": ((16, 29), (_Argument(1, never=(0x5412, 0x541C, 0x5423)),)),  # TIOCSTI, TIOCLINUX, TIOCSETD
    "prctl": ((157, 167), (_Argument(0, never=(22,)),)),  # PR_SET_SECCOMP
    # shared anonymous memory stays whole when all but a page of it is given back; huge pages are not in the resident size
    "mmap": ((9, 222), (_Argument(3, never=(0x21, 0x23), mask=0x2F), _Argument(3, only=(0,), mask=0x40000))),
    "clone": ((56, 220), (_Argument(0, only=(0,), mask=0x7E020000),)),  # no new namespace of any kind
}


def system_call_filter(machine: str = "") -> bytes | None:
    """The filter for this machine, or `None` where the tables have no column for it."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    column, arch = known
    rules: list[_Rule] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _ENOSYS),  # 32-bit calls have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _FIRST_UNKNOWN),
        (_RETURN, 0, 0, _ENOSYS),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ENOSYS),  # its flags cannot be read by a filter; libc then uses `clone`
    ]
    for numbers in _DENIED.values():
        if numbers[column] >= 0:
            rules += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _EPERM)]
    for numbers, arguments in _CHECKED.values():
        rules += _for_call(numbers[column], [rule for argument in arguments for rule in _check(argument)])
    return b"".join(struct.pack("=HBBI", *rule) for rule in [*rules, (_RETURN, 0, 0, _ALLOW)])


def _for_call(number: int, checks: list[_Rule]) -> list[_Rule]:
    """The checks of one call, which is allowed if it passes them; other calls jump over them."""
    return [(_EQUAL, 0, len(checks) + 1, number), *checks, (_RETURN, 0, 0, _ALLOW)]


def _check(argument: _Argument) -> list[_Rule]:
    rules: list[_Rule] = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument.position), (_AND, 0, 0, argument.mask)]
    for value in argument.never:
        rules += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, argument.error)]
    if argument.only:
        left = len(argument.only)
        rules += [(_EQUAL, left - index, 0, value) for index, value in enumerate(argument.only)]
        rules.append((_RETURN, 0, 0, argument.error))
    return rules
