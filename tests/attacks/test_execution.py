"""Programs that were written to get out, to forge a verdict or to take all there is, as traces of labellers that run code.

Nothing of the host is read, made or reached, no wrong program passes, no judge raises or hangs, no process stays, and what is
said of each can be stored. The long tier meets every program in every mutation, in both labellers and in sessions.
"""

from __future__ import annotations

import random
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from footfall.formats import write_parquet
from footfall.label.execution import Execution
from footfall.label.formal import Formal
from footfall.tools import Limits, Sandbox, why_no_walls
from footfall.types import Judge, Judged, Problem, Step, Trajectory
from tests.attacks.hostile_programs import MUTATIONS, PROGRAMS
from tests.sizes import SOAK
from tests.tools.test_sandbox_attacks import left_behind, marked

pytestmark = pytest.mark.skipif(why_no_walls() is not None, reason=f"no sandbox here: {why_no_walls()}")

LIMITS = Limits(seconds=0.5, cpu_seconds=1, memory_mb=128, disk_mb=4)
JUDGES: dict[str, Judge] = {"execution": Execution(Sandbox(LIMITS)), "formal": Formal(Sandbox(LIMITS))}
TESTS = [
    "assert add(2, 3) == 5",
    "assert all(add(n, 1) == n + 1 for n in range(3))",
    "assert math.isclose(add(1, 2), 3)",
]
ADD = Problem(
    "add",
    "Add.",
    domain="code",
    meta={"program": ["import math", "def add(a, b):", "    return a + b"], "tests": TESTS},
)
PATIENCE = 120
"""Seconds on the clock for one program, however busy the machine: so long only a hang takes."""


@contextmanager
def no_hang(what: str) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Host:
    """What an escape would be noticed by: a secret, a file that is not there, a port, the names of processes."""

    def __init__(self, folder: Path, server: socket.socket) -> None:
        self.secret = secrets.token_hex(8)
        self.folder, self.server = folder, server
        (folder / "secret").write_text(self.secret)
        (folder / "secret").chmod(0o644)

    def program(self, text: str) -> tuple[str, str]:
        places = {
            "@SECRET@": self.folder / "secret",
            "@MARK@": self.folder / "mark",
            "@PORT@": self.server.getsockname()[1],
        }
        for word, place in places.items():
            text = text.replace(word, str(place))
        return marked(text)

    def check(self, said: str, name: str) -> None:
        assert self.secret not in said
        assert [path.name for path in self.folder.iterdir()] == ["secret"]
        with pytest.raises(BlockingIOError):
            self.server.accept()
        assert not left_behind(name, seconds=5)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "host").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield Host(tmp_path / "host", server)


def attack(host: Host, judge: str, program: str, mutation: str, stored: Path) -> None:
    text, name = host.program(MUTATIONS[mutation](PROGRAMS[program]))
    trajectory = Trajectory("t", ADD, (Step(text),), separator="\n")
    with no_hang(f"{program}, {mutation}"):
        (said,) = JUDGES[judge].judge([trajectory])
    assert said.values[0] in ((0.0,) if judge == "execution" else (0.0, None)), (program, mutation, said)
    host.check(str(said), name)
    write_parquet(stored / "said.parquet", [Judged(trajectory, said)], "judged")


@pytest.mark.parametrize("seed", range(16))
def test_a_hostile_program_gets_nothing(seed: int, host: Host, tmp_path: Path) -> None:
    draw = random.Random(seed)
    program = sorted(PROGRAMS)[seed * 3 % len(PROGRAMS)]
    attack(host, draw.choice(["execution", "execution", "formal"]), program, draw.choice(sorted(MUTATIONS)), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_hostile_program_gets_anything_in_any_mutation(judge: str, program: str, host: Host, tmp_path: Path) -> None:
    """Two mutations that the program's name and the judge's draw; with FOOTFALL_SOAK=1 the judge that runs code meets all."""
    drawn = random.Random(f"{judge} {program}").sample(sorted(MUTATIONS), 2)
    for mutation in MUTATIONS if SOAK and judge == "execution" else drawn:
        attack(host, judge, program, mutation, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_hostile_block_does_not_answer_for_the_next_one(program: str, host: Host) -> None:
    text, name = host.program(PROGRAMS[program])
    with no_hang(program), Sandbox(LIMITS).session() as session:
        said = [session.run(f"{text}\nadd(1, 2)"), session.run("raise ValueError('no')")]
        assert said[1].exit_code != 0, said
    host.check(str(said), name)
