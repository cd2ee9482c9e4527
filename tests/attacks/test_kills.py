"""Killed at random moments and at changes of files: the same command again gives the same bytes, and nothing is left over."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from footfall.commands import COMMANDS as ALL
from footfall.commands import bench
from footfall.commands._config_file import options_of
from tests.attacks import dying, kills
from tests.attacks.commands import COMMANDS, possible
from tests.attacks.dying import Disturbance, Ended
from tests.attacks.kills import Case, Known, differences, faults, told
from tests.sizes import SOAK

DEAR = (
    "lab ledger",
    "lab ledger, merged",
    "lab ledger, updated",
    "lab run, recorded",
    "lab run, two processes",
    "bench search, two processes",
    "rl",
    "rl, system",
    "train, merged",
)
"""Left to the program itself: `python -m tests.attacks.kills`."""
CHANGES = ["--every", "40"] if SOAK else ["--drawn", "1"]
"""At which changes of each command something happens: every fortieth, or one that is drawn by a seed."""
WRITE_NOTHING = {"list", "show", "completion", "info", "serve"}
CHANGE_NO_FILE = {
    "config",
    "accelerate",
    "runs",
    "scores",
    "skip_bad",
    "json",
    "allow_constant",
    "estimate",
    "quick",
    "all",
    "check",
}
"""Paths that are read only, and switches for reading, measuring and showing."""


def configurations() -> dict[str, Any]:
    """Of commands that write, and of the subcommands among them, by the words that one types."""
    found: dict[str, Any] = {}
    for name in ALL.keys() - WRITE_NOTHING:
        module, config, _ = ALL[name]
        by_words = {name: config} if isinstance(config, str) else {f"{name} {w}": c for w, c in (config or {}).items()}
        found |= {words: getattr(importlib.import_module(module), kind) for words, kind in by_words.items()}
    return found


def typed() -> dict[str, set[str]]:
    """The words of all command lines of the attack, by command, or by the two words of a subcommand."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in chain.from_iterable(command.lines for command in COMMANDS.values()):
        for name in (line[0], f"{line[0]} {line[1]}"):
            found[name] |= set(line)
    return found


def test_every_command_and_subcommand_that_writes_is_attacked() -> None:
    assert {line[0] for command in COMMANDS.values() for line in command.lines} == ALL.keys() - WRITE_NOTHING
    words = {*configurations(), *(f"bench {word}" for word in (*bench.SPECIAL, *bench.STUDIES))}
    assert {"lab ledger", "bench all"} <= words <= typed().keys()


def test_every_option_that_names_what_is_written_and_every_switch_is_attacked() -> None:
    switches: set[str] = set()
    for name, kind in configurations().items():
        options = {option: hint for option, hint in options_of(kind) if option not in CHANGE_NO_FILE}
        written = {option for option, hint in options.items() if "Path" in str(hint) or option == "store"}
        assert {f"--{option}" for option in written} <= typed()[name], name
        switches |= {f"--{option.replace('_', '-')}" for option, hint in options.items() if hint is bool}
    assert {"--fresh", "--again"} <= switches <= set().union(*typed().values())


