"""A labelling run that is killed again and again ends as if nothing had happened, and redoes nothing it had finished."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from footfall.answers import grade
from footfall.formats import read_parquet, write_parquet
from footfall.policy.protocol import Policy, SamplingParams
from footfall.types import Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.forked import Forked

PROGRAM = Path(__file__).with_name("label_and_log.py")
PATIENCE_SECONDS = 120.0

Rollout = tuple[str, int]
"""The prefix's key and the sample index."""


@dataclass
class Job:
    """One `footfall label` command line, started as often as it takes."""

    folder: Path
    traces: list[Trajectory]
    options: list[str]
    chunk: int
    seconds: float = 0.0
    finished_before: dict[int, set[str]] = field(default_factory=dict)
    """For each process, the prefixes whose shards lay there when it started."""

    @property
    def out(self) -> Path:
        return self.folder / "run"

    @property
    def log(self) -> Path:
        return self.folder / "rollouts.log"

    def start(self, die_in_shard: int = 0) -> Forked:
        self.folder.mkdir(exist_ok=True)
        data = self.folder.parent / "traces.parquet"
        if not data.exists():
            write_parquet(data, self.traces, "trajectory")
        words = ["label", "--data", str(data), "--chunk", str(self.chunk), "--out", str(self.out), "--json"]
        finished = self.finished_prefixes()
        process = Forked(
            [PROGRAM, self.log, self.seconds, die_in_shard, *words, *self.options],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.finished_before[process.pid] = finished
        return process

    def finish(self) -> None:
        process = self.start()
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, errors

    def shards(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.out.glob("judgements/*.parquet"))}

    def finished_prefixes(self) -> set[str]:
        parts = [int(name[:5]) for name in self.shards()]
        done = [trace for i in parts for trace in self.traces[i * self.chunk : (i + 1) * self.chunk]]
        return {trace.prefix(k).key for trace in done for k in range(1, len(trace.steps) + 1)}

    def rollouts(self) -> list[tuple[int, Rollout]]:
        """Who sampled what, in order."""
        if not self.log.exists():
            return []
        fields = (line.split() for line in self.log.read_text().splitlines())
        return [(int(pid), (key, int(index))) for pid, key, index in fields]

    def sampled(self) -> int:
        """How many rollouts so far: a line of the log each."""
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def kill_after(self, rollouts: int, more_seconds: float) -> None:
        """Start a process, let it sample so much and run a moment longer, then SIGKILL."""
        enough = self.sampled() + rollouts
        process = self.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.sampled() < enough and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(more_seconds)
        process.kill()
        _, errors = process.communicate()
        assert process.returncode == -9, f"it ended before it could be killed: {errors}"


def traces_of(policy: Policy, n: int) -> list[Trajectory]:
    """One trace a problem, so that each prefix belongs to one shard."""
    world = ArithmeticWorld()
    prefixes = [world.prefix(problem) for problem in world.problems(n, seed=4)]
    sampled = policy.sample(prefixes, 1, SamplingParams(max_tokens=200, seed=4))
    return [grade(done.after(prefix, policy.name)) for prefix, (done,) in zip(prefixes, sampled, strict=True)]


def result_of(job: Job) -> dict[str, object]:
    """What the command reports, but for times and places."""
    result = json.loads((job.out / "result.json").read_text())
    return {name: value for name, value in result.items() if name not in ("seconds", "file", "page")}


def check_as_if_undisturbed(killed: Job, undisturbed: Job) -> None:
    assert killed.shards() == undisturbed.shards(), "byte for byte"
    assert (killed.out / "judged.parquet").read_bytes() == (undisturbed.out / "judged.parquet").read_bytes()
    assert result_of(killed) == result_of(undisturbed)
    assert not list(killed.out.rglob(".*.tmp"))
    rows = read_parquet(killed.out / "judged.parquet", "judged")
    assert [row.trajectory.id for row in rows] == [trace.id for trace in killed.traces]


def check_nothing_finished_was_done_again(killed: Job, undisturbed: Job) -> None:
    needed = Counter(rollout for _, rollout in undisturbed.rollouts())
    assert set(needed.values()) == {1}, "an undisturbed run samples each rollout once"
    assert {rollout for _, rollout in killed.rollouts()} == needed.keys()
    for pid, (prefix, index) in killed.rollouts():
        assert prefix not in killed.finished_before[pid], f"rollout {index} of a finished prefix was sampled again"
    for pid in killed.finished_before:
        own = [rollout for p, rollout in killed.rollouts() if p == pid]
        assert len(own) == len(set(own)), "no process samples a rollout twice"


@pytest.mark.long
def test_twenty_kills_change_no_byte_and_repeat_no_finished_rollout(tmp_path: Path) -> None:
    traces = traces_of(ArithmeticPolicy(), 90)
    options = ["--policy", "scripted-arithmetic", "--rollouts", "4", "--until", "first-error", "--seed", "5"]
    undisturbed = Job(tmp_path / "undisturbed", traces, options, chunk=1)
    undisturbed.finish()
    killed = Job(tmp_path / "killed", traces, options, chunk=1, seconds=0.01)
    rng = random.Random(20)
    for _ in range(20):
        killed.kill_after(rollouts=4 * rng.randrange(9), more_seconds=rng.uniform(0, 0.03))
    assert 0 < len(killed.shards()) < len(undisturbed.shards()), "the kills came while there was work"
    killed.finish()
    check_as_if_undisturbed(killed, undisturbed)
    check_nothing_finished_was_done_again(killed, undisturbed)


@pytest.mark.long
def test_half_a_shard_is_no_shard(tmp_path: Path) -> None:
    traces = traces_of(ArithmeticPolicy(), 6)
    options = ["--policy", "scripted-arithmetic", "--rollouts", "2", "--store", "none"]
    undisturbed = Job(tmp_path / "undisturbed", traces, options, chunk=2)
    undisturbed.finish()
    killed = Job(tmp_path / "killed", traces, options, chunk=2)
    for shards_before, die_in in [(0, 1), (0, 2), (1, 2)]:
        assert len(killed.shards()) == shards_before
        process = killed.start(die_in)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == -9, errors
        assert list(killed.out.rglob(".*.tmp")), "what it was writing still lies there"
    killed.finish()
    check_as_if_undisturbed(killed, undisturbed)
    check_nothing_finished_was_done_again(killed, undisturbed)


@pytest.mark.long
def test_the_embedded_model_labels_the_same_to_the_bit_after_kills(tmp_path: Path) -> None:
    from footfall.policy.embedded import embedded

    traces = traces_of(embedded(), 24)
    options = ["--policy", "embedded", "--rollouts", "6", "--max-tokens", "200", "--half-width", "0.3"]
    undisturbed = Job(tmp_path / "undisturbed", traces, options, chunk=2)
    undisturbed.finish()
    # Of the twelve chunks, a call or more each, a kill comes in the second call at the latest, however fast the machine is.
    killed = Job(tmp_path / "killed", traces, options, chunk=2, seconds=0.1)
    rng = random.Random(4)
    for _ in range(4):
        killed.kill_after(rollouts=rng.randrange(1, 16), more_seconds=rng.uniform(0, 0.1))
    killed.finish()
    check_as_if_undisturbed(killed, undisturbed)
    check_nothing_finished_was_done_again(killed, undisturbed)
