"""The system calls that sandboxed code does not get, as a classic BPF program for `bwrap --seccomp`.

Denied is what a Python program does not need and what would get around a wall: memory that no limit counts (memfd, System V
shared memory, message queues), kernel keys, looking into other processes, new namespaces and mounts, large kernel surfaces
(bpf, io_uring, perf, userfaultfd).
"""

from __future__ import annotations

import platform
import struct

__all__ = ["program"]

_NUMBERS = {  # name: (x86_64, aarch64)
    "add_key": (248, 217), "bpf": (321, 280), "fsopen": (430, 430), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "kcmp": (312, 272), "keyctl": (250, 219),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "mq_open": (240, 180), "msgget": (68, 186), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "request_key": (249, 218),
    "setns": (308, 268), "shmget": (29, 194), "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
}  # fmt: skip
_MACHINES = {"x86_64": (0, 0xC000003E, 56), "aarch64": (1, 0xC00000B7, 220)}
"""Column of the table, audit architecture, number of `clone`."""
_CLONE3 = 435
_CLONE_NEWUSER = 0x10000000
_X32 = 0x40000000

_LOAD, _EQUAL, _ALL_OF, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026


def program(machine: str = "") -> bytes | None:
    """The filter for this machine, or `None` where the table has no column for it."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    column, arch, clone = known
    rules = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _ENOSYS),  # 32-bit calls have other numbers
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ENOSYS),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ENOSYS),  # its flags cannot be read by a filter; libc then uses `clone`
    ]
    for numbers in _NUMBERS.values():
        rules += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _EPERM)]
    rules += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_ALL_OF, 0, 1, _CLONE_NEWUSER),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *rule) for rule in rules)
