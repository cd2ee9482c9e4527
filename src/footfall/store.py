"""Runs: every long job is a directory that can be killed at any moment and started again.

    config.json   the command, its configuration, seed and versions
    STAGE/00007-KEY.parquet   finished chunks, written atomically, named by the content they were made from
    log.jsonl     what happened when, with seconds and cost; the only place for times, so shards stay equal to the bit
    result.json   what the command reports, written last

Work is cut into fixed chunks. A chunk whose shard exists is read, not redone; one that does not is done whole. So a run
that was killed twenty times gives the same bytes as one that was not, and repeats nothing that was finished.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from footfall import __version__
from footfall.damaged import text_of
from footfall.formats import DamagedError, atomic_write, read_parquet, set_aside, write_parquet
from footfall.formats.files import naming_file, sweep
from footfall.judging import forget
from footfall.terminal import Progress
from footfall.types import Cost, Judged, Judgement, SearchResult, Trajectory, content_key

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

__all__ = ["Run", "RunError"]

A = TypeVar("A")
B = TypeVar("B")

_SHARD = re.compile(r"\d{5,}-[0-9a-f]{16}\.parquet")
_VERSIONS_OF = ("torch", "transformers", "numpy", "pyarrow", "math-verify")


class RunError(RuntimeError):
    """A run directory cannot be used as asked; the message says why and what to do."""


class Run:
    """One run directory, held by one process at a time. Use as a context manager."""

    def __init__(self, folder: Path, command: str, config: Mapping[str, Any], fresh: bool = False) -> None:
        self.folder, self.fresh = folder, fresh
        folder.mkdir(parents=True, exist_ok=True)
        for name in (".lock", "config.json", "log.jsonl", "result.json"):
            if (folder / name).exists() and not (folder / name).is_file():
                raise RunError(f"{folder / name} is no plain file but a folder, pipe or device; choose another --out")
        self._lock = self._take_lock()
        try:
            if fresh:
                _empty(folder)
            self._claim({"command": command, "config": json.loads(json.dumps(config, default=str))})
        except BaseException:
            self._lock.close()
            raise
        for place in (folder, *(inner for inner in folder.iterdir() if inner.is_dir())):
            sweep(place)  # what a killed process was still writing
        self.cost = Cost()
        self._started = time.monotonic()
        self.log("start", versions=_versions())

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.log("stop", error=kind.__name__ if kind else None, seconds=round(time.monotonic() - self._started, 3))
        except OSError:  # on a full disk; what stopped the run says more
            if kind is None:
                raise
        finally:
            self._lock.close()

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
    ) -> list[B]:
        """`work` over the items, chunk by chunk, `per_item` results each; finished chunks are read from their shards.

        `made_by` names whatever else decides the result (the policy, the judge): another name, another shard. Whoever is
        `forgetful` drops its caches, with all that it is made of, before each chunk: a chunk must not depend on which
        chunks this process did before it, or a run that was killed and resumed would not be the same to the bit.
        """
        if chunk < 1:
            raise ValueError(f"a chunk of {chunk} items: at least 1 is needed")
        self.log("plan", stage=stage, items=len(items), chunks=-(-len(items) // chunk))
        (self.folder / stage).mkdir(exist_ok=True)
        results: list[B] = []
        with Progress(stage, len(items)) as progress:
            for index, start in enumerate(range(0, len(items), chunk)):
                part = items[start : start + chunk]
                name = content_key(stage, made_by, [key(item) for item in part])[:16]
                shard = self.folder / stage / f"{index:05d}-{name}.parquet"
                found = _finished(shard, kind, name, len(part) * per_item)
                if found is not None:
                    done = found
                    progress.at_start += len(part)
                else:
                    begun = time.monotonic()
                    forget(*forgetful)
                    with progress.listening():
                        done = list(work(part))
                    if len(done) != len(part) * per_item:
                        raise RunError(f"stage {stage!r}, chunk {index}: {len(done)} results for {len(part)} items")
                    write_parquet(shard, done, kind, key=name)
                    seconds = round(time.monotonic() - begun, 3)
                    self.log("chunk", stage=stage, index=index, items=len(part), seconds=seconds)
                self.cost += Cost.total(_cost_of(result) for result in done)
                results.extend(done)
                progress.advance(len(part))
        return results

    def log(self, event: str, **facts: Any) -> None:
        """One line in log.jsonl."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts})
        path = self.folder / "log.jsonl"
        with naming_file(path), path.open("a+b") as stream:
            stream.write(_torn_line_end(stream) + line.encode() + b"\n")

    def logged(self, event: str) -> list[dict[str, Any]]:
        """What log.jsonl has of this event, by all processes that took part."""
        return [line for line in _events(self.folder / "log.jsonl") if line.get("event") == event]

    def seconds(self, stage: str | None = None) -> float:
        """Seconds spent on finished chunks (of one stage), by all processes that took part."""
        seconds = [e.get("seconds") for e in self.logged("chunk") if stage in (None, e.get("stage"))]
        return float(sum(s for s in seconds if isinstance(s, int | float)))

    def finish(self, result: Mapping[str, Any]) -> Path:
        """Write result.json; the run is complete."""
        path = self.folder / "result.json"
        write_json(path, result)
        return path

    def _take_lock(self) -> IO[str]:
        lock = (self.folder / ".lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise RunError(f"{self.folder} is in use by another process; wait for it or choose another --out") from None
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


def worker_processes(workers: int) -> ProcessPoolExecutor:
    """Processes that share the work of a run, and end with this one, also when it is killed."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Not forked: a copy of a process that has threads may hang.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """A worker that waits for work would not notice: it holds the other end of its pipe itself."""
    from multiprocessing import parent_process

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """JSON for people and programs, written atomically; NaN is an error."""
    with atomic_write(path) as stream:
        stream.write((json.dumps(value, indent=2, allow_nan=False, default=str) + "\n").encode())


def _cost_of(result: object) -> Cost:
    if isinstance(result, Judged):
        return result.judgement.cost if result.judgement else Cost()
    return result.cost if isinstance(result, Trajectory | Judgement | SearchResult) else Cost()


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
        found = json.loads(text_of(folder / "config.json"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"command", "config", "versions"} <= found.keys() else None


def _empty(folder: Path) -> None:
    """Remove what a run wrote here, and nothing that it did not."""
    if _identity(folder) is None:
        return
    for shard in folder.glob("*/*.parquet"):
        if _SHARD.fullmatch(shard.name):
            shard.unlink()
    for name in ("log.jsonl", "result.json", "config.json"):
        (folder / name).unlink(missing_ok=True)


def _torn_line_end(stream: IO[bytes]) -> bytes:
    """A line break, if the last line was cut off by a crash: the next one must not be lost with it."""
    if stream.seek(0, os.SEEK_END) == 0:
        return b""
    stream.seek(-1, os.SEEK_END)
    return b"" if stream.read(1) == b"\n" else b"\n"


def _events(log: Path) -> list[dict[str, Any]]:
    """The lines of a log, without those that a crash cut off or that are no event."""
    found = []
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return [event for event in found if isinstance(event, dict)]
