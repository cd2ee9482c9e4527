"""The attacks as seeded attempts, by kind, for the long tests and for `python -m tests.attacks`.

An attempt gives in one word how it ended; an AssertionError says that something got through, any other error is a traceback.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from footfall.drive.rollout_store import RolloutStore
from footfall.formats import FormatError, read_parquet, write_parquet
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Judged, Judgement, SearchResult, Step, Tree
from tests.attacks.dying import waited
from tests.attacks.hostile_programs import MUTATIONS, PROGRAMS
from tests.attacks.test_damaged_files import flipped, traces

MOST_SECONDS = 10.0
"""For one attempt, on the clock, as on an idle machine: time in which it was ready and other processes had all processors is
not counted. Its processor time, with that of the processes it started, may not be more either. More is a hang."""


class Attempt(NamedTuple):
    name: str
    run: Callable[[], str]


class Kind(NamedTuple):
    at_size_one: int
    """Attempts: as many as the first audit made."""
    wrong: str
    """What it is that got through."""
    attempts: Callable[[int, int, Path], Iterator[Attempt]]
    """By seed, count and folder."""


def _flips(seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    """One bit of a file of each kind of row, the rollout store's among them."""
    some = traces()
    judged = [Judged(trace, Judgement(trace.id, (0.5, 1.0), "j")) for trace in some]
    rows: dict[str, list[Any]] = {
        "problem": [trace.problem for trace in some[:1]], "trajectory": some, "judged": judged,
        "judgement": [row.judgement for row in judged], "tree": [Tree(some[0].problem)],
        "search-result": [SearchResult(some[0].problem, "4", some[0], (judged[0],), scores=(0.5,))],
    }  # fmt: skip
    book = RolloutStore.book("policy", SamplingParams())
    RolloutStore(folder).put(book, [("address", Completion((Step("4."),), "end", 0))])
    (shard,) = (folder / book).glob("*.parquet")
    whole = {"rollouts": (shard.read_bytes(), "trajectory")}
    for kind, given_rows in rows.items():
        write_parquet(folder / "rows.parquet", given_rows, kind)
        whole[kind] = ((folder / "rows.parquet").read_bytes(), kind)
    rng = random.Random(seed)
    for _ in range(count):
        name = rng.choice(sorted(whole))
        data, kind = whole[name]
        bit = rng.randrange(8 * len(data))
        yield Attempt(f"bit {bit} of {name}", partial(_flip, folder, data, kind, bit))


def _flip(folder: Path, data: bytes, kind: str, bit: int) -> str:
    path = folder / "flipped.parquet"
    path.write_bytes(flipped(data, bit))
    try:
        read_parquet(path, kind)
    except FormatError as error:
        assert "\n" not in str(error)
        return "refused"
    raise AssertionError(f"bit {bit} of a file of {kind} was read")


