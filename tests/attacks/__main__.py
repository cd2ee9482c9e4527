"""The attack as one command: `python -m tests.attacks --seed 7 --size 2 --to attack.json`.

Each kind runs in a process of its own, so that its peak of memory is its own, and what it leaves running is seen: orphans come
to this process. Counts are printed and, with `--to`, kept as JSON; kinds that are there already for this seed and size are not
run again, so that an attack can be made in pieces. The exit code is 1 if anything got through.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from footfall.tools._sandbox_watch import _state, tree
from tests.attacks.attempts import FINDINGS, KINDS, attack

MOST_MEMORY_MB = 2048
"""That a process of the attack may hold at its peak, Python and torch themselves among it."""
_PR_SET_CHILD_SUBREAPER = 36


def apart(kind: str, seed: int, size: float) -> dict[str, Any]:
    """The counts of one kind, from a process of its own, with its orphans and the peak of its largest process."""
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "counts.json"
        words = ["--inside", "--kinds", kind, "--seed", str(seed), "--size", str(size), "--to", str(to)]
        process = subprocess.Popen([sys.executable, "-m", "tests.attacks", *words])
        _, status, used = os.wait4(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        orphans = _left()
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        if code != 0:
            raise SystemExit(f"{kind}: the process of the attack ended with {code}")
        found: dict[str, Any] = json.loads(to.read_text(encoding="utf-8"))
    return {**found, "orphans": len(orphans), "peak MB": used.ru_maxrss >> 10}


def _left() -> list[int]:
    """The living among the processes that came to this one, after a moment: the kernel ends a namespace in its own time."""
    deadline = time.monotonic() + 2
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        living = [pid for pid in tree(os.getpid())[1:] if _state(pid) not in "ZX"]
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.05)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.attacks", description="Attack Footfall; see docs/reliability.md"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=float, default=1, help="1 is as many attempts as the first audit had")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--to", type=Path, help="a JSON file for the counts")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        with tempfile.TemporaryDirectory() as folder:
            counts = attack(given.kinds[0], given.seed, given.size, Path(folder))
        given.to.write_text(json.dumps(counts), encoding="utf-8")
        return 0
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    about: dict[str, Any] = {"seed": given.seed, "size": given.size, "memory bound MB": MOST_MEMORY_MB}
    known: dict[str, Any] = json.loads(given.to.read_text("utf-8")) if given.to and given.to.exists() else {}
    kinds: dict[str, Any] = known["kinds"] if {**about, "kinds": 0} == {**known, "kinds": 0} else {}
    for kind in given.kinds:
        if kind not in kinds:
            kinds[kind] = apart(kind, given.seed, given.size)
            sys.stdout.write(f"{kind}: {json.dumps(kinds[kind])}\n")
            if given.to:
                given.to.write_text(json.dumps({**about, "kinds": kinds}, indent=2) + "\n", encoding="utf-8")
    bad = sum(found[name] for found in kinds.values() for name in (*FINDINGS, "orphans"))
    bad += sum(found["peak MB"] > MOST_MEMORY_MB for found in kinds.values())
    sys.stdout.write(f"{sum(found['attempts'] for found in kinds.values())} attempts, {bad} findings\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
