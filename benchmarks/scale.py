"""Past one process: labelled steps a second by workers, the driver's memory, and 1,000 workers that fail, simulated.

    python benchmarks/scale.py --workers 1 2 4 8 16          # the embedded model labels, one thread a worker
    python benchmarks/scale.py --apart 1 8                   # so many plain runs at once, without Ray: the machine's own limit
    python benchmarks/scale.py --memory 10000 1000000        # the driver's memory without Ray and with it
    python benchmarks/scale.py --memory 10000 10000000 --tiny   # traces of one short step, judged by a constant
    python benchmarks/scale.py --memory-of score 10000 100000   # that of `footfall score`, label, label --trees, sample, search
    python benchmarks/scale.py --simulate [LOG]              # the scheduler over a clock of its own

Labelling is `Run.each` over chunks, as `footfall label` does it, with a rollout store of its own for each measurement. Every
number of workers has as many chunks a worker; startup is not counted: each worker has done a chunk before the clock starts.

The simulation runs the scheduler of `footfall.scale.actors` itself; only Ray is replaced, by workers that take as long as
chunks took in LOG (a run's log.jsonl; none: measured here first), some of which are slow, hang, or die.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import footfall.cli
from footfall.answers import grade
from footfall.commands._judges import judging
from footfall.drive.rollout_store import StoredPolicy
from footfall.formats import write
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.registry import create
from footfall.scale import RayWorkers, Resources
from footfall.store import Chunk, Run, Task
from footfall.types import Judged, Judgement, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

TRACES_A_CHUNK, ROLLOUTS = 4, 8


def task(policy: str, store: str, rollouts: int) -> Task:
    """Monte Carlo labels, with rollouts kept in the store; without a store, nothing is kept."""
    own = create("policy", policy)
    writer = StoredPolicy(own, store, "always", afresh=True) if store else own
    own_task = judging(MonteCarlo(writer, rollouts=rollouts, params=SamplingParams(max_tokens=128)))
    return replace(own_task, counts=time.process_time)


def traces(n: int, seed: int) -> Iterator[Trajectory]:
    """One trace a problem by the world's scripted policy, made as they are asked for."""
    world, policy = ArithmeticWorld(), ArithmeticPolicy()
    for begin in range(0, n, 256):
        problems = world.problems(min(256, n - begin), seed=seed + begin)
        prefixes = [world.prefix(problem) for problem in problems]
        drawn = policy.sample(prefixes, 1, SamplingParams(max_tokens=128, seed=seed))
        yield from (grade(done.after(prefix, policy.name)) for prefix, (done,) in zip(prefixes, drawn, strict=True))


def label(run: Run, n: int, work: Task, seed: int, chunk: int = TRACES_A_CHUNK) -> int:
    """How many steps got a label; the rows are dropped as they come."""
    found = run.each("judgements", traces(n, seed), n, work, key=lambda t: t.key, chunk=chunk)
    return sum(value is not None for done in found for said in done for value in said.values)


def unused(part: Sequence[Any]) -> Sequence[Any]:
    """The work of this process where workers do it."""
    raise AssertionError("workers do the chunks")


def speed(folder: Path, workers: int, chunks: int, policy: str) -> dict[str, float]:
    """Labelled steps a second by so many workers; 0 is this process, without Ray."""
    make = partial(task, policy, str(folder / f"store-{workers}"), ROLLOUTS)
    n = max(1, workers) * chunks * TRACES_A_CHUNK
    if workers == 0:
        return measured(0, *plain(folder, n, make()))
    with RayWorkers("local", make, Resources(workers)) as crew:
        seen: set[int] = set()
        for turn in count():
            with Run(folder / f"warm-{workers}-{turn}", "scale", {}, workers=crew) as run:
                label(run, workers * TRACES_A_CHUNK, Task(unused, "judgement"), seed=10**6 * (turn + 1))
                seen |= {event["worker"]["pid"] for event in run.logged("chunk")}
            if len(seen) >= workers:
                break
        with Run(folder / f"run-{workers}", "scale", {}, workers=crew) as run:
            begun, busy = time.monotonic(), time.process_time() + sum(crew.counts.values())
            steps = label(run, n, Task(unused, "judgement"), seed=0)
            busy = time.process_time() + sum(crew.counts.values()) - busy
            return measured(workers, steps, time.monotonic() - begun, busy)


def plain(folder: Path, n: int, work: Task, ready: Callable[[], Any] = lambda: None) -> tuple[int, float, float]:
    """Labelled steps, seconds and processor seconds of n traces in this process, which begins when all are `ready`."""
    with Run(folder / "warm-0", "scale", {}) as run:
        label(run, TRACES_A_CHUNK, work, seed=10**6)
    with Run(folder / "plain", "scale", {}) as run:
        ready()
        begun, busy = time.monotonic(), time.process_time()
        steps = label(run, n, work, seed=0)
        return steps, time.monotonic() - begun, time.process_time() - busy


