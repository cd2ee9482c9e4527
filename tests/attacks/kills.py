"""Commands killed at random moments and at every change of a file, or met by a full disk, and then typed again:

    python -m tests.attacks.kills --kills 1000 --state kills.jsonl --workers 2
    python -m tests.attacks.kills --every 1 --state moments.jsonl
    python -m tests.attacks.kills --every 1 --what full readonly --state full.jsonl   from a change on no space; reading only
    python -m tests.attacks.kills --every 1 --what disk --state disk.jsonl       a disk of 1, 2, 3 … pages; needs root

After each disturbance the same command must end well and leave the same bytes as one that was not disturbed, no stray file, no
chunk done twice and no process. A random case is one to three SIGKILLs in a row, half of them at any time, half within
milliseconds of a change, so that writes are cut too. What is done is kept in the state file, and the same command line goes on;
`--minutes` ends a piece; in a `--folder` of its own it also finds again what undisturbed runs left, as long as the code is the
same. Exit code 1: something was not as it must be; in such a folder those cases can be looked at.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from tests.attacks import dying
from tests.attacks.commands import COMMANDS, doubled, left, make_data, possible
from tests.attacks.dying import Disturbance, Ended
from tests.policy.loopback_process import LoopbackProcess

JITTER = 0.003
"""Seconds after the beginning of a change within which a kill falls."""
WORDS = {
    "full": "no space left",
    "readonly": "read-only file system",
    "size": "file too large",
    "disk": "no space left",
}
KILLED = -9


class Known(NamedTuple):
    """A command, what it leaves when nothing disturbs it, how long it takes and how many changes it makes."""

    lines: Sequence[Sequence[str]]
    left: Mapping[str, Any]
    seconds: float
    changes: int
    pages: int = 0
    """That its files take on a disk."""
    start: Mapping[str, Path] = {}
    """What lies in its folder at first, by name."""
    repeats: bool = False


class Case(NamedTuple):
    """What is done to a command before it is let to its end."""

    name: str
    command: str
    disturbances: Sequence[Disturbance]


def undisturbed(names: Sequence[str], folder: Path, url: str) -> dict[str, Known]:
    """Each command run twice: what it imports stays loaded here, and it must leave the same both times.

    In a folder that an earlier start has used, it is read what these runs left.
    """
    found: dict[str, Known] = {}
    for name in names:
        place = folder / "undisturbed" / name
        swap = {"DATA": str(folder / "data"), "URL": url}
        command = possible()[name]
        lines = [[_swapped(word, swap) for word in words] for words in command.lines]
        start = {called: Path(_swapped(source, swap)) for called, source in command.start.items()}
        kept = place / "kept.json"
        if not kept.exists():
            shutil.rmtree(place, ignore_errors=True)
            seconds, changes = _twice(name, lines, place, start)
            kept.write_text(json.dumps([seconds, changes]), encoding="utf-8")
        dying.load((place / "second.modules").read_text(encoding="utf-8").split())
        files = [path for path in (place / "second").rglob("*") if path.is_file()]
        pages = sum(-(-path.stat().st_size // dying.PAGE) for path in files)
        seconds, changes = json.loads(kept.read_text(encoding="utf-8"))
        found[name] = Known(lines, left(place / "second"), seconds, changes, pages, start, command.repeats)
    return found


def begin(folder: Path, start: Mapping[str, Path]) -> None:
    """Lay down what a command begins from."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in start.items():
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy(source, folder / name)


def _twice(name: str, lines: Sequence[Sequence[str]], place: Path, start: Mapping[str, Path]) -> tuple[float, int]:
    """Seconds and changes of the second run."""
    ended = Ended(0, 0.0, 0, [], "")
    for attempt in ("first", "second"):
        begin(place / attempt, start)
        ended = dying.run(lines, place / attempt)
        if ended.code != 0 or ended.orphans:
            raise RuntimeError(f"{name} ends with {ended.code}, orphans {ended.orphans}: {ended.errors[-2000:]}")
        dying.load((place / f"{attempt}.modules").read_text(encoding="utf-8").split())
    if different := differences(left(place / "first"), left(place / "second")):
        raise RuntimeError(f"{name} is not the same twice: {different}")
    return ended.seconds, ended.changes


def _swapped(word: str, swap: Mapping[str, str]) -> str:
    for name, value in swap.items():
        word = value + word.removeprefix(name) if word.startswith(name) else word
    return word


def every_change(what: Any, every: int, known: Mapping[str, Known], drawn: int = 0, seed: int = 0) -> Iterator[Case]:
    """Each command at each of its changes, or at every so-and-so-manieth; or at so many, drawn from all but the last."""
    for name, command in known.items():
        largest = max((len(x) for x in command.left.values() if isinstance(x, bytes)), default=0) // dying.BYTES
        last = {"size": largest, "disk": command.pages}.get(what, command.changes)
        places: Sequence[int] = range(1, 1 + last, every)
        if drawn:
            but_last = places[:-1] or places
            places = random.Random(f"{seed}/{what}/{name}").sample(but_last, min(drawn, len(but_last)))
        for at in sorted(places):
            yield Case(f"{what} {name} {at}", name, [Disturbance(what, at)])


