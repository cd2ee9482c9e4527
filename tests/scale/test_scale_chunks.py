"""Chunks that others do: the run directory, the order of results, and what may be done at the same time. No Ray is needed."""

from __future__ import annotations

import builtins
import json
import os
import random
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from footfall.cli import main
from footfall.formats import FormatError
from footfall.scale.actors import RayWorkers, Resources, _Actor, _Given, _no_memory
from footfall.scale.worker import Worker, stay_on_a_processor
from footfall.store import Chunk, Done, Run, RunError, Task
from footfall.types import Cost, Judgement, Problem, Step, Trajectory

TRACES = [Trajectory(f"t{i}", Problem(f"p{i // 3}", f"{i // 3} + 4?", "7"), (Step(f"step {i}"),)) for i in range(20)]


def work(part: Sequence[Trajectory]) -> list[Judgement]:
    return [Judgement(t.id, (0.25,), "quarter", cost=Cost(calls=1, flops=0.1)) for t in part]


class AnyOrder:
    """Workers that end in an order of their own, of which some chunks are under way at any time."""

    def __init__(self, seed: int, task: Task | None = None) -> None:
        self.random, self.task = random.Random(seed), task or Task(work, "judgement")
        self.most = 0

    def each(self, chunks: Iterator[Chunk], log: Callable[..., None]) -> Iterator[Done]:
        log("workers", workers=4)
        held: list[Chunk] = []
        while True:
            while len(held) < 4 and (chunk := next(chunks, None)) is not None:
                held.append(chunk)
            if not held:
                return
            chunk = held.pop(self.random.randrange(len(held)))
            yield Done(chunk, *self.task.shard(chunk.items, chunk.name), 0.5, {"node": "n", "pid": 1, "log": "x.err"})


def labelled(folder: Path, workers: AnyOrder | None = None) -> tuple[list[Judgement], Cost, dict[str, bytes]]:
    with Run(folder, "label", {}, workers=workers) as run:
        found = run.map("labels", TRACES, work, key=lambda t: t.key, kind="judgement", chunk=2)
    return found, run.cost, {path.name: path.read_bytes() for path in sorted(folder.glob("labels/*"))}


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_in_which_workers_end_results_costs_and_bytes_are_those_of_one_process(
    tmp_path: Path, seed: int
) -> None:
    assert labelled(tmp_path / "many", AnyOrder(seed)) == labelled(tmp_path / "one")


def test_what_is_there_is_not_handed_out_and_the_log_says_who_did_the_rest(tmp_path: Path) -> None:
    before = labelled(tmp_path)
    shards = sorted((tmp_path / "labels").iterdir())
    for gone in (shards[0], shards[7]):
        gone.unlink()
    assert labelled(tmp_path, AnyOrder(0)) == before
    with Run(tmp_path, "label", {}) as run:
        done = [event for event in run.logged("chunk") if "worker" in event]
    assert sorted(event["index"] for event in done) == [0, 7]
    assert done[0]["worker"] == {"node": "n", "pid": 1, "log": "x.err"}


def test_what_an_earlier_start_finished_first_waits_for_no_worker_and_is_not_held_until_one_ends(
    tmp_path: Path,
) -> None:
    """Of ten million traces nearly all chunks may be there: those before the first that is missing go on at once."""
    before = labelled(tmp_path)
    sorted((tmp_path / "labels").iterdir())[7].unlink()
    workers = AnyOrder(0)
    with Run(tmp_path, "label", {}, workers=workers) as run:
        found = run.each("labels", TRACES, 20, Task(work, "judgement"), key=lambda t: t.key, chunk=2)
        first = [next(found) for _ in range(7)]
        assert not run.logged("workers"), "nobody was asked yet"
        rest = list(found)
        assert len(run.logged("workers")) == 1
    assert [each for done in (*first, *rest) for each in done] == before[0]


def test_workers_that_return_too_little_are_an_error_and_leave_no_shard(tmp_path: Path) -> None:
    few = Task(lambda part: work(part)[1:], "judgement")
    with pytest.raises(RunError, match=r"chunk \d: 1 results for 2 items"):
        labelled(tmp_path, AnyOrder(0, few))
    assert not list(tmp_path.glob("labels/*"))


def test_a_chunk_waits_for_an_earlier_one_that_shares_its_problem_unless_it_goes_to_the_same_worker() -> None:
    workers = RayWorkers("local", partial(Task, work, "judgement"))
    one, two = _Actor("one"), _Actor("two")
    workers._actors = [one, two]
    shared: list[set[str]] = [{"a"}, {"a", "b"}, {"b"}, {"c"}]
    waiting = deque(_Given(Chunk("s", i, str(i), (), frozenset(names))) for i, names in enumerate(shared))

    def give(actor: _Actor) -> int | None:
        given = workers._next(actor, waiting)
        if given is None:
            return None
        actor.given[given.chunk.index] = given
        actor.last = given.chunk.shared
        return given.chunk.index

    assert give(one) == 0
    assert give(two) == 3, "1 shares a problem with 0, which is under way elsewhere, and 2 one with 1"
    assert give(one) == 1, "after 0, on the same worker"
    assert give(two) is None, "2 shares a problem with 1"
    one.given.clear()
    assert give(two) == 2