def apart(numbers: Sequence[int], chunks: int, policy: str) -> None:
    """A row for so many plain runs at once, that know nothing of each other: what processors and memory allow."""
    spawn = multiprocessing.get_context("spawn")
    first = 0.0
    for n in numbers:
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(n, spawn, _meet, (spawn.Barrier(n),)) as pool:
            found = list(pool.map(partial(_one_of_many, chunks, policy), [Path(folder) / str(k) for k in range(n)]))
        steps, busy = sum(each[0] for each in found), sum(each[2] for each in found)
        rate = sum(each[0] / each[1] for each in found) / n
        first = first or rate
        row = {"processes": n, "steps_a_second": round(n * rate, 2), "of_linear": round(rate / first, 3)}
        say({**row, "cpu_ms_a_step": round(1000 * busy / steps, 2)})


_waiting: list[Any] = []
"""Of a process among many: the barrier at which they meet before the clock starts."""


def _meet(barrier: Any) -> None:
    _waiting.append(barrier)


def _one_of_many(chunks: int, policy: str, folder: Path) -> tuple[int, float, float]:
    folder.mkdir()
    work = task(policy, str(folder / "store"), ROLLOUTS)
    return plain(folder, chunks * TRACES_A_CHUNK, work, _waiting[0].wait)


def measured(workers: int, steps: int, seconds: float, busy: float) -> dict[str, float]:
    """A row; of a machine that others use too, the seconds of processors by driver and workers tell more."""
    row = {"workers": workers, "steps": steps, "seconds": round(seconds, 2), "cpu_seconds": round(busy, 2)}
    return {**row, "cpu_ms_a_step": round(1000 * busy / steps, 2)}


def by_workers(workers: Sequence[int], chunks: int, policy: str) -> None:
    """A row for each number of workers, over the plain run and over as many times the first."""
    rate: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in (0, *workers):
            row = speed(Path(folder), n, chunks, policy)
            rate[n] = row["steps"] / row["seconds"]
            told = {**row, "steps_a_second": round(rate[n], 2), "over_plain": round(rate[n] / rate[0], 3)}
            say({**told, "of_linear": round(rate[n] / n * workers[0] / rate[workers[0]], 3)} if n else told)


def truth() -> Task:
    """The true labels of steps: what is cheapest to make, so that a million traces take minutes."""
    return judging(create("labeller", "truth-arithmetic"))


class Constant:
    """A judge that says the same of every step, so that ten million traces take minutes."""

    name = "constant"

    def judge(self, given: Sequence[Trajectory]) -> list[Judgement]:
        """A half for each step."""
        return [Judgement(trace.id, (0.5,) * len(trace.steps), self.name) for trace in given]


def many(n: int, tiny: bool = False) -> Iterator[Trajectory]:
    """Traces of the scripted policy, each of which comes back under other ids; `tiny` ones have one short step."""
    short = Trajectory("tiny", Problem("sum", "1 + 1?", "2"), (Step("2"),))
    known = [short] if tiny else list(traces(min(n, 1024), seed=0))
    return (replace(known[i % len(known)], id=f"trace-{i}") for i in range(n))