def at_random(seed: int, known: Mapping[str, Known]) -> Iterator[Case]:
    """Without end. Cheap commands come more often."""
    names = list(known)
    weights = [1 / known[name].seconds for name in names]
    for number in count():
        rng = random.Random(f"{seed}/{number}")
        (name,) = rng.choices(names, weights)
        yield Case(f"random {seed} {number}", name, [_kill(rng, known[name]) for _ in range(rng.choice((1, 1, 2, 3)))])


def _kill(rng: random.Random, known: Known) -> Disturbance:
    if rng.random() < 0.5:
        return Disturbance("after", rng.uniform(0, known.seconds))
    return Disturbance("near", rng.randint(1, known.changes), rng.uniform(0, JITTER))


def tried(case: Case, known: Known, folder: Path) -> dict[str, Any]:
    """What became of a case: the kills that came in time, and all that was not as it must be."""
    if case.disturbances[0].what == "disk":
        with dying.small_disk(folder, int(case.disturbances[0].at)) as make_space:
            return _tried(case, known, folder, make_space)
    return _tried(case, known, folder, lambda: None)


def _tried(case: Case, known: Known, folder: Path, make_space: Callable[[], object]) -> dict[str, Any]:
    began, kills = time.monotonic(), 0
    wrong: list[str] = []
    begin(folder, known.start)
    for disturbance in case.disturbances:
        ended = dying.run(known.lines, folder, disturbance)
        kills += ended.code == KILLED
        wrong += [f"{disturbance}: {fault}" for fault in faults(disturbance, ended, known)]
        if ended.code == 0:  # it was done before the kill came
            break
    make_space()
    again = dying.run(known.lines, folder)
    wrong += [f"orphan after its end: {line}" for line in again.orphans]
    if again.code != 0:
        wrong.append(f"then it ends with {again.code}: {again.errors[-500:]}")
    else:
        wrong += [f"then {name} differs" for name in differences(known.left, left(folder))]
        wrong += [] if known.repeats else [f"done twice: {chunk}" for chunk in doubled(folder)]
    return {"case": case.name, "command": case.command, "kills": kills, "wrong": wrong,
            "seconds": round(time.monotonic() - began, 2)}  # fmt: skip


