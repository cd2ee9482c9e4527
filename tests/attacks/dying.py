"""`footfall …` again and again, each time with something happening at another moment, and then once more undisturbed:

    python dying.py kill FOLDER EVERY sample --problems … --out OUT     killed at the kth os.fsync or os.replace
    python dying.py full FOLDER EVERY …                                 no space from the kth of these calls on
    python dying.py size FOLDER EVERY …                                 no file may be larger than k * 256 bytes

for k = 1, 1 + EVERY, 1 + 2 EVERY … until a run is not disturbed any more. The word OUT is FOLDER/k; FOLDER/0 is never
disturbed. What the kth run wrote to stderr is in FOLDER/k.err. Prints the moments as JSON. Each run is a forked process of the
real program.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from footfall.cli import main

BYTES = 256
_SLOW = (
    "footfall",
    "pyarrow",
    "numpy",
    "math_verify",
    "latex2sympy2_extended",
    "sympy",
    "torch",
    "transformers",
    "rich",
    "tyro",
)


def disturb(what: str, moment: int) -> None:
    """From now on, in this process."""
    if what == "size":
        resource.setrlimit(resource.RLIMIT_FSIZE, (moment * BYTES, moment * BYTES))
        return
    calls = iter(range(1, 1 << 30))

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*arguments: Any, **options: Any) -> Any:
            if next(calls) >= moment:
                if what == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as a system call: it names no file
            return call(*arguments, **options)

        return watching

    os.fsync, os.replace = watched(os.fsync), watched(os.replace)


def child(what: str, moment: int, errors: Path, words: list[str]) -> int:
    """The exit code of one run, negative if it was killed; what it says is kept."""
    pid = os.fork()
    if pid == 0:
        with errors.open("wb") as stream:
            os.dup2(stream.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if moment:
            disturb(what, moment)
        code = 70
        try:
            code = main(words)
            if not moment:
                errors.with_suffix(".modules").write_text("\n".join(sys.modules), encoding="utf-8")
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def attack(what: str, folder: Path, every: int, words: list[str]) -> list[tuple[int, int, int]]:
    """Moment, exit code of the disturbed run and of the one after it, for each."""

    def run(name: int, moment: int, errors: str) -> int:
        given = [str(folder / str(name)) if word == "OUT" else word for word in words]
        return child(what, moment, folder / errors, given)

    ended = [(0, run(0, 0, "0.err"), 0)]
    for name in (folder / "0.modules").read_text(encoding="utf-8").split():
        if name.partition(".")[0] in _SLOW and name not in sys.modules:  # once, for all processes to come
            with suppress(ImportError):
                importlib.import_module(name)
    for moment in range(1, 1 << 20, every):
        first = run(moment, moment, f"{moment}.err")
        if first == 0:
            break
        ended.append((moment, first, run(moment, 0, f"{moment}.again.err")))
    return ended


if __name__ == "__main__":
    what, folder, every, *words = sys.argv[1:]
    sys.stdout.write(json.dumps(attack(what, Path(folder), int(every), words)))
