"""Labelling, searching and scoring in turn, in one process, against a server that fails a third of its calls:

    python -m tests.attacks.soak --minutes 60 --out soak.json

Between commands, and every two seconds while one runs, the process is looked at from outside: memory, threads, open files,
children, and what lies on the disk. A line is fitted to what was seen between commands, without the first tenth and the first
time that each command met each seed: modules load then, caches and the rollout store fill. A quantity is flat if its line rises
by no more than BOUNDS over the whole time. Of every seed each command must say the same each time, however many calls failed.
Exit code 1: not so.

The process waits a hundredth of what it would between two attempts, so that it does more in an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.policy.loopback_process import LoopbackProcess

BOUNDS = {"rss": 16 * 2**20, "threads": 1, "fds": 1, "children": 1, "disk": 2**16, "temp": 2**16}
"""By how much each may rise over the time that is judged: bytes, or how many."""
SECONDS = 2.0
"""Between two looks at a command that runs."""
SEEDS = 3
TRACES = 8
KINDS = ("500", "429", "drop", "truncated", "wrong-n", "body")
FAULTS = [
    {"kind": kind, "every": 18, "turn": 3 * k, "retry_after": "0", "body": "<html>"} for k, kind in enumerate(KINDS)
]
"""Six of eighteen calls fail, each in another way."""
SERVER = ["--timeout", "20", "--retries", "12"]
CRITIC = ["--judge", "critic", "--mode", "chat"]
COMMANDS = {
    "label": ["label", "--data", "traces.jsonl", "--rollouts", "4", "--chunk", "4", "--store", "none"],
    "label with a store": ["label", "--data", "traces.jsonl", "--rollouts", "4", "--chunk", "4", "--store", "store"],
    "search": ["search", "--problems", "problems.jsonl", "--n", "4", "--chunk", "4", "--store", "none", *CRITIC],
    "score": ["score", "traces.jsonl", "--chunk", "4", *CRITIC],
}


class Look(NamedTuple):
    """What the process and its folders were like at one moment."""

    seconds: float
    between: bool
    """Whether no command ran."""
    rss: int
    threads: int
    fds: int
    children: int
    disk: int
    temp: int


@dataclass(frozen=True)
class Trend:
    """The line through a quantity, by least squares."""

    mean: float
    slope: float
    """A second."""
    growth: float
    """By the line, from the first look to the last."""
    bound: float

    @property
    def flat(self) -> bool:
        """It may fall."""
        return self.growth <= self.bound


def trend(times: Sequence[float], values: Sequence[float], bound: float) -> Trend:
    """slope = Σ (t − t̄)(v − v̄) / Σ (t − t̄)²."""
    t, v = sum(times) / len(times), sum(values) / len(values)
    spread = sum((x - t) ** 2 for x in times)
    slope = sum((x - t) * (y - v) for x, y in zip(times, values, strict=True)) / spread
    return Trend(v, slope, slope * (times[-1] - times[0]), bound)


def judged(looks: Sequence[Look], bounds: Mapping[str, float] = BOUNDS) -> dict[str, Trend]:
    """The trend of each quantity between commands, after the warm-up."""
    kept = [look for look in looks if look.between][SEEDS * len(COMMANDS) :]
    kept = [look for look in kept if look.seconds >= looks[-1].seconds / 10]
    times = [look.seconds for look in kept]
    return {name: trend(times, [getattr(look, name) for look in kept], bound) for name, bound in bounds.items()}


def look(pid: int, seconds: float, between: bool, folder: Path) -> Look:
    """Now."""
    proc = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    children = sum(len((task / "children").read_text().split()) for task in (proc / "task").iterdir())
    return Look(
        seconds, between, int(status["VmRSS"].split()[0]) * 1024, int(status["Threads"]),
        len(list((proc / "fd").iterdir())), children, size(folder / "work"), size(folder / "temp"),
    )  # fmt: skip


def size(folder: Path) -> int:
    """Bytes of all files below; one may vanish meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def work(url: str) -> None:
    """The process that is looked at: for each line on stdin one command, whose exit code and content it answers."""
    from footfall.cli import main
    from footfall.policy.http_client import Server

    wait = Server.wait
    answers = os.fdopen(os.dup(1), "w")
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    for line in sys.stdin:
        name, seed = json.loads(line)
        words = [*COMMANDS[name], "--url", url, *SERVER, "--seed", str(seed), "--out", "run"]
        with patch.object(Server, "wait", lambda self, *of: wait(self, *of) / 100):
            code = main(words)
        answers.write(json.dumps([code, said(name, Path("run"))]) + "\n")
        shutil.rmtree("run")
        answers.flush()