def faults(disturbance: Disturbance, ended: Ended, known: Known) -> list[str]:
    """What is wrong with the end of a disturbed run."""
    found = [f"orphan: {line}" for line in ended.orphans]
    if ended.hung:
        found.append(f"it did not end in {dying.PATIENCE:g} s: {ended.errors[-300:]}")
    if "Traceback" in ended.errors:
        found.append(f"a traceback: {ended.errors[-500:]}")
    if disturbance.what not in WORDS:
        return found if ended.code in (KILLED, 0) else [*found, f"exit code {ended.code}: {ended.errors[-300:]}"]
    if ended.code == 0 and (
        disturbance.what in ("size", "disk") or not ended.refused
    ):  # there was room, or nothing to write
        return found
    said = [line for line in ended.errors.splitlines() if WORDS[disturbance.what] in line.lower()]
    places = {name.partition("/")[0] for name in known.left}
    if ended.code != 2 or len(said) != 1 or not any(place in said[0] for place in places):
        found.append(f"exit code {ended.code}, not 2 with one line that names a file: {ended.errors[-300:]}")
    return found


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The files that are there in one only, or have another content."""
    return [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]


def read_state(state: Path) -> list[dict[str, Any]]:
    """What is done so far."""
    return [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()] if state.exists() else []


def work(
    cases: Iterator[Case], known: Mapping[str, Known], folder: Path, state: Path, until: float, kills: int
) -> None:
    """Try the cases that are not done, until the time is up or so many random kills have come in time."""
    dying.adopt()
    for case in cases:
        done = {row["case"]: row["kills"] for row in read_state(state)}
        enough = sum(n for name, n in done.items() if name.startswith("random")) >= kills
        if time.monotonic() > until or (enough and case.name.startswith("random")):
            return
        if case.name in done:
            continue
        place = (
            folder / "disturbed" / case.command / case.name
        )  # as deep as undisturbed: some pages hold relative links
        shutil.rmtree(place, ignore_errors=True)  # of an attack that was stopped in the middle of it
        row = tried(case, known[case.command], place)
        with state.open("ab", buffering=0) as stream:
            stream.write(json.dumps(row).encode() + b"\n")  # one write: workers share the file
        if not row["wrong"]:
            shutil.rmtree(place)
            for more in (".err", ".modules"):
                place.with_name(place.name + more).unlink()


def attack(given: argparse.Namespace, folder: Path) -> list[str]:
    """Load what is needed, learn what is expected, and let workers try the cases; those at changes that are left to do."""
    import footfall.cli  # noqa: F401 - before the fork, as what follows
    from footfall.registry import parts

    until = time.monotonic() + 60 * given.minutes
    dying.adopt()
    folder.mkdir(parents=True, exist_ok=True)
    parts("policy")  # reads the source of all parts, once for all processes
    port = folder / "port"
    server = LoopbackProcess(Path(os.devnull), int(port.read_text()) if port.exists() else 0)
    port.write_text(str(server.port))
    dying.KEPT.add(server.process.pid)
    server.behave(solve=True)
    try:
        names = [name for name in possible() if not given.commands or name in given.commands]
        if any(name.startswith("lab") for name in names):
            _read_recipes()
        _forked(partial(make_data, folder / "data", [possible()[name] for name in names]))
        known = undisturbed(names, folder, f"{server.url}/v1")
        gc.collect()
        gc.freeze()
        asked = given.what if given.every or given.drawn else ()
        every = [
            case for what in asked for case in every_change(what, given.every or 1, known, given.drawn, given.seed)
        ]
        pids = []
        for number in range(given.workers):
            share = chain(every[number :: given.workers], at_random(1000 * given.seed + number, known))
            pids.append(_fork(partial(work, share, known, folder, given.state, until, given.kills)))
        if failed := sum(os.waitpid(pid, 0)[1] != 0 for pid in pids):
            raise RuntimeError(f"{failed} workers of the attack ended too early")
    finally:
        server.stop()
    done = {row["case"] for row in read_state(given.state)}
    return [case.name for case in every if case.name not in done]


def _read_recipes() -> None:
    """What every `footfall lab` computes from the source alone, once for all processes."""
    from footfall.lab.fingerprint import fingerprint
    from footfall.lab.ledger import statistics_hash
    from footfall.lab.recipe import catalogue

    statistics_hash()
    for entry in catalogue():
        fingerprint(entry.path)


def _fork(do: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            do()
            code = 0
        except BaseException:  # noqa: BLE001 - told as the interpreter would tell it; this process ends here
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def _forked(do: Callable[[], object]) -> None:
    if os.waitpid(_fork(do), 0)[1]:
        raise RuntimeError("what the commands read could not be made")


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line a command, what could not be tried here, and all that was wrong."""
    cases, kills = Counter(str(row["command"]) for row in rows), Counter[str]()
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        kills[row["command"]] += row["kills"]
        wrong[row["command"]] += [f"{row['case']}: {fault}" for fault in row["wrong"]]
    lines = [f"{name:28s} {cases[name]:5d} cases {kills[name]:5d} kills {len(wrong[name]):4d} wrong" for name in cases]
    total = f"{'all':28s} {cases.total():5d} cases {kills.total():5d} kills {sum(map(len, wrong.values())):4d} wrong"
    left_out = {name: command.needs for name, command in COMMANDS.items() if name not in possible()}
    missing = [f"{name:28s} left out, it needs {', '.join(needs)}" for name, needs in left_out.items()]
    return "\n".join([*lines, total, *missing, *(fault for faults in wrong.values() for fault in faults)]) + "\n"


def told(folder: Path, *words: str, state: str = "state.jsonl") -> list[dict[str, Any]]:
    """What the program did with these words, run as a process of its own; for tests."""
    places = ["--state", str(folder / state), "--folder", str(folder / "work")]
    command = [sys.executable, "-m", "tests.attacks.kills", *places, *words]
    subprocess.run(command, cwd=Path(__file__).parents[2], timeout=900, check=False)
    return read_state(folder / state)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=0, help="SIGKILLs at random moments, with those of the state file")
    parser.add_argument("--every", type=int, default=0, help="also at each change (1), or at every so-manieth")
    parser.add_argument(
        "--drawn", type=int, default=0, help="also at so many changes of each command, drawn by the seed"
    )
    parser.add_argument("--what", nargs="+", choices=("kill", *WORDS), default=["kill"], help="what happens at changes")
    parser.add_argument("--commands", nargs="*", help=f"of: {', '.join(possible())}")
    parser.add_argument("--state", type=Path, default=Path("kills.jsonl"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the commands work, kept; None: a temporary one")
    given = parser.parse_args()
    if given.folder:
        to_do = attack(given, given.folder.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            to_do = attack(given, Path(folder).resolve())
    rows = read_state(given.state)
    sys.stdout.write(summary(rows))
    if to_do:
        sys.stdout.write(f"{len(to_do)} cases are left to do, the first is: {to_do[0]}\n")
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
