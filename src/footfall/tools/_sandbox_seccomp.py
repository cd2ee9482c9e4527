"""The system calls that sandboxed code does not get, as a classic BPF program for `bwrap --seccomp`.

Denied is what a Python program does not need and what would get around a wall: every socket but a pair within the sandbox (a
network namespace does not cover AF_VSOCK, the way to the hypervisor), memory that no limit counts (memfd, shared anonymous
memory, System V objects, message queues, grown or queued kernel buffers, extended attributes), kernel keys, looking into other
processes, new namespaces and mounts, large kernel surfaces (bpf, io_uring, perf, userfaultfd).
"""

from __future__ import annotations

import platform
import struct
from typing import NamedTuple

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


def program(machine: str = "") -> bytes | None:
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