class AnyTime:
    """What `RayWorkers` uses of Ray: actors in this process, of which any may be the next to reply."""

    exceptions = SimpleNamespace(RayTaskError=type("RayTaskError", (Exception,), {}), RayError=OSError)

    def __init__(self, seed: int) -> None:
        self.random, self.replies, self.actors = random.Random(seed), count(), count()
        self.under_way: dict[int, list[tuple[int, Any]]] = {}

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0}

    def actor(self, *_: Any) -> SimpleNamespace:
        """One that does its calls in their order."""
        own = self.under_way.setdefault(next(self.actors), [])
        number = len(self.under_way) - 1

        def asked(said: Any) -> int:
            own.append((next(self.replies), said))
            return own[-1][0]

        return SimpleNamespace(
            here=SimpleNamespace(remote=lambda: asked({"pid": number})),
            open=SimpleNamespace(remote=lambda: asked(None)),
            do=SimpleNamespace(remote=lambda chunk: asked((None, len(chunk.items), 0.0, None))),
        )

    def wait(self, replies: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        return [self.random.choice([own[0][0] for own in self.under_way.values() if own])], []

    def get(self, reply: int) -> Any:
        (own,) = (own for own in self.under_way.values() if own and own[0][0] == reply)
        return own.pop(0)[1]


@pytest.mark.parametrize("seed", range(5))
def test_chunks_that_share_a_problem_go_to_the_worker_that_has_its_rollouts_in_their_order(seed: int) -> None:
    workers = RayWorkers("local", partial(Task, work, "judgement"), Resources(workers=4))
    workers._ray = AnyTime(seed)
    workers._class = SimpleNamespace(remote=workers._ray.actor)
    chunks = (Chunk("s", i, str(i), (TRACES[0],), frozenset({f"p{i // 3}"})) for i in range(60))
    done = [(each.chunk.index, each.worker["pid"]) for each in workers.each(chunks, lambda *_, **__: None)]
    assert sorted(index for index, _ in done) == list(range(60))
    for problem in range(20):
        own = [(index, pid) for index, pid in done if index // 3 == problem]
        assert [index for index, _ in own] == [3 * problem, 3 * problem + 1, 3 * problem + 2]
        assert len({pid for _, pid in own}) == 1
    assert len({pid for _, pid in done}) == 4


class Silent(AnyTime):
    """Actors that open, and from then on do not reply; a second passes whenever somebody waits."""

    seconds = 0.0

    def wait(self, replies: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        self.seconds += timeout
        first = [own[0] for own in self.under_way.values() if own]
        return [reply for reply, said in first if reply in replies and self.comes(said)][:1], []

    def comes(self, said: Any) -> bool:
        """Whether an actor ever replies so."""
        return said is None or isinstance(said, dict)

    def kill(self, handle: Any) -> None:
        """It has not replied anyway."""


def test_a_chunk_over_which_five_workers_hang_ends_the_run_and_the_error_names_the_patience() -> None:
    workers = RayWorkers("local", partial(Task, work, "judgement"), Resources(workers=2, patience=20.0))
    workers._ray = silent = Silent(0)
    workers._class = SimpleNamespace(remote=silent.actor)
    workers._now = lambda: silent.seconds
    told: list[tuple[str, str]] = []
    chunks = (Chunk("s", i, str(i), (TRACES[0],)) for i in range(9))
    with pytest.raises(RunError, match=r"5 workers were lost over it.* no reply for 20 s;.* larger --ray-patience"):
        list(workers.each(chunks, lambda event, **facts: told.append((event, facts.get("why", "")))))
    assert told.count(("worker lost", "no reply for 20 s")) in (9, 10), "each of the two actors five times"
    assert 5 * 20 < silent.seconds < 5 * 25


class Stuck(Silent):
    """A cluster of which so many actors hang when they open, the first ones, and the others do all that they are given."""

    def __init__(self, seed: int, stuck: int) -> None:
        super().__init__(seed)
        self.stuck = stuck

    def comes(self, said: Any) -> bool:
        return True

    def actor(self, *given: Any) -> SimpleNamespace:
        made = super().actor(*given)
        if len(self.under_way) <= self.stuck:
            made.open = SimpleNamespace(remote=lambda: -len(self.under_way))
        return made


def opened_by(
    stuck: int, workers: int, opening: float | None
) -> tuple[Stuck, list[int], list[tuple[str, dict[str, Any]]]]:
    """What six chunks come to where so many actors hang when they open."""
    crew = RayWorkers("local", partial(Task, work, "judgement"), Resources(workers=workers, opening=opening))
    crew._ray = cluster = Stuck(0, stuck)
    crew._class = SimpleNamespace(remote=cluster.actor)
    crew._now = lambda: cluster.seconds
    told: list[tuple[str, dict[str, Any]]] = []
    chunks = (Chunk("s", i, str(i), (TRACES[0],)) for i in range(6))
    done = [each.chunk.index for each in crew.each(chunks, lambda event, **facts: told.append((event, facts)))]
    return cluster, done, told


def test_a_worker_that_hangs_while_it_opens_is_replaced_after_the_time_that_the_user_gave() -> None:
    cluster, done, told = opened_by(stuck=4, workers=1, opening=20.0)
    assert sorted(done) == list(range(6))
    lost = [facts for event, facts in told if event == "worker lost"]
    assert [each["why"] for each in lost] == ["not open after 20 s"] * 4
    assert [each["worker"] for each in lost] == [{"pid": number} for number in range(4)], "who it was is known"
    assert 4 * 20 < cluster.seconds < 4 * 20 + 20


def test_half_an_hour_is_given_where_the_user_says_nothing() -> None:
    cluster, _, told = opened_by(stuck=1, workers=1, opening=None)
    assert "not open after 1800 s" in str(told) and 1800 < cluster.seconds < 1820


def test_workers_that_hang_side_by_side_are_not_counted_as_if_one_after_another() -> None:
    _, done, told = opened_by(stuck=6, workers=6, opening=20.0)
    assert sorted(done) == list(range(6)) and len([event for event, _ in told if event == "worker lost"]) == 6


def test_after_five_that_hang_in_a_row_the_run_ends_and_the_error_names_the_option() -> None:
    with pytest.raises(RunError, match=r"5 workers in a row .*opened .*: not open after 20 s; .*larger --ray-opening"):
        opened_by(stuck=5, workers=1, opening=20.0)


def test_an_actor_whose_word_that_it_is_open_lies_there_is_kept_however_late_the_driver_looks() -> None:
    """Between two batches of a training nobody asks for replies."""
    crew = RayWorkers("local", partial(Task, work, "judgement"), Resources(workers=2, opening=20.0, patience=20.0))
    crew._ray = cluster = Stuck(0, 0)
    crew._class = SimpleNamespace(remote=cluster.actor)
    crew._now = lambda: cluster.seconds
    told: list[str] = []
    for batch in range(3):
        chunks = (Chunk("s", i, f"{batch}-{i}", (TRACES[0],)) for i in range(2))
        for _ in crew.each(chunks, lambda event, **_: told.append(event)):
            cluster.seconds += 3600
    assert told == ["workers"]


class NoRoom(Silent):
    """A cluster in which no actor ever begins, until there was a word about it."""

    def wait(self, replies: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        self.seconds += timeout
        if self.seconds > 200:
            raise KeyboardInterrupt
        return [], []


@pytest.mark.parametrize(
    ("resources", "said"),
    [(Resources(gpus=2.0), "each wants --ray-gpus 2, and all of it has 0"), (Resources(), "no worker is open yet")],
)
def test_a_cluster_without_room_is_waited_for_and_the_user_is_told_once(
    resources: Resources, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    workers = RayWorkers("head:6379", partial(Task, work, "judgement"), resources)
    workers._ray = silent = NoRoom(0)
    workers._class = SimpleNamespace(remote=silent.actor)
    workers._now = lambda: silent.seconds
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        list(workers.each(iter([Chunk("s", 0, "0", (TRACES[0],))]), lambda event, **facts: told.append(event)))
    assert told.count("waiting") > 3
    assert len(caplog.records) == 1 and said in caplog.text


def test_whoever_says_that_memory_ran_out_is_understood() -> None:
    import torch

    with pytest.raises(RuntimeError) as no_room:
        torch.empty(1 << 50)
    library = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    driver = RuntimeError("CUDA error: out of memory")
    for error in (MemoryError(), torch.cuda.OutOfMemoryError("CUDA out of memory"), no_room.value, library, driver):
        assert _no_memory(error)
    assert not _no_memory(RuntimeError("shapes do not agree")) and not _no_memory(ValueError("out of memory"))


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ValueError("no such step"), ValueError, r"^no such step$"),
        (FormatError("a.png", "an image", line=3), RunError, r"^FormatError: a.png, line 3: .*\(.*line"),
        (type("Full", (MemoryError,), {"__init__": lambda self, *, device: None})(device=1), MemoryError, "^Full: "),
    ],
)
def test_an_error_that_another_process_cannot_make_again_reaches_the_driver_in_words(
    error: Exception, kind: type[Exception], said: str
) -> None:
    """`FormatError` wants more than its message, so Ray would tell the driver nothing, who would take the worker for lost."""

    def broken(part: Sequence[Trajectory]) -> list[Judgement]:
        raise error

    worker = Worker(partial(Task, broken, "judgement"), "", (), 0.0, False)
    worker._task = Task(broken, "judgement")
    with pytest.raises(kind, match=said) as caught:
        worker.do(Chunk("s", 0, "0", (TRACES[0],)))
    assert type(caught.value) is kind


def test_the_simulation_runs_the_scheduler_as_it_is(tmp_path: Path) -> None:
    """`simulate` itself sees to it that every chunk is done once."""
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"event": "chunk", "seconds": 2.0 + i % 3}) + "\n" for i in range(9)))
    script = Path(__file__).parents[2] / "benchmarks" / "scale.py"
    words = ["--simulate", str(log), "--simulated-workers", "20", "--simulated-chunks", "30", "--days", "0.01"]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["workers"], row["chunks"]) == (20, 600) and 0.1 < row["of_ideal"] < 1
    assert row["workers_lost"] > 0 and row["chunks_begun_again"] > 0, "some die within the run"