def memory(sizes: Sequence[int], tiny: bool, workers: int) -> None:
    """The driver's largest memory after so many traces, smallest first: it never shrinks again. 0 workers: no Ray."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        make = partial(judging, Constant()) if tiny else truth
        crew = held.enter_context(RayWorkers("local", make, Resources(workers))) if workers else None
        work = Task(unused, "judgement") if workers else make()
        for n in sorted(sizes):
            with Run(Path(folder) / str(n), "scale", {}, workers=crew) as run:
                begun, busy = time.monotonic(), time.process_time()
                found = run.each("judgements", many(n, tiny), n, work, key=lambda t: t.id, chunk=256)
                steps = sum(value is not None for done in found for said in done for value in said.values)
                spent = {"seconds": time.monotonic() - begun, "cpu_seconds": time.process_time() - busy}
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            spent = {name: round(value, 1) for name, value in spent.items()}
            say({"workers": workers, "traces": n, "steps": steps, **spent, "driver_peak_mb": round(peak, 1)})


def memory_of(command: str, tiny: bool, n: int) -> None:
    """The largest memory of `footfall label`, `label --trees`, `score`, `sample` or `search` over so many traces."""
    with tempfile.TemporaryDirectory() as name, Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        folder = Path(name)
        file = folder / "traces.jsonl"
        drawing = ["--policy", "scripted-arithmetic"]
        judge = f"{__file__}:Constant" if tiny else "truth-arithmetic"
        words = {
            "label": ["--data", str(file), "--method", judge],
            "trees": ["--data", str(file), "--method", "omegaprm", "--trees", "1", *drawing],
            "score": [str(file), "--judge", judge, "--to", str(folder / "scored.jsonl")],
            "sample": ["--problems", f"world:arithmetic:{n // 10}", "--n", "10", *drawing],
            "search": ["--problems", f"world:arithmetic:{n}", "--method", "majority", "--n", "2", *drawing],
        }[command]
        if str(file) in words:
            alone(written, file, n, command == "trees", tiny)
        begun, busy = time.monotonic(), time.process_time()
        own = ["label", "--store", "none"] if command == "trees" else [command]
        footfall.cli.main([*own, *words, "--chunk", "256", "--out", str(folder / "run"), "--json"])
        spent = {"seconds": time.monotonic() - begun, "cpu_seconds": time.process_time() - busy}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = {name: round(value, 1) for name, value in spent.items()}
    say({"command": command, "traces": n, **spent, "peak_mb": round(peak, 1)})


def written(file: Path, n: int, different: bool, tiny: bool) -> None:
    """So many traces in a file, of `different` problems each."""
    named = (replace(t, problem=replace(t.problem, id=t.id)) if different else t for t in many(n, tiny))
    write(file, (Judged(trace, None) for trace in named), "jsonl")


class Lost(Exception):
    """A simulated worker died."""


class Clockwork:
    """What `RayWorkers` uses of Ray, over a clock that jumps from event to event."""

    exceptions = SimpleNamespace(RayTaskError=type("RayTaskError", (Exception,), {}), RayError=Lost)

    def __init__(self, times: Sequence[float], seed: int, mean_life: float, hangs: float, slow: float) -> None:
        self.random, self.times = random.Random(seed), times
        self.mean_life, self.hangs, self.slow = mean_life, hangs, slow
        self.now, self.order = 0.0, count()
        self.events: list[tuple[float, int, int]] = []
        self.ended: dict[int, Any] = {}
        self.lost = self.begun = 0

    def cluster_resources(self) -> dict[str, float]:
        """Nothing that is counted: how many workers there are is said."""
        return {}

    def at(self, when: float, value: Any) -> int:
        """A reply that comes then."""
        reply = next(self.order)
        heapq.heappush(self.events, (when, reply, reply))
        self.ended[reply] = value
        return reply

    def wait(self, replies: Sequence[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        """Let time pass until the next reply, or so long."""
        if not timeout:
            there = {reply for when, reply, _ in self.events if when <= self.now}
            return [reply for reply in replies if reply in there], [reply for reply in replies if reply not in there]
        until = self.now + timeout
        while self.events and self.events[0][0] <= until:
            self.now, _, reply = heapq.heappop(self.events)
            if reply in self.ended:
                return [reply], []
        self.now = until
        return [], list(replies)

    def get(self, reply: int) -> Any:
        """What the reply says."""
        said = self.ended.pop(reply)
        if isinstance(said, Lost):
            self.lost += 1
            raise said
        return said

    def kill(self, actor: Simulated) -> None:
        """Nothing more comes of it."""
        for reply in actor.replies:
            self.ended.pop(reply, None)

    def shutdown(self) -> None:
        """Nothing is left."""


class Simulated:
    """An actor: it opens in 20 to 60 s, does chunks one after another, and lives as long as it happens to."""

    def __init__(self, ray: Clockwork) -> None:
        self.ray, self.factor = ray, 3.0 if ray.random.random() < ray.slow else 1.0
        self.replies: list[int] = []
        self.free = ray.now + ray.random.uniform(20, 60)
        self.dies = self.free + ray.random.expovariate(1 / ray.mean_life)
        place = {"node": "simulated", "pid": id(self), "log": None}
        self.here = SimpleNamespace(remote=lambda: ray.at(ray.now, place))
        self.open = SimpleNamespace(remote=lambda: ray.at(self.free, None))
        self.do = SimpleNamespace(remote=self.begin)

    def begin(self, chunk: Chunk) -> int:
        """The reply to a chunk: its time is one of those that were measured."""
        ray = self.ray
        ray.begun += 1
        seconds = ray.random.choice(ray.times) * self.factor
        if ray.random.random() < ray.hangs:
            seconds = float("inf")
        self.free = max(self.free, ray.now) + seconds
        if self.free > self.dies:
            self.free = float("inf")
            reply = ray.at(max(self.dies, ray.now), Lost("the simulated worker died"))
        else:
            reply = ray.at(self.free, (b"", len(chunk.items), seconds, None))
        self.replies = [*self.replies[-1:], reply]
        return reply


class SimulatedWorkers(RayWorkers):
    """The scheduler as it is, with workers that are simulated."""

    def __init__(self, clockwork: Clockwork, workers: int) -> None:
        super().__init__("simulated", partial(Task, unused, "judgement"), Resources(workers))
        self._ray, self._now = clockwork, lambda: clockwork.now
        self._class = SimpleNamespace(remote=lambda *_: Simulated(clockwork))


def simulate(times: Sequence[float], workers: int, chunks: int, days: float, hangs: float, slow: float) -> None:
    """How long the chunks take, what failures cost, and how busy the driver is with handing out."""
    clockwork = Clockwork(times, 0, days * 86400, hangs, slow)
    crew = SimulatedWorkers(clockwork, workers)
    each = (Chunk("simulated", i, str(i), (None,)) for i in range(chunks))
    begun = time.process_time()
    events: list[str] = []
    done = [chunk.chunk.index for chunk in crew.each(each, lambda event, **_: events.append(event))]
    spent = time.process_time() - begun
    assert sorted(done) == list(range(chunks)), "every chunk once"
    mean = sum(times) / len(times)
    ideal = chunks * mean * (1 - slow + slow * 3) / workers
    say({
        "workers": workers, "chunks": chunks, "mean_chunk_seconds": round(mean, 2), "hours": round(clockwork.now / 3600, 3),
        "of_ideal": round(ideal / clockwork.now, 3), "workers_lost": events.count("worker lost"),
        "chunks_begun_again": clockwork.begun - chunks, "driver_ms_a_chunk": round(1000 * spent / chunks, 3),
        "driver_busy": round(spent / clockwork.now, 4),
    })  # fmt: skip


def times_of(log: Path | None) -> list[float]:
    """The seconds of each chunk in a run's log, or of some that are labelled now."""
    if log is None:
        with tempfile.TemporaryDirectory() as folder, Run(Path(folder), "scale", {}) as run:
            label(run, 8 * TRACES_A_CHUNK, task("embedded", "", ROLLOUTS), seed=0)
            return [float(event["seconds"]) for event in run.logged("chunk")]
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return [float(event["seconds"]) for event in lines if event.get("event") == "chunk"]


