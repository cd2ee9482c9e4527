"""Runs: every long job is a directory that can be killed at any moment and started again.

    config.json   the command, its configuration, seed and versions
    STAGE/00007-KEY.parquet   finished chunks, written atomically, named by the content they were made from
    log.jsonl     what happened when, with seconds and cost; the only place for times, so shards stay equal to the bit
    result.json   what the command reports, written last

Work is cut into fixed chunks. A chunk whose shard exists is read, not redone; one that does not is done whole. So a run
that was killed twenty times gives the same bytes as one that was not, and repeats nothing that was finished.

Chunks are done in this process, one after another, or by `Workers` elsewhere (`footfall.scale`), many at a time. Either way a
`Task` does them, and this process alone writes: workers send back the bytes of shards.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from footfall import __version__
from footfall.damaged import json_of
from footfall.formats import DamagedError, atomic_write, parquet_bytes, read_parquet, set_aside, spool, write_parquet
from footfall.formats.files import naming_file, sweep
from footfall.judging import forget
from footfall.terminal import Progress, json_parts
from footfall.types import Cost, Harvest, Judged, Judgement, SearchResult, Trajectory, content_key

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

A = TypeVar("A")
B = TypeVar("B")

_SHARD = re.compile(r"\d{5,}-[0-9a-f]{16}\.parquet")
OWN_FILES = ("log.jsonl", "result.json", "config.json")
"""What every run has beside its shards."""
SCRATCH = "work"
"""The folder of a run for what is not finished."""
_VERSIONS_OF = ("torch", "transformers", "numpy", "pyarrow", "math-verify")


class RunError(RuntimeError):
    """A run directory cannot be used as asked; the message says why and what to do."""


@dataclass(frozen=True)
class Task:
    """What is done with every chunk of a stage, in this process or in a worker."""

    work: Callable[[Sequence[Any]], Sequence[Any]]
    kind: str
    """Of the rows that come of it."""
    forgetful: Sequence[object] = ()
    """Who drops its caches, with all that it is made of, before each chunk: a chunk must not depend on which chunks the
    process did before it, or a run that was killed and resumed would not be the same to the bit."""
    counts: Callable[[], Any] | None = None
    """What its process has counted so far beside the rows, e.g. hits of a rollout store."""

    def rows(self, items: Sequence[Any]) -> list[Any]:
        """The results of one chunk."""
        forget(*self.forgetful)
        return list(self.work(items))

    def shard(self, items: Sequence[Any], key: str) -> tuple[bytes, int]:
        """The file that the results of one chunk are kept in, and how many there are."""
        rows = self.rows(items)
        return bytes(parquet_bytes(f"chunk {key}", rows, self.kind, key)), len(rows)


@dataclass(frozen=True)
class Chunk:
    """Some items of a stage, by its place among the chunks and named by the content of all that decides the results."""

    stage: str
    index: int
    name: str
    items: Sequence[Any]
    shared: frozenset[str] = frozenset()
    """What it has in common with others, which must not be done at the same time: the earlier one's results count."""


class Done(NamedTuple):
    """A chunk that a worker has done."""

    chunk: Chunk
    shard: Any
    """The bytes of the shard; of work that is no run's, what came of it."""
    rows: int
    seconds: float
    worker: Mapping[str, Any]
    """Where it was done, and the file with what the worker wrote to its standard error."""


class Place(Protocol):
    """Where a run directory lies that this machine has a copy of (`footfall.scale.objects`)."""

    def take(self) -> None:
        """Hold it, or say who does."""

    def release(self) -> None:
        """Let others hold it."""

    def fetch(self) -> None:
        """Make the copy what is there, but for shards."""

    def begin(self) -> None:
        """Put config.json, which says which run it is."""

    def fetch_file(self, path: Path) -> None:
        """A file of the copy, if it lies there and the copy does not have it."""

    def put(self, path: Path) -> None:
        """A file of the copy, whole or not at all."""

    def put_missing(self, path: Path) -> None:
        """As `put`, if it does not lie there yet."""

    def put_all(self, at_end: bool = False) -> None:
        """What the command goes on from beside shards; at the end all that it wrote."""

    def empty(self) -> None:
        """Remove what a run wrote there."""


