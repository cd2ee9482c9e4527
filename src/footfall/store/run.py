"""A run: its directory held, its chunks done here or elsewhere and kept in shards, its log and its result."""

from __future__ import annotations

import json
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from footfall.formats import DamagedError, atomic_write, read_parquet, spool, write_parquet
from footfall.formats.atomic import sweep
from footfall.store.chunks import Chunk, Task, Workers, cost_of, finished
from footfall.store.folder import (
    RESULTS,
    RunError,
    append_event,
    claim,
    empty,
    has_work,
    is_half_removed,
    log_events,
    refuse_foreign,
    take_lock,
    versions,
    write_json,
)
from footfall.terminal import Progress
from footfall.types import Cost, content_key

A = TypeVar("A")
B = TypeVar("B")


class Place(Protocol):
    """Where a run directory lies that this machine has a copy of (`footfall.scale.objects`)."""

    address: str

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

    def shards(self, stage: str) -> list[str]:
        """Names of the finished chunks of a stage that lie there."""

    def held(self, names: Sequence[str]) -> list[str]:
        """Which of these files and folders of the run lie there."""

    def remove(self, path: Path) -> None:
        """What lies there for a file of the copy."""

    def put_all(self, at_end: bool = False) -> None:
        """What the command goes on from beside shards; at the end all that it wrote."""

    def empty(self) -> None:
        """Remove what a run wrote there."""


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
        beside: Sequence[str] = (),
        inner: Sequence[str] = (),
    ) -> None:
        """`fresh` throws away what an earlier run left, with the files and folders of the command's own that are named by
        `beside`, and with the runs that lie in the folders `inner`."""
        self.folder, self.workers, self.place = folder, workers, place
        self.fresh = fresh
        """Whether the run was begun anew, also because an earlier start was killed while it threw the old one away."""
        self.worked = 0
        """Chunks that were done, not found."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in (".lock", "config.json", "log.jsonl", "result.json"):
            if (folder / name).exists() and not (folder / name).is_file():
                raise RunError(f"{folder / name} is no plain file but a folder, pipe or device; choose another --out")
        self._lock = take_lock(folder)
        try:
            if place is not None:
                place.take()
            try:
                self._open(command, config, beside, inner)
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
        self.log("start", versions=versions())

    def _open(
        self, command: str, config: Mapping[str, Any], beside: Sequence[str] = (), inner: Sequence[str] = ()
    ) -> None:
        """Begin the run here, or find the one that is."""
        if self.place is not None:
            self.place.fetch()
        names = (*RESULTS, *beside)
        if self.place is None:
            refuse_foreign(self.folder, self.folder, [name for name in names if (self.folder / name).exists()])
        else:  # the copy is a run's in any case, also where the run was removed from the store
            refuse_foreign(self.folder, self.place.address, self.place.held(names))
        self.fresh |= is_half_removed(self.folder)
        if self.fresh:
            empty(self.folder, beside, inner, None if self.place is None else self.place.empty)
        settings = {"command": command, "config": json.loads(json.dumps(config, default=str))}
        claim(self.folder, settings, lambda: self.place is not None or bool(inner) or has_work(self.folder, names))
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
        chunk: int | Sequence[int],
        per_item: int | None = 1,
        made_by: str = "",
        shared: Callable[[A], str] | None = None,
        shards: spool.Shards | None = None,
    ) -> Iterator[list[Any]]:
        """The results of each chunk, in order, as `map` gives them all at once: neither all items nor all results need be in
        memory. `total` is how many items there are; `chunk` is how many a chunk has, or how many each of them has; the files of
        the chunks are added to `shards`. `per_item` is `None` where a chunk has one result for all its items."""
        if isinstance(chunk, int) and chunk < 1:
            raise ValueError(f"a chunk of {chunk} items: at least 1 is needed")
        sizes = [chunk] * -(-total // chunk) if isinstance(chunk, int) else chunk

        def expected(own: Chunk) -> int:
            return 1 if per_item is None else len(own.items) * per_item

        self.log("plan", stage=stage, items=total, chunks=len(sizes))
        (self.folder / stage).mkdir(exist_ok=True)

        def cut() -> Iterator[Chunk]:
            rest = iter(items)
            for index, size in enumerate(sizes):
                part = list(islice(rest, size))
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
                self.cost += Cost.total(cost_of(result) for result in done)
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
                rows = finished(shard, kind, name, many)
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

    def drop(self, stage: str, kind: str, unwanted: Callable[[list[Any]], bool]) -> None:
        """Remove the finished chunks of a stage with unwanted rows, here and where the run lies: they are done anew. So is a
        damaged one, when its turn comes."""
        names = {path.name for path in (self.folder / stage).glob("*.parquet")}
        for name in sorted(names | set(self.place.shards(stage) if self.place is not None else ())):
            shard = self.folder / stage / name
            if self.place is not None:
                self.place.fetch_file(shard)
            try:
                if not shard.exists() or not unwanted(read_parquet(shard, kind)):
                    continue
            except DamagedError:
                continue
            if self.place is not None:
                self.place.remove(shard)
            shard.unlink()

    def _shard(self, chunk: Chunk) -> Path:
        return self.folder / chunk.stage / spool.shard_name(chunk.index, chunk.name)

    def _found(self, shard: Path, kind: str, name: str, rows: int) -> list[Any] | None:
        """The rows of a finished chunk, fetched from where the run lies if it is there only."""
        if self.place is not None:
            self.place.fetch_file(shard)
        found = finished(shard, kind, name, rows)
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
        append_event(self.folder / "log.jsonl", {"time": round(time.time(), 3), "event": event, **facts})

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
