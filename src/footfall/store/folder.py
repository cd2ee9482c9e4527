"""The directory of a run: who holds it, which run it is of, its log and its JSON files."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from footfall._version import __version__
from footfall.damaged import json_of
from footfall.formats import DamagedError, atomic_write, set_aside
from footfall.formats.atomic import naming_file, remove
from footfall.terminal import json_parts
from footfall.types import content_key

_SHARD = re.compile(r"\d{5,}-[0-9a-f]{16}\.parquet")
OWN_FILES = ("log.jsonl", "result.json", "config.json")
"""What every run has beside its shards."""
RESULTS = (
    "judged.parquet", "trajectories.parquet", "results.parquet", "resamples.npz", "calibration.json", "report.html",
    "report.json", "result.json",
)  # fmt: skip
"""What commands write into the folder of their run under a fixed name, but for what `--fresh` removes with it."""
SCRATCH = "work"
"""The folder of a run for what is not finished."""
REMOVING = ".removing"
"""The file that a folder has while what a run left in it is thrown away."""
_VERSIONS_OF = ("torch", "transformers", "numpy", "pyarrow", "math-verify")


class RunError(RuntimeError):
    """A run directory cannot be used as asked; the message says why and what to do."""


def take_lock(folder: Path) -> IO[str]:
    """Hold the directory until the file is closed, or say who does."""
    lock = (folder / ".lock").open("a+", encoding="utf-8", errors="replace")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = re.fullmatch(r"process \d{1,10} on [\w.-]{1,253}", lock.read(300)) or ["another process"]
        lock.close()
        raise RunError(f"{folder} is in use by {holder[0]}; wait for it or choose another --out") from None
    with suppress(OSError):  # a full disk: the next one is told less
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"process {os.getpid()} on {os.uname().nodename}".encode())
    return lock


def claim(folder: Path, identity: dict[str, Any], held: Callable[[], bool] = lambda: True) -> None:
    """Write config.json, or check that the run here is the same one, or that it has nothing that is `held`."""
    path = folder / "config.json"
    if not path.exists():
        write_json(path, {**identity, "versions": versions()})
        return
    before = identity_of(folder)
    if before is None:
        damaged = "; or it is damaged: pass --fresh to throw the run away" if _is_run(folder) else ""
        raise RunError(f"{path} is not a run's; choose another --out{damaged}")
    changed = _differences({k: before[k] for k in identity}, identity)
    if changed and not held():
        write_json(path, {**identity, "versions": versions()})
        return
    if before["command"] != identity["command"]:  # then every setting differs too
        raise RunError(
            f"{folder} holds a run of {before['command']}, and this is {identity['command']}. "
            "Choose another --out, or pass --fresh to throw the old run away"
        )
    if changed:
        raise RunError(
            f"{folder} holds another run; these settings differ: {'; '.join(changed)}. "
            "Choose another --out, or pass --fresh to throw the old run away"
        )


def has_work(folder: Path, names: Sequence[str]) -> bool:
    """Whether a run here may be worth something: not where its last start ended in an error, an option that did not fit say,
    with no shard and none of the files and folders `names` but plans, which are JSON and made before any work."""
    log = folder / "log.jsonl"
    last = deque(log_events(log) if log.is_file() else (), maxlen=1)
    if not last or last[0].get("event") != "stop" or last[0].get("error") is None:
        return True
    kept = (folder / name for name in names if name == "result.json" or not name.endswith(".json"))
    return any(path.exists() for path in kept) or any(is_shard(path.name) for path in folder.glob("*/*.parquet"))


def refuse_foreign(folder: Path, where: object, held: Sequence[str]) -> None:
    """What is `held` where the run is to lie, of what it would write over or remove, is somebody else's if none has begun."""
    if not held or (folder / "config.json").exists() or _is_run(folder) or is_half_removed(folder):
        return
    it = "it" if len(held) == 1 else "them"
    raise RunError(
        f"{where} holds {', '.join(held)}, and no run that wrote {it}; choose another --out, or move {it} away"
    )


def is_shard(name: str) -> bool:
    """Whether a file of this name, or path, holds a chunk."""
    return _SHARD.fullmatch(name.rpartition("/")[2]) is not None


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


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(before.keys() | now.keys())
        return [d for k in keys for d in _differences(before.get(k), now.get(k), f"{path}.{k}" if path else k)]
    return [] if before == now else [f"{path}: {before!r} there, {now!r} now"]


def versions() -> dict[str, str]:
    """Of the libraries that decide what a run gives."""
    found = {"footfall": __version__, "python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def identity_of(folder: Path) -> dict[str, Any] | None:
    """What config.json says, if a run wrote it (a model's folder has a file of that name too)."""
    try:
        found = json_of(folder / "config.json")
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"command", "config", "versions"} <= found.keys() else None


def is_half_removed(folder: Path) -> bool:
    """Whether the removal of a run was begun here and did not come to its end."""
    return (folder / REMOVING).exists()


@contextmanager
def removing(folder: Path) -> Iterator[None]:
    """The folder is marked until all is removed: a removal that is killed is finished before anything there is read."""
    with naming_file(folder / REMOVING):
        (folder / REMOVING).touch()
    yield
    (folder / REMOVING).unlink()


def empty(
    folder: Path, beside: Sequence[str] = (), inner: Sequence[str] = (), elsewhere: Callable[[], None] | None = None
) -> None:
    """Remove what a run wrote here, and nothing that it did not: its shards, the files and folders that it keeps `beside` them,
    what the runs wrote that lie in the folders `inner`, and before these what it has `elsewhere`."""
    if not _is_run(folder) and not is_half_removed(folder):
        return
    with removing(folder):
        if elsewhere is not None:
            elsewhere()
        empty_inner(folder, inner)
        for shard in folder.glob("*/*.parquet"):
            if is_shard(shard.name):
                shard.unlink()
        for name in beside:
            remove(folder / name)
        for name in OWN_FILES:
            (folder / name).unlink(missing_ok=True)


def empty_inner(folder: Path, names: Sequence[str], beside: Sequence[str] = ()) -> None:
    """`empty` of each run that lies in this folder under one of these names."""
    for path in (folder / name for name in names):
        if path.is_dir() and (_is_run(path) or is_half_removed(path)):
            with closing(take_lock(path)):
                empty(path, beside)


def _is_run(folder: Path) -> bool:
    """Whether a run wrote here: its config.json says so, or, where that is lost or no JSON any more, its log."""
    if identity_of(folder) is not None:
        return True
    with suppress(FileNotFoundError, ValueError, RecursionError):
        json_of(folder / "config.json")
        return False
    log = folder / "log.jsonl"
    return log.is_file() and any(event.get("event") == "start" and "versions" in event for event in log_events(log))


def _torn_line_end(stream: IO[bytes]) -> bytes:
    """A line break, if the last line was cut off by a crash: the next one must not be lost with it."""
    if stream.seek(0, os.SEEK_END) == 0:
        return b""
    stream.seek(-1, os.SEEK_END)
    return b"" if stream.read(1) == b"\n" else b"\n"


def append_event(log: Path, event: Mapping[str, Any]) -> None:
    """One line more in a log."""
    with naming_file(log), log.open("a+b") as stream:
        stream.write(_torn_line_end(stream) + json.dumps(event).encode() + b"\n")


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