def said(name: str, run: Path) -> Any:
    """What the command found, without costs: how often a call failed must not show."""
    from footfall.formats import read_parquet

    if name.startswith("label"):
        return [row.judgement and row.judgement.values for row in read_parquet(run / "judged.parquet", "judged")]
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return result["rows"] if name == "score" else result["answers"]


def write_data(folder: Path) -> None:
    problems = [{"problem": f"Problem {k}: what is 3 - 4? Box it.", "answer": "-1"} for k in range(TRACES)]
    steps = ["Take two.", "So 3 - 4 = -1.", "It is \\boxed{-1}"]
    for name, more in (("problems.jsonl", {}), ("traces.jsonl", {"steps": steps})):
        (folder / name).write_text("".join(json.dumps({**row, **more}) + "\n" for row in problems))


def soak(minutes: float, folder: Path) -> dict[str, Any]:
    """The figures of a soak in an empty folder."""
    for name in ("work", "temp"):
        (folder / name).mkdir()
    write_data(folder / "work")
    server = LoopbackProcess(Path(os.devnull))
    server.behave(solve=True, faults=FAULTS)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.soak", "--work", f"{server.url}/v1"], cwd=folder / "work", text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder / "temp"), "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )  # fmt: skip
    try:
        return {**_driven(worker, minutes, folder), **server.calls()}
    finally:
        for process in (worker, server.process):
            process.kill()
            process.wait()


def _driven(worker: subprocess.Popen[str], minutes: float, folder: Path) -> dict[str, Any]:
    assert worker.stdin is not None and worker.stdout is not None
    began = time.monotonic()
    looks: list[Look] = []
    first: dict[tuple[str, int], Any] = {}
    done: Counter[str] = Counter()
    differing: list[str] = []
    turn = 0
    while (now := time.monotonic() - began) < 60 * minutes or turn < (SEEDS + 1) * len(COMMANDS):
        name, seed = list(COMMANDS)[turn % len(COMMANDS)], turn // len(COMMANDS) % SEEDS
        looks.append(look(worker.pid, now, True, folder))
        worker.stdin.write(json.dumps([name, seed]) + "\n")
        worker.stdin.flush()
        while not select.select([worker.stdout], [], [], SECONDS)[0]:
            looks.append(look(worker.pid, time.monotonic() - began, False, folder))
        code, found = json.loads(worker.stdout.readline())
        done[f"{name}: exit code {code}"] += 1
        if found != first.setdefault((name, seed), found):
            differing.append(f"{name}, seed {seed}, turn {turn}")
        turn += 1
    trends = judged(looks)
    busy = [look for look in looks if not look.between]
    return {
        "minutes": minutes, "turns": dict(done), "differing": differing, "looks": len(looks),
        "trends": {name: {**asdict(found), "flat": found.flat} for name, found in trends.items()},
        "peak": {name: max((getattr(look, name) for look in busy), default=None) for name in BOUNDS},
        "flat": all(found.flat for found in trends.values()), "seen": [list(look) for look in looks],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("soak.json"), help="figures as JSON")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work)
        return 0
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        found = soak(given.minutes, Path(folder))
    given.out.write_text(json.dumps(found) + "\n", encoding="utf-8")
    for name, count in found["turns"].items():
        sys.stdout.write(f"{count:6d}  {name}\n")
    for name, line in found["trends"].items():
        flat = "flat" if line["flat"] else "NOT FLAT"
        sys.stdout.write(
            f"{name:9s} {flat}: mean {line['mean']:,.0f}, {line['growth']:+,.1f} of {line['bound']:,.0f}\n"
        )
    sys.stdout.write(f"{found['calls']} calls of the server, of which {found['failed']} failed\n")
    sys.stdout.write(f"results that differ from the first of their seed: {len(found['differing'])}\n")
    return 0 if found["flat"] and not found["differing"] else 1


if __name__ == "__main__":
    sys.exit(main())