def alone(job: Callable[..., None], *given: Any) -> None:
    """In a process of its own, whose memory is that of the job."""
    process = multiprocessing.get_context("spawn").Process(target=job, args=given)
    process.start()
    process.join()


def say(row: dict[str, Any]) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> None:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", help="numbers of workers to measure")
    parser.add_argument("--apart", type=int, nargs="+", help="numbers of plain runs at once")
    parser.add_argument("--chunks", type=int, default=6, help="chunks a worker")
    parser.add_argument("--policy", default="embedded")
    parser.add_argument("--memory", type=int, nargs="+", help="numbers of traces")
    parser.add_argument("--memory-workers", type=int, nargs="+", default=[0, 2], help="of Ray, for --memory")
    parser.add_argument("--tiny", action="store_true", help="traces of one short step for --memory and --memory-of")
    parser.add_argument(
        "--memory-of", nargs="+", default=[], help="label, trees, score, sample or search, and how many"
    )
    parser.add_argument("--simulate", nargs="?", type=Path, const=Path(), help="a run's log.jsonl")
    parser.add_argument("--simulated-workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--simulated-chunks", type=int, default=100, help="a worker")
    parser.add_argument(
        "--larger", type=int, default=1, help="simulated chunks of so many times the items of those measured"
    )
    parser.add_argument("--days", type=float, default=2.0, help="mean life of a simulated worker")
    parser.add_argument("--hangs", type=float, default=1e-4, help="share of chunks that hang")
    parser.add_argument("--slow", type=float, default=0.05, help="share of workers that take three times as long")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    jobs: list[Callable[[], None]] = []
    if asked.workers:
        jobs.append(partial(by_workers, asked.workers, asked.chunks, asked.policy))
    if asked.apart:
        jobs.append(partial(apart, asked.apart, asked.chunks, asked.policy))
    if asked.memory:
        # Ray's driver is this process itself.
        measure = partial(memory, asked.memory, asked.tiny)
        jobs += [partial(measure, n) if n else partial(alone, measure, n) for n in sorted(asked.memory_workers)]
    jobs += [partial(alone, memory_of, asked.memory_of[0], asked.tiny, int(n)) for n in asked.memory_of[1:]]
    if asked.simulate is not None:
        times = times_of(None if asked.simulate == Path() else asked.simulate)
        draw = random.Random(0)
        times = [sum(draw.choices(times, k=asked.larger)) for _ in range(1000)]
        for n in asked.simulated_workers:
            how = (n * asked.simulated_chunks, asked.days, asked.hangs, asked.slow)
            jobs.append(partial(simulate, times, n, *how))
    if not jobs:
        parser.error("say what to measure: --workers, --apart, --memory, --memory-of or --simulate")
    for job in jobs:
        job()


if __name__ == "__main__":
    main()