@pytest.mark.parametrize(
    "words", [["list"], ["show", "a.jsonl"], ["completion", "bash"], ["info", "a.jsonl"]], ids=" ".join
)
def test_the_others_write_nothing(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"problem": "What is 3 + 4?", "steps": ["7"]}\n')
    watching = (
        "import sys; from tests.attacks.dying import Disturbance, disturb; from footfall.cli import main\n"
        "changes = disturb(Disturbance(), list); code = main(sys.argv[1:]); sys.exit(code or changes().changes)"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", watching, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_sampling_run_that_is_killed_or_meets_a_full_disk_at_some_moments_ends_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    """A full disk costs one line and exit code 2 before that."""
    rows = told(tmp_path, "--every", "11", "--what", "kill", "full", "--kills", "1", "--commands", "sample")
    kinds = Counter(row["case"].split()[0] for row in rows)
    assert {*kinds} == {"kill", "full", "random"} and kinds["full"] >= 2
    assert sum(row["kills"] for row in rows) >= 3 and not [row["wrong"] for row in rows if row["wrong"]]


def test_what_the_state_file_has_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, known = tmp_path / "state.jsonl", {"sample": Known([], {}, 1.0, 3)}
    seen: list[str] = []

    def tried(case: Case, known: Known, folder: Path) -> dict[str, Any]:
        seen.append(case.name)
        return {"case": case.name, "command": case.command, "kills": 1, "wrong": ["kept"]}

    monkeypatch.setattr(kills, "tried", tried)
    for wanted in (2, 5):
        cases = chain(kills.every_change("kill", 1, known), kills.at_random(0, known))
        kills.work(cases, known, tmp_path, state, math.inf, wanted)
    assert seen == [*(f"kill sample {k}" for k in (1, 2, 3)), *(f"random 0 {k}" for k in range(5))]


def test_changes_are_drawn_by_the_seed_for_each_command_and_the_last_is_not() -> None:
    """A run may be done before its last one."""
    known = {name: Known([], {}, 1.0, changes) for name, changes in {"sample": 40, "label": 40, "list": 1}.items()}
    drawn = [[case.name for case in kills.every_change("kill", 1, known, 3, seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and "kill list 1" in drawn[0]
    assert [name.split()[1] for name in drawn[0]] == ["sample"] * 3 + ["label"] * 3 + ["list"]
    assert all(1 <= case.disturbances[0].at < 40 for case in kills.every_change("kill", 1, known, 39))


@pytest.mark.long
def test_commands_are_killed_at_some_changes_and_at_random_moments_and_meet_a_full_disk_and_a_folder_for_reading(
    tmp_path: Path,
) -> None:
    """A share of what docs/reliability.md counts; what undisturbed runs leave is learnt once for all of it."""
    names = [name for name in possible() if name not in DEAR]
    rows = told(tmp_path, *CHANGES, "--what", "kill", "full", "readonly", "--kills", "20", "--commands", *names)
    assert not [row["wrong"] for row in rows if row["wrong"]]
    for what in ("kill", "full", "readonly"):
        assert {row["command"] for row in rows if row["case"].startswith(what)} == set(names)
    kinds = Counter(row["case"].split()[0] for row in rows for _ in range(row["kills"]))
    assert kinds["kill"] >= len(names) and kinds["random"] >= 20


# The attack itself sees what it is there to see.


def test_a_process_that_outlives_its_killed_parent_is_counted_and_ended() -> None:
    left_behind = (
        "from tests.attacks import dying; import os, signal, subprocess, sys\n"
        "dying.adopt(); dying.GRACE = 0.2\n"
        "pid = os.fork()\n"
        "if pid == 0: subprocess.Popen(['sleep', '60']); os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.waitpid(pid, 0)\n"
        "assert dying.orphans() == ['sleep 60 '] and dying.orphans() == []"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", left_behind], cwd=Path(__file__).parents[2], check=True)
    assert time.monotonic() - began < 50


@pytest.mark.parametrize(("busy", "found"), [(0.0, ["sleep 1 "]), (1.0, [])])
def test_a_process_that_had_no_processor_is_slow_and_no_orphan(
    busy: float, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`busy` is the share of time in which other processes had all processors."""
    monkeypatch.setattr(dying, "GRACE", 0.2)
    monkeypatch.setattr(dying, "waiting", lambda pid: busy * time.monotonic())
    with subprocess.Popen(["sleep", "1"]) as process:
        monkeypatch.setattr(dying, "KEPT", {*dying.children(os.getpid())} - {process.pid})
        assert dying.orphans() == found


def test_time_without_a_processor_is_what_the_kernel_counts() -> None:
    """Two processes that share one processor wait half of their time."""
    spin = (
        "import os, sys, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "while time.process_time() < 0.5: pass\n"
        "print(flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", spin]
    both = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for process in both:
            assert process.stdout is not None
            process.stdout.readline()
        assert max(dying.waiting(process.pid) for process in both) > 0.2
        assert dying.waiting(os.getpid()) >= 0 and dying.waiting(2**30) == 0
    finally:
        for process in both:
            process.communicate()


def test_a_run_that_does_not_end_is_a_fault(tmp_path: Path) -> None:
    """It is killed, but not as the attack wanted it."""
    hanging = (
        "import time; from pathlib import Path; from tests.attacks import dying; from tests.attacks.dying import Disturbance\n"
        "import footfall.cli; footfall.cli.main = lambda words: time.sleep(60)\n"
        "dying.PATIENCE = 0.5; dying.adopt()\n"
        "ended = dying.run([['sample']], Path('run').absolute(), Disturbance('near', 3))\n"
        "from tests.attacks.kills import Known, faults\n"
        "assert ended.code == -9 and ended.hung\n"
        "assert len(faults(Disturbance('near', 3), ended, Known([], {}, 1.0, 1))) == 1\n"
        "assert not dying.run([['sample']], Path('run').absolute(), Disturbance('after', 0.1)).hung"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", hanging], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, check=True)


def test_another_byte_a_stray_file_and_a_missing_one_are_differences() -> None:
    assert differences({"a": b"1", "b": b"2", "c": b"3"}, {"a": b"1", "b": b"x", ".d.tmp": b""}) == [".d.tmp", "b", "c"]


def test_a_full_disk_must_be_told_in_one_line_that_names_a_file() -> None:
    known, full = Known([], {"run/result.json": {}}, 1.0, 1), Disturbance("full", 3)
    line = "footfall: run/result.json: no space left on device\n"
    assert faults(full, Ended(2, 1.0, 0, [], line), known) == []
    assert faults(full, Ended(0, 1.0, 3, [], "", refused=0), known) == [], "only removals were left to do"
    for code, errors in (
        (2, line + line),
        (0, ""),
        (2, "footfall: no space left on device\n"),
        (2, f"Traceback\n{line}"),
    ):
        assert faults(full, Ended(code, 1.0, 0, [], errors, refused=1), known)
    assert faults(Disturbance("kill", 3), Ended(-9, 1.0, 0, ["sleep 60"], ""), known) == ["orphan: sleep 60"]
    assert set() == dying.KEPT