def test_without_ray_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    words = ["sample", "--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic", "--ray"]
    assert main(words) == 2
    assert 'pip install "footfall[ray]"' in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["ConnectionError", "RuntimeError", "AuthenticationError"])
def test_a_cluster_that_does_not_take_the_driver_is_one_line_that_names_the_token(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = pytest.importorskip("ray")

    def init(**how: object) -> None:
        place = builtins if hasattr(builtins, kind) else ray.exceptions
        raise getattr(place, kind)("not this one\nat length")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.chdir(tmp_path)
    words = ["sample", "--problems", "world:arithmetic:2", "--policy", "scripted-arithmetic", "--ray", "auto"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "not this one" in said and "RAY_AUTH_MODE=token" in said and "at length" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["bench", "steps", "--data", "world:arithmetic:4", "--judge", "oracle", "--ray"],
            "workers have nothing to do",
        ),
        (["bench", "compare", "a", "b", "--ray"], "finished runs and no --ray"),
        (["bench", "labels", "--option", "workers=2", "--ray"], "say --ray-workers how many"),
        (
            ["sample", "--problems", "world:arithmetic:2", "--ray", "--ray-workers", "0"],
            "--ray-workers 0: it must be 1",
        ),
        (["lab", "run", "aurora", "--quick", "--workers", "2", "--ray"], "say --ray-workers how many"),
        (["rl", "--problems", "world:arithmetic:24", "--ray"], "say --chunk N"),
        (["rl", "--quick", "--ray"], "leave them or --ray out"),
    ],
)
def test_ray_where_it_means_nothing_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_ray_takes_an_address_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from footfall.cli import _gathered

    cases: dict[tuple[str, ...], Any] = {
        ("--ray",): ["--ray", "local"],
        ("--ray", "traces.jsonl"): ["--ray", "local", "traces.jsonl"],
        ("--ray", "10.0.0.1:6379", "--json"): ["--ray", "10.0.0.1:6379", "--json"],
        ("--ray", "auto"): ["--ray", "auto"],
        ("--ray", "--chunk", "3"): ["--ray", "local", "--chunk", "3"],
    }
    for words, wanted in cases.items():
        assert _gathered(list(words)) == wanted