class Workers(Protocol):
    """Processes that do the chunks of runs."""

    def each(self, chunks: Iterator[Chunk], log: Callable[..., None]) -> Iterator[Done]:
        """The chunks as they are done, in any order. `log` takes what happens to workers."""


class Run:
    """One run directory, held by one process at a time. Use as a context manager."""

    def __init__(
        self,
        folder: Path,
        command: str,
        config: Mapping[str, Any],
        fresh: bool = False,
        workers: Workers | None = None,
        place: Place | None = None,
    ) -> None:
        self.folder, self.fresh, self.workers, self.place = folder, fresh, workers, place
        self.worked = 0
        """Chunks that were done, not found."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in (".lock", "config.json", "log.jsonl", "result.json"):
            if (folder / name).exists() and not (folder / name).is_file():
                raise RunError(f"{folder / name} is no plain file but a folder, pipe or device; choose another --out")
        self._lock = self._take_lock()
        try:
            if place is not None:
                place.take()
            try:
                self._open(command, config)
            except BaseException:
                if place is not None:
                    place.release()
                raise
        except BaseException:  # Ctrl-C too: the folder must be free for the next start
            self._lock.close()
            raise
        for each in (folder, *(inner for inner in folder.iterdir() if inner.is_dir())):
            sweep(each)  # what a killed process was still writing
        self.cost = Cost()
        self._started = time.monotonic()
        self.log("start", versions=_versions())

    def _open(self, command: str, config: Mapping[str, Any]) -> None:
        """Begin the run here, or find the one that is."""
        if self.place is not None:
            self.place.fetch()
            if self.fresh and _identity(self.folder) is not None:
                self.place.empty()
        if self.fresh:
            _empty(self.folder)
        self._claim({"command": command, "config": json.loads(json.dumps(config, default=str))})
        if self.place is not None:
            self.place.begin()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.log("stop", error=kind.__name__ if kind else None, seconds=round(time.monotonic() - self._started, 3))
            if self.place is not None:
                self.place.put_all(at_end=True)
        except (OSError, RunError):  # a full disk, a store that does not answer; what stopped the run says more
            if kind is None:
                raise
        finally:
            if self.place is not None:
                self.place.release()
            self._lock.close()

    def keep(self) -> None:
        """Put what the command goes on from (checkpoints, seeds) where the run lies, if that is elsewhere."""
        if self.place is not None:
            self.place.put(self.folder / "log.jsonl")
            self.place.put_all()

    def map(
        self,
        stage: str,
        items: Sequence[A],
        work: Callable[[Sequence[A]], Sequence[B]],
        *,
        key: Callable[[A], str],
        kind: str,
        chunk: int,
        per_item: int = 1,
        made_by: str = "",
        forgetful: Sequence[object] = (),
        shared: Callable[[A], str] | None = None,
    ) -> list[B]:
        """`work` over the items, chunk by chunk, `per_item` results each; finished chunks are read from their shards.

        `made_by` names whatever else decides the result (the policy, the judge): another name, another shard. Workers, if the
        run has them, do the chunks by a task of their own. `shared` names what items of several chunks may have in common
        that the work keeps elsewhere, e.g. the problem whose rollouts are stored: such chunks are done in their order.
        """
        task = Task(work, kind, forgetful)
        found = self.each(
            stage, items, len(items), task, key=key, chunk=chunk, per_item=per_item, made_by=made_by, shared=shared
        )
        return [result for done in found for result in done]

    def kept(
        self,
        stage: str,
        items: Iterable[A],
        total: int,
        task: Task,
        per_item: int = 1,
        listed: int | None = None,
        **how: Any,
    ) -> Sequence[Any]:
        """What `each` gives, as one sequence: results of many stay in their shards, and are read as they are wanted. `listed`
        is up to how many they are a list, of those that are large."""
        shards = spool.Shards(self.folder / stage)
        found = self.each(stage, items, total, task, per_item=per_item, shards=shards, **how)
        if total * per_item <= (spool.IN_MEMORY if listed is None else listed):
            return [result for done in found for result in done]
        sizes = array("q", (len(done) for done in found))
        return spool.Spool(task.kind, shards, sizes)

    def each(
        self,
        stage: str,
        items: Iterable[A],
        total: int,
        task: Task,
        *,
        key: Callable[[A], str],
        chunk: int,
        per_item: int | None = 1,
        made_by: str = "",
        shared: Callable[[A], str] | None = None,
        shards: spool.Shards | None = None,
    ) -> Iterator[list[Any]]:
        """The results of each chunk, in order, as `map` gives them all at once: neither all items nor all results need be in
        memory. `total` is how many items there are; the files of the chunks are added to `shards`. `per_item` is `None` where
        a chunk has one result for all its items."""
        if chunk < 1:
            raise ValueError(f"a chunk of {chunk} items: at least 1 is needed")

        def expected(own: Chunk) -> int:
            return 1 if per_item is None else len(own.items) * per_item

        self.log("plan", stage=stage, items=total, chunks=-(-total // chunk))
        (self.folder / stage).mkdir(exist_ok=True)

        def cut() -> Iterator[Chunk]:
            rest = iter(items)
            for index in range(-(-total // chunk)):
                part = list(islice(rest, chunk))
                name = content_key(stage, made_by, [key(item) for item in part])[:16]
                made = Chunk(stage, index, name, part, frozenset(map(shared, part)) if shared else frozenset())
                if shards is not None:
                    shards.add(made.name)
                yield made

        with Progress(stage, total) as progress:
            if self.workers is None:
                found = self._here(cut(), task, expected, progress)
            else:
                found = self._elsewhere(self.workers, cut(), task.kind, expected, progress)
            for done in found:
                self.cost += Cost.total(_cost_of(result) for result in done)
                yield done

    def _here(
        self, chunks: Iterator[Chunk], task: Task, expected: Callable[[Chunk], int], progress: Progress
    ) -> Iterator[list[Any]]:
        """The rows of each chunk, in order, done in this process where they are not there."""
        for chunk in chunks:
            shard = self._shard(chunk)
            done = self._found(shard, task.kind, chunk.name, expected(chunk))
            if done is not None:
                progress.at_start += len(chunk.items)
            else:
                begun = time.monotonic()
                with progress.listening():
                    done = task.rows(chunk.items)
                self._check(chunk, len(done), expected(chunk))
                write_parquet(shard, done, task.kind, key=chunk.name)
                self._log_chunk(chunk, shard, time.monotonic() - begun)
            yield done
            progress.advance(len(chunk.items))

    def _elsewhere(
        self, workers: Workers, chunks: Iterator[Chunk], kind: str, expected: Callable[[Chunk], int], progress: Progress
    ) -> Iterator[list[Any]]:
        """The same by workers. Chunks end in any order; their rows wait on the disk for their turn, not in memory."""
        waiting: deque[tuple[int, Path, str, int]] = deque()
        ended: set[int] = set()
        # Of a run that is gone on with these may be nearly all, and need wait for nobody.
        for first in chunks:
            done_before = self._found(self._shard(first), kind, first.name, expected(first))
            if done_before is None:
                chunks = chain([first], chunks)
                break
            yield done_before
            progress.at_start += len(first.items)
            progress.advance(len(first.items))

        def missing() -> Iterator[Chunk]:
            for chunk in chunks:
                shard, rows = self._shard(chunk), expected(chunk)
                waiting.append((chunk.index, shard, chunk.name, rows))
                if self._found(shard, kind, chunk.name, rows) is None:
                    yield chunk
                else:
                    ended.add(chunk.index)
                    progress.at_start += len(chunk.items)
                    progress.advance(len(chunk.items))

        def in_turn() -> Iterator[list[Any]]:
            while waiting and waiting[0][0] in ended:
                index, shard, name, many = waiting.popleft()
                ended.remove(index)
                rows = _finished(shard, kind, name, many)
                if rows is None:
                    raise RunError(f"{shard} was written and is gone or damaged; run the same command again")
                yield rows

        for done in workers.each(missing(), self.log):
            self._check(done.chunk, done.rows, expected(done.chunk))
            shard = self._shard(done.chunk)
            with atomic_write(shard) as stream:
                stream.write(done.shard)
            self._log_chunk(done.chunk, shard, done.seconds, worker=done.worker)
            ended.add(done.chunk.index)
            progress.advance(len(done.chunk.items))
            yield from in_turn()
        yield from in_turn()

    def _shard(self, chunk: Chunk) -> Path:
        return self.folder / chunk.stage / spool.shard_name(chunk.index, chunk.name)

    def _found(self, shard: Path, kind: str, name: str, rows: int) -> list[Any] | None:
        """The rows of a finished chunk, fetched from where the run lies if it is there only."""
        if self.place is not None:
            self.place.fetch_file(shard)
        found = _finished(shard, kind, name, rows)
        if found is not None and self.place is not None:
            self.place.put_missing(shard)
        return found

    def _check(self, chunk: Chunk, rows: int, expected: int) -> None:
        if rows != expected:
            raise RunError(f"stage {chunk.stage!r}, chunk {chunk.index}: {rows} results for {len(chunk.items)} items")

    def _log_chunk(self, chunk: Chunk, shard: Path, seconds: float, **more: Any) -> None:
        """The chunk's shard is written: put it where the run lies, and note it."""
        if self.place is not None:
            self.place.put(shard)
        self.worked += 1
        facts = {"stage": chunk.stage, "index": chunk.index, "items": len(chunk.items), "seconds": round(seconds, 3)}
        self.log("chunk", **facts, **more)

    def log(self, event: str, **facts: Any) -> None:
        """One line in log.jsonl."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts})
        path = self.folder / "log.jsonl"
        with naming_file(path), path.open("a+b") as stream:
            stream.write(_torn_line_end(stream) + line.encode() + b"\n")

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What log.jsonl has of this event, by all processes that took part."""
        return [line for line in log_events(self.folder / "log.jsonl") if line.get("event") == event]

    def seconds(self, stage: str | None = None) -> float:
        """Seconds spent on finished chunks (of one stage), by all processes that took part."""
        chunks = (e for e in log_events(self.folder / "log.jsonl") if e.get("event") == "chunk")
        seconds = (e.get("seconds") for e in chunks if stage in (None, e.get("stage")))
        return float(sum(s for s in seconds if isinstance(s, int | float)))

    def finish(self, result: Mapping[str, Any]) -> Path:
        """Write result.json; the run is complete."""
        path = self.folder / "result.json"
        write_json(path, result)
        return path

    def _take_lock(self) -> IO[str]:
        lock = (self.folder / ".lock").open("a+", encoding="utf-8", errors="replace")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = re.fullmatch(r"process \d{1,10} on [\w.-]{1,253}", lock.read(300)) or ["another process"]
            lock.close()
            raise RunError(f"{self.folder} is in use by {holder[0]}; wait for it or choose another --out") from None
        with suppress(OSError):  # a full disk: the next one is told less
            os.ftruncate(lock.fileno(), 0)
            os.write(lock.fileno(), f"process {os.getpid()} on {os.uname().nodename}".encode())
        return lock

    def _claim(self, identity: dict[str, Any]) -> None:
        """Write config.json, or check that the run here is the same one."""
        path = self.folder / "config.json"
        if not path.exists():
            write_json(path, {**identity, "versions": _versions()})
            return
        before = _identity(self.folder)
        if before is None:
            raise RunError(f"{path} is not a run's; choose another --out")
        changed = _differences({k: before[k] for k in identity}, identity)
        if changed:
            raise RunError(
                f"{self.folder} holds another run; these settings differ: {'; '.join(changed)}. "
                "Choose another --out, or pass --fresh to throw the old run away"
            )


