"""Running a hostile program in the sandbox, for the tests that do."""

from __future__ import annotations

from footfall.tools import Limits, Result, Sandbox

QUICK = Limits(seconds=1, cpu_seconds=1, memory_mb=128, disk_mb=4)
LIBC = """
import ctypes, os
def libc(name, *arguments):
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_ssize_t
    result = function(*[ctypes.c_ssize_t(a) if isinstance(a, int) else a for a in arguments])
    if result in (-1, 0xFFFFFFFF): raise OSError(ctypes.get_errno(), name)
    return result
"""
"""Gives a program `libc(name, ...)`, which raises the OSError of a C function that failed."""


def attack(code: str, limits: Limits = QUICK, stdin: str = "") -> Result:
    return Sandbox(limits).run(code, stdin)


def refused(code: str) -> int:
    """The attack runs into an OSError (no such file, read-only, no network, not permitted) and says so; its number."""
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    result = attack(f"try:\n{lines}    print('DONE')\nexcept OSError as error:\n    print('refused', error.errno)")
    assert result.ok and result.stdout.startswith("refused"), result
    return int(result.stdout.split()[1])
