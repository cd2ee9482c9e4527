"""The filter of system calls: read as the kernel reads it, for both machines, and met from inside for the machine at hand."""

from __future__ import annotations

import errno
import struct

import pytest

from footfall.tools import why_no_walls
from footfall.tools._sandbox_walls import system_call_filter
from tests.tools.attacking import LIBC, attack, refused

needs_walls = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")
ALLOWED = 0
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
THIRTY_TWO_BITS = {"x86_64": 0x40000003, "aarch64": 0x40000028}
NUMBERS = {
    "x86_64": {
        "read": 0,
        "socket": 41,
        "socketpair": 53,
        "setsockopt": 54,
        "fcntl": 72,
        "mmap": 9,
        "clone": 56,
        "fork": 57,
    },
    "aarch64": {
        "read": 63,
        "socket": 198,
        "socketpair": 199,
        "setsockopt": 208,
        "fcntl": 25,
        "mmap": 222,
        "clone": 220,
    },
}
AF_UNIX, SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET = 1, 1, 2, 3, 5
NONBLOCK_AND_CLOEXEC = 0x80800


def verdict(machine: str, number: int, *arguments: int, arch: int = 0) -> int:
    """The error number that the filter gives a call, 0 if it lets it through."""
    code = system_call_filter(machine)
    assert code is not None
    rules = list(struct.iter_unpack("=HBBI", code))
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, arch or ARCHITECTURES[machine], 0, *padded)
    at = held = 0
    while True:
        operation, if_true, if_false, value = rules[at]
        at += 1
        if operation == 0x20:
            held = int.from_bytes(data[value : value + 4], "little")
        elif operation == 0x54:
            held &= value
        elif operation == 0x15:
            at += if_true if held == value else if_false
        elif operation == 0x35:
            at += if_true if held >= value else if_false
        else:
            assert operation == 0x06, operation
            return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF


@pytest.fixture(params=ARCHITECTURES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_unknown_machine_has_no_filter() -> None:
    assert system_call_filter("pdp-11") is None


def test_sockets_are_of_the_unix_family_alone(machine: str) -> None:
    for call in ("socket", "socketpair"):
        number = NUMBERS[machine][call]
        for family in {*range(64), 1 << 31, (1 << 32) - 1} - {AF_UNIX}:
            assert verdict(machine, number, family, SOCK_STREAM) == errno.EAFNOSUPPORT
        for kind in (SOCK_STREAM, SOCK_SEQPACKET):
            assert verdict(machine, number, AF_UNIX, kind | NONBLOCK_AND_CLOEXEC) == ALLOWED
        for kind in {*range(16)} - {SOCK_STREAM, SOCK_SEQPACKET}:
            assert verdict(machine, number, AF_UNIX, kind | NONBLOCK_AND_CLOEXEC) == errno.ESOCKTNOSUPPORT


def test_the_upper_half_of_an_argument_hides_nothing(machine: str) -> None:
    above = 1 << 32
    assert verdict(machine, NUMBERS[machine]["socket"], above | 40, SOCK_STREAM) == errno.EAFNOSUPPORT
    assert verdict(machine, NUMBERS[machine]["fcntl"], 3, above | 1031) == errno.EPERM


@pytest.mark.parametrize("option", [7, 8, 32, 33, 26, 50, 16, 34], ids=lambda option: f"option-{option}")
def test_no_socket_option_grows_a_buffer(machine: str, option: int) -> None:
    number = NUMBERS[machine]["setsockopt"]
    assert verdict(machine, number, 3, 1, option) == errno.EPERM
    assert verdict(machine, number, 3, 6, 2) == errno.EPERM  # another level
    assert verdict(machine, number, 3, 1, 2) == ALLOWED  # SO_REUSEADDR


def test_calls_of_other_abis_and_calls_that_are_not_known_do_not_exist(machine: str) -> None:
    for number in (0, 41, 102, 198, 359):  # 102 and 359 are the 32-bit socketcall and socket
        assert verdict(machine, number, arch=THIRTY_TWO_BITS[machine]) == errno.ENOSYS
    for number in (0x40000000 | 41, 541, 521, 512, 470, (1 << 32) - 1):  # x32, with its bit and from its old range
        assert verdict(machine, number, 1, 1) == errno.ENOSYS


def test_memory_maps_are_private_or_of_a_file(machine: str) -> None:
    number, private, shared, anonymous, huge = NUMBERS[machine]["mmap"], 2, 1, 0x20, 0x40000
    assert verdict(machine, number, 0, 4096, 3, private | anonymous) == ALLOWED
    assert verdict(machine, number, 0, 4096, 3, shared) == ALLOWED
    for flags in (shared | anonymous, 3 | anonymous, shared | anonymous | 0x4000, private | anonymous | huge):
        assert verdict(machine, number, 0, 4096, 3, flags) == errno.EPERM


def test_processes_are_made_but_no_namespaces(machine: str) -> None:
    number = NUMBERS[machine]["clone"]
    assert verdict(machine, number, 0x003D0F00) == ALLOWED  # a thread
    assert verdict(machine, number, 0x01200011) == ALLOWED  # a fork
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(machine, number, flag | 17) == errno.EPERM


def test_ordinary_calls_pass(machine: str) -> None:
    for name in ("read", "fork"):
        if name in NUMBERS[machine]:
            assert verdict(machine, NUMBERS[machine][name]) == ALLOWED


@needs_walls
def test_from_inside_no_family_but_unix_opens() -> None:
    code = (
        "import socket\n"
        "opened = []\n"
        "for family in range(51):\n"
        "    for make in (socket.socket, socket.socketpair):\n"
        "        for kind in (1, 2, 3, 5):\n"
        "            try: made = make(family, kind, 0)\n"
        "            except OSError: continue\n"
        "            opened.append((family, kind))\n"
        "print(sorted(set(opened)))"
    )
    assert attack(code).stdout == f"[({AF_UNIX}, {SOCK_STREAM}), ({AF_UNIX}, {SOCK_SEQPACKET})]\n"


CALLS = {
    "memfd": "os.memfd_create('x')",
    "shared-memory": "libc('shmget', 0, 4096, 0o1600)",
    "semaphores": "libc('semget', 0, 100, 0o1600)",
    "message-queue": "libc('msgget', 0, 0o1600)",
    "posix-message-queue": "libc('mq_open', b'/x', 0o102, 0o600, 0)",
    "events": "libc('inotify_init1', 0)",
    "attributes": "open('a', 'w'); os.setxattr('a', 'user.x', b'x')",
    "send-buffer": "import socket; socket.socketpair()[0].setsockopt(1, 7, 1 << 20)",
    "receive-buffer": "import socket; socket.socketpair()[0].setsockopt(1, 8, 1 << 20)",
    "pipe-size": "import fcntl; fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)",
    "pipe-size-of-stdout": "import fcntl; fcntl.fcntl(1, 1031, 1 << 20)",
    "lease": "import fcntl; open('a', 'w'); fcntl.fcntl(os.open('a', 0), 1024, 0)",
    "shared-map": "import mmap; mmap.mmap(-1, 4096)",
    "listen": "import socket; s = socket.socket(1, 1); s.bind('x'); s.listen(1)",
    "splice": "r, w = os.pipe(); libc('splice', r, 0, w, 0, 1, 0)",
    "sendfile": "open('a', 'w'); os.sendfile(1, os.open('a', 0), 0, 1)",
    "filter-of-its-own": "libc('prctl', 22, 2, 0, 0, 0)",
    "kernel-log": "libc('klogctl', 10, 0, 0)",
    "perf": "libc('syscall', PERF, 0, 0, -1, -1, 0)",
    "keys": "libc('syscall', KEYCTL, 0, -3, 0)",
    "bpf": "libc('syscall', BPF, 0, 0, 0)",
    "userfaultfd": "libc('syscall', USERFAULTFD, 0)",
    "io-uring": "libc('syscall', 425, 1, 0)",
    "aio": "libc('syscall', AIO, 1, 0)",
}
BY_NUMBER = """
import platform
NUMBERS = {'x86_64': (298, 250, 321, 323, 206), 'aarch64': (241, 219, 280, 282, 0)}
PERF, KEYCTL, BPF, USERFAULTFD, AIO = NUMBERS[platform.machine()]
"""


@needs_walls
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_from_inside_what_no_limit_counts_is_not_permitted(call: str) -> None:
    assert refused(LIBC + BY_NUMBER + call) == errno.EPERM