def is_shard(name: str) -> bool:
    """Whether a file of this name, or path, holds a chunk."""
    return _SHARD.fullmatch(name.rpartition("/")[2]) is not None


def _finished(shard: Path, kind: str, key: str, rows: int) -> list[Any] | None:
    """The rows of a finished chunk; a damaged shard, or another chunk's under this name, is set aside."""
    if not shard.exists():
        return None
    try:
        found = read_parquet(shard, kind, key=key)
        if len(found) != rows:
            raise DamagedError(str(shard), f"{rows} rows", got=f"{len(found)}")
    except DamagedError as error:
        set_aside(shard, error)
        return None
    return found


def worker_processes(workers: int, begin: Callable[..., None] | None = None, *given: Any) -> ProcessPoolExecutor:
    """Processes that share the work of a run, and end with this one, also when it is killed; each begins by `begin(*given)`."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Not forked: a copy of a process that has threads may hang.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (begin, given))


def _begin(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    _end_with_parent()
    if begin is not None:
        begin(*given)


def _end_with_parent() -> None:
    """A worker that waits for work would not notice: it holds the other end of its pipe itself."""
    from multiprocessing import parent_process

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """JSON for people and programs, written atomically; NaN is an error. Of many rows few are in memory (`json_parts`)."""
    with atomic_write(path) as stream:
        for part in json_parts(value):
            stream.write(part.encode())
        stream.write(b"\n")


def keep_json(path: Path, value: Mapping[str, Any]) -> dict[str, Any]:
    """Write it with a checksum, for `kept_json`; the value as that will read it."""
    as_read: dict[str, Any] = json.loads(json.dumps(value, default=str))
    write_json(path, {"checksum": content_key(as_read), "kept": as_read})
    return as_read


def kept_json(path: Path) -> dict[str, Any] | None:
    """What `keep_json` wrote there; None if there is nothing, or if it was damaged: then it is set aside."""
    if not path.exists():
        return None
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json_of(path)
    if isinstance(found, dict) and not found.keys() & {"checksum", "kept"}:  # of an earlier version
        return found
    if isinstance(found, dict) and isinstance(found.get("kept"), dict):
        with suppress(ValueError):  # NaN
            if found == {"checksum": content_key(found["kept"]), "kept": found["kept"]}:
                return dict(found["kept"])
    set_aside(path, DamagedError(str(path), "what was written there", got="another checksum, or no JSON"))
    return None


def _cost_of(result: object) -> Cost:
    if isinstance(result, Judged):
        return result.judgement.cost if result.judgement else Cost()
    return result.cost if isinstance(result, Trajectory | Judgement | SearchResult | Harvest) else Cost()


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(before.keys() | now.keys())
        return [d for k in keys for d in _differences(before.get(k), now.get(k), f"{path}.{k}" if path else k)]
    return [] if before == now else [f"{path}: {before!r} there, {now!r} now"]


def _versions() -> dict[str, str]:
    found = {"footfall": __version__, "python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _identity(folder: Path) -> dict[str, Any] | None:
    """What config.json says, if a run wrote it (a model's folder has a file of that name too)."""
    try:
        found = json_of(folder / "config.json")
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"command", "config", "versions"} <= found.keys() else None


def _empty(folder: Path) -> None:
    """Remove what a run wrote here, and nothing that it did not."""
    if _identity(folder) is None:
        return
    for shard in folder.glob("*/*.parquet"):
        if is_shard(shard.name):
            shard.unlink()
    for name in OWN_FILES:
        (folder / name).unlink(missing_ok=True)


def _torn_line_end(stream: IO[bytes]) -> bytes:
    """A line break, if the last line was cut off by a crash: the next one must not be lost with it."""
    if stream.seek(0, os.SEEK_END) == 0:
        return b""
    stream.seek(-1, os.SEEK_END)
    return b"" if stream.read(1) == b"\n" else b"\n"


def log_events(log: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log, without those that a crash cut off or that are no event."""
    with log.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event