def test_the_room_loads_no_ray() -> None:
    script = "import sys, footfall.commands.label; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_workers_of_this_machine_stay_on_processors_of_their_own() -> None:
    """Each has one until it ends, also by a kill; who finds none left may run anywhere, and so may all on other systems."""
    if not hasattr(os, "sched_setaffinity"):
        assert stay_on_a_processor() is None
        return
    stays = "import os, sys; from footfall.scale.worker import stay_on_a_processor as stay; "
    stays += f"print(stay('test-{os.getpid()}'), len(os.sched_getaffinity(0)), flush=True); sys.stdin.read()"
    here = len(os.sched_getaffinity(0))

    def begun() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", stays], stdin=pipe, stdout=pipe, text=True)

    def said(process: subprocess.Popen[str]) -> tuple[str, str]:
        assert process.stdout is not None
        number, allowed = process.stdout.readline().split()
        return number, allowed

    workers = [begun() for _ in range(min(here, 2))]
    try:
        found = [said(worker) for worker in workers]
        assert len({number for number, _ in found}) == len(workers) and {allowed for _, allowed in found} == {"1"}
        if here == len(workers):
            workers.append(begun())
            assert said(workers[-1]) == ("None", str(here))
        workers[0].kill()
        workers[0].wait()
        workers.append(begun())
        assert said(workers[-1]) == found[0]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