def drawn(strategy: st.SearchStrategy[Any], count: int, seed: int) -> list[Any]:
    """So many examples of a strategy; the same for the same seed."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found[:count]


def _files(seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    from tests.attacks import test_readers as readers

    either = readers.mutated(readers.RECORDS) | readers.damaged(readers.RECORDS)
    scores = readers.mutated(readers.SCORES) | readers.damaged(readers.SCORES)
    tenth = count // 10
    for data, format in drawn(st.tuples(either, st.sampled_from(readers.FORMATS)), count - 3 * tenth, seed):
        yield Attempt(f"{format}: {data!r}", partial(_read, readers.check, data, format))
    for edits in drawn(readers.EDITS, tenth, seed):
        yield Attempt(f"Parquet: {edits}", partial(_read, readers.check_parquet, edits, folder / "rows.parquet"))
    for data in drawn(scores, tenth, seed):
        yield Attempt(f"scores: {data!r}", partial(_read, readers.check_scores, data, folder / "scores.jsonl"))
    for data, command in drawn(st.tuples(either, st.sampled_from(["show", "info"])), tenth, seed):
        yield Attempt(
            f"{command}: {data!r}", partial(_read, readers.check_command, data, command, folder / "rows.jsonl")
        )


def _read(check: Callable[..., None], *given: Any) -> str:
    check(*given)
    return "read or refused"


def _programs(seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    from tests.attacks import test_execution as execution

    (folder / "host").mkdir()
    rng = random.Random(seed)
    every = [(program, mutation) for program in sorted(PROGRAMS) for mutation in sorted(MUTATIONS)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        host = execution.Host(folder / "host", server)
        for program, mutation in rng.sample(every, count):
            judge = rng.choice(["execution", "execution", "formal"])
            yield Attempt(
                f"{program}, {mutation}, {judge}",
                partial(_held, execution.attack, host, judge, program, mutation, folder),
            )


def _held(attack: Callable[..., None], *given: Any) -> str:
    attack(*given)
    return "held"


def _replies(seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    from tests.attacks.test_server import tamper_over_the_wire
    from tests.policy.loopback_process import LoopbackProcess

    process = LoopbackProcess(folder / "log.jsonl")
    try:
        for k in range(count):
            at = seed * 100_000 + k
            yield Attempt(f"reply {at}", partial(tamper_over_the_wire, process, at))
    finally:
        process.stop()


def _prms(kind: str, seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    from tests.attacks import test_models as models

    prms, rows = models.make_prms(folder), models.canary_traces(folder / "traces.jsonl")
    for at in range(seed * 100_000, seed * 100_000 + count):
        yield Attempt(f"{kind} {at}", partial(models.one_damage, prms[kind], rows, at, folder))


def _decoders(seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    """By turns a GGUF file and a folder."""
    from tests.attacks import test_models as models
    from tests.reward.tiny_models import backbone_folder
    from tests.test_gguf import write_gguf

    decoders = [write_gguf(folder / "whole.gguf"), backbone_folder(folder / "decoder")]
    for k in range(count):
        whole, at = decoders[k % 2], seed * 100_000 + k // 2
        yield Attempt(f"{whole.name} {at}", partial(models.one_damaged_decoder, whole, at, folder))


def _injections(seed: int, count: int, folder: Path) -> Iterator[Attempt]:
    from tests.attacks import injections

    for k in range(count):
        at = seed * 100_000 + k
        yield Attempt(f"injection {at}", partial(injections.inject, at, folder))


KINDS = {
    "flipped bits": Kind(600, "misread", _flips),
    "fuzzed files": Kind(950, "misread", _files),
    "hostile programs": Kind(80, "escapes", _programs),
    "hostile replies": Kind(63, "misread", _replies),
    "damaged PRMs": Kind(200, "misread", partial(_prms, "whole")),
    "damaged adapters": Kind(200, "misread", partial(_prms, "adapter")),
    "damaged decoders": Kind(100, "misread", _decoders),
    "injections": Kind(18, "escapes", _injections),
}
FINDINGS = ("escapes", "tracebacks", "hangs", "misread", "partial files")


def attack(kind: str, seed: int, size: float, folder: Path) -> dict[str, Any]:
    """Carry the attempts of a kind out; what came of them, and how often something got through."""
    made = KINDS[kind]
    return tallied(made.attempts(seed, round(made.at_size_one * size), folder), made.wrong, folder)


def tallied(attempts: Iterator[Attempt], wrong: str, folder: Path) -> dict[str, Any]:
    ended: Counter[str] = Counter()
    findings = dict.fromkeys(FINDINGS, 0)
    slowest = (0.0, "")
    for attempt in attempts:
        watch = Stopwatch()
        try:
            with watch.stopping_after(MOST_SECONDS):
                how = attempt.run()
        except BaseException as error:  # a panic in Rust is no Exception; whatever it raises is what was looked for
            if isinstance(error, KeyboardInterrupt):
                raise
            kinds = {AssertionError: wrong, TimeoutError: "hangs"}
            how = next((name for kind, name in kinds.items() if isinstance(error, kind)), "tracebacks")
            sys.stderr.write(f"{how}: {attempt.name}\n{traceback.format_exc()}\n")
        took = watch.seconds()
        if took > MOST_SECONDS and how not in findings:
            how = "hangs"
            sys.stderr.write(f"{how}: {attempt.name} took {took:.1f} s\n")
        ended[how] += 1
        if how in findings:
            findings[how] += 1
        slowest = max(slowest, (took, attempt.name[:80]))
    findings["partial files"] = len([*folder.rglob(".*.tmp"), *folder.rglob("*.part")])
    shown = {"seconds": round(slowest[0], 2), "attempt": slowest[1]}
    return {"attempts": sum(ended.values()), "ended": dict(sorted(ended.items())), **findings, "slowest": shown}


class Stopwatch:
    """What something takes from now on: the clock's time but for this thread's waits for a processor, or processor time."""

    def __init__(self) -> None:
        self.began, self.used = self._undisturbed(), _processor_seconds()

    def seconds(self) -> float:
        return max(self._undisturbed() - self.began, _processor_seconds() - self.used)

    @staticmethod
    def _undisturbed() -> float:
        return time.monotonic() - waited(Path("/proc/self"))

    @contextmanager
    def stopping_after(self, seconds: float) -> Iterator[None]:
        """A TimeoutError as soon as it takes longer."""

        def look(number: int, frame: FrameType | None) -> None:
            if self.seconds() > seconds:
                raise TimeoutError

        before = signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 20)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _processor_seconds() -> float:
    """Of this process and those of its children that have ended."""
    return sum(os.times()[:4])
