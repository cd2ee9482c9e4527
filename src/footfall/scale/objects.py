"""Run directories in an object store (`footfall.scale.bucket`).

The store holds what a run directory holds, under the same names; a folder on this machine is a copy to work in. Nothing is
renamed there; a shard is named by its content, so putting it twice is putting it once; `result.json` is put last. What a
process that was killed had finished and not put yet is put by the next one. Who holds the run is decided by a put of what must
be new:

    .lock-000001   host, process, a token, when it was last renewed, and whether it was let go; the next holder has .lock-000002

The holder renews its lock, and says in it when it lets go. One that was let go, or was not renewed for a minute and is not in
the time in which it would be, or whose process on this machine is gone, is followed by the next number; only one can put it.
The highest lock stays, and whoever finds a higher one after putting its own takes it back, so no number has two holders: one
that was stopped between looking at its lock and renewing it writes over nobody's. A holder that finds the highest lock to be
another's, or none, stops. What it puts in the meantime is what the other would put.

    .run-id        a random name of the run, new after `--fresh`: what the copy has of another run is not gone on from
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from footfall.scale.bucket import Bucket
from footfall.store import OWN_FILES, REMOVING, SCRATCH, RunError, is_shard
from footfall.terminal import one_line
from footfall.types import content_key

_LOCK = re.compile(r"\.lock-(\d{6})")
_RENEW_SECONDS, _STALE_SECONDS = 10.0, 60.0
_GONE_ON_FROM = ("checkpoints", "model", "published", "seeds", "units", "prms", "train.json", "reference.json")
"""What commands keep beside shards and read again: folders and files by their names."""
_RUN_ID, _LOG = ".run-id", "log.jsonl"
_SEAL = "checksums.json"
"""The file of a checkpoint without which it does not count: it is put after the others."""
_SHARDS_INDEX = ".metadata"
"""Which process wrote what of a checkpoint of FSDP (torch.distributed.checkpoint): its shards cannot be read without it."""


class _Holder(NamedTuple):
    """What a lock says."""

    host: str
    pid: int
    token: str
    renewed: float
    released: bool


class Remote:
    """The run directory at an address, and its copy in a folder."""

    def __init__(
        self, address: object, now: Callable[[], float] = time.time, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._now, self._wait, self._token = now, wait, secrets.token_hex(8)
        self._bucket = Bucket(address, self._token)
        self.address = self._bucket.address
        self._generation = 0
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None
        self._lost = ""
        self._there: set[str] = set()
        """Names of what the store has, as far as this process knows."""
        self._stamps: dict[str, tuple[int, int]] = {}
        """Of what was put: size and time of the file."""

    @property
    def folder(self) -> Path:
        """The copy on this machine."""
        return Path("runs") / f"copy-{content_key(self.address)[:12]}"

    def take(self) -> None:
        """Hold the run, or say who does. Then renew the lock until `release`."""
        locks = self._locks()
        if not self._follow(locks):
            raise RunError(f"{self.address} was taken by another process just now; wait for it or choose another --out")
        for old in locks:
            self._remove(old)
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self._renewing.start()

    def _follow(self, locks: list[str]) -> bool:
        """Put the lock after these, if whoever has the last of them is gone; whether nobody else did in the meantime."""
        if locks:
            try:
                holder = self._holder(locks[-1])
            except FileNotFoundError:  # removed by the one that has put the next
                return False
            if not self._gone(locks[-1], holder):
                raise RunError(
                    f"{self.address} is in use by process {holder.pid} on {holder.host}, which renewed its lock "
                    f"{max(0.0, self._now() - holder.renewed):.0f} s ago; wait for it or choose another --out"
                )
            self._generation = int(locks[-1].removeprefix(".lock-"))
        self._generation += 1
        if not self._create(self._own_lock, self._facts()):
            return False
        if self._locks()[-1:] == [self._own_lock]:
            return True
        self._remove(self._own_lock)  # a number that others have left behind them already
        return False

    def release(self) -> None:
        """Let others hold it."""
        self._stop.set()
        if self._renewing is not None:
            self._renewing.join()  # or it might put the lock again that is removed here
        if self._holds():
            self._write_lock(released=True)

    def check(self) -> None:
        """An error if another process has taken the run over, as after this one was stopped for long."""
        if self._lost:
            raise RunError(
                f"{self.address} was taken over by another process while this one did not answer: {self._lost}"
            )

    def fetch(self) -> None:
        """Make the copy what the store has, but for shards, which are fetched when they are asked for, and for what a killed
        process had not put yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._there = set(self._bucket.names())
        if not self._is_ahead():
            self._forget()
        for name in {*OWN_FILES, REMOVING, *filter(_is_gone_on_from, self._there)} - {_LOG}:
            (self.folder / name).unlink(missing_ok=True)
        for name in sorted(self._there):
            if name in (*OWN_FILES, REMOVING, _RUN_ID) or _is_gone_on_from(name):
                self.fetch_file(self.folder / name)

    def _is_ahead(self) -> bool:
        """Whether the copy is of the run that the store has, and nobody has gone on with it elsewhere: then its log begins with
        the store's, and checkpoints that are here alone belong to the lines that are."""
        return _RUN_ID in self._there and self._begins_alike(_RUN_ID) and self._begins_alike(_LOG)

    def _begins_alike(self, name: str) -> bool:
        """Whether the copy's file begins with what the store's has, which is nothing if there is none."""
        there = self._bucket.get(name) if name in self._there else b""
        path = self.folder / name
        return (path.read_bytes() if path.exists() else b"").startswith(there)

    def _forget(self) -> None:
        """Remove from the copy what a command would go on from; last what tells whose it is, for this may be killed too."""
        for name in (*_GONE_ON_FROM, _LOG, _RUN_ID):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def begin(self) -> None:
        """Put config.json, and before it a name of the run if it has none."""
        path = self.folder / _RUN_ID
        if not path.exists():
            path.write_text(self._token, encoding="ascii")
        self.put_missing(path)
        self.put(self.folder / "config.json")

    def fetch_file(self, path: Path) -> None:
        """The file of the copy from the store, if it is there and the copy does not have it."""
        if not path.exists() and (name := self._name(path)) in self._there:
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # somebody has removed it just now
                self._bucket.download(name, path)
                self._note(name, _stamp(path))

    def data(self, name: str) -> Path:
        """A data file that lies at the address itself, fetched anew into a folder for such; `FileNotFoundError` if none."""
        path = Path("runs") / "data" / f"{content_key(self.address)[:12]}-{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._bucket.download("", path)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.address} is not there: {error}") from error
        return path

    def text(self, name: str) -> str | None:
        """What a small file of the run says in the store, whatever the copy has; None if there is none."""
        found = self._bucket.get_if_there(name)
        return None if found is None else found.decode("utf-8", "replace")

    def put(self, path: Path) -> None:
        """A file of the copy to the store, whole."""
        self.check()
        name, stamp = self._name(path), _stamp(path)
        self._bucket.upload(path, name)
        self._there.add(name)
        self._note(name, stamp)

    def _note(self, name: str, stamp: tuple[int, int]) -> None:
        """Remember what the store has, but of shards, of which there may be many and which never change."""
        if not is_shard(name):
            self._stamps[name] = stamp

    def put_missing(self, path: Path) -> None:
        """As `put`, if the store does not have it: a process that was killed had finished it here."""
        if self._name(path) not in self._there:
            self.put(path)

    def shards(self, stage: str) -> list[str]:
        """Names of the finished chunks of a stage that the store has."""
        return [name.rpartition("/")[2] for name in self._there if name.startswith(f"{stage}/") and is_shard(name)]

    def held(self, names: Sequence[str]) -> list[str]:
        """Which of these files and folders the store has."""
        there = {name.partition("/")[0] for name in self._there}
        return [name for name in names if name in there]

    def remove(self, path: Path) -> None:
        """What the store has for a file of the copy."""
        self.check()
        self._remove(self._name(path))

    def put_all(self, at_end: bool = False) -> None:
        """What a command goes on from, as far as it is new or was changed; at the end all that it wrote, result.json last."""
        here = [path for path in self._files_here() if at_end or _is_gone_on_from(self._name(path))]
        for path in sorted(here, key=self._turn):
            if self._stamps.get(self._name(path)) != _stamp(path):
                self.put(path)
        gone = {name for name in self._there if _is_gone_on_from(name) and not (self.folder / name).exists()}
        for name in sorted(gone):
            self._remove(name)

    def _turn(self, path: Path) -> tuple[bool, bool, str]:
        """Files in the order in which they are put."""
        name = self._name(path)
        return name in OWN_FILES, path.name == _SEAL, name

    def empty(self) -> None:
        """Remove what a run wrote there, and nothing that it did not; first its name, last what tells that it is a run. It is
        marked as the copy is (`store.removing`), for whoever goes on elsewhere if this is killed."""
        self.put(self.folder / REMOVING)
        self._remove(_RUN_ID)
        self._forget()
        for name in sorted(self._there, key=lambda name: (name == "config.json", name)):
            if name in OWN_FILES or is_shard(name) or _is_gone_on_from(name):
                self._remove(name)
        self._remove(REMOVING)

    def _files_here(self) -> Iterator[Path]:
        """What the run has in the copy, but for shards, which were put when they were done, and what is not finished."""
        for path in self.folder.rglob("*"):
            own = path.relative_to(self.folder)
            unfinished = any(part.endswith(".partial") for part in own.parts) or own.parts[0] == SCRATCH
            if path.is_file() and not unfinished and not is_shard(path.name) and is_carried(own):
                yield path

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    @property
    def _own_lock(self) -> str:
        return f".lock-{self._generation:06d}"

    def _locks(self) -> list[str]:
        return sorted(filter(_LOCK.fullmatch, self._bucket.at_top()))

    def _facts(self, released: bool = False) -> bytes:
        facts = _Holder(os.uname().nodename, os.getpid(), self._token, self._now(), released)
        return json.dumps(facts._asdict()).encode()

    def _write_lock(self, released: bool = False) -> None:
        """Its own again. Where it was taken over since it was looked at, this is below the highest, which alone counts."""
        self._bucket.write(self._own_lock, self._facts(released))

    def _holder(self, lock: str) -> _Holder:
        """Who put the lock; anybody who may write there may have put anything."""
        try:
            said = json.loads(self._bucket.get(lock)[:4096])
            host, pid, renewed = one_line(str(said["host"]), 60), int(said["pid"]), float(said["renewed"])
            return _Holder(host, pid, str(said["token"]), renewed, said.get("released") is True)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"{self.address}/{lock} is no lock of a run ({error!r}); remove it if nobody uses it"
            ) from error

    def _gone(self, lock: str, holder: _Holder) -> bool:
        if holder.released or (holder.host == os.uname().nodename and not _runs(holder.pid)):
            return True
        if abs(self._now() - holder.renewed) <= _STALE_SECONDS:
            return False
        self._wait(1.5 * _RENEW_SECONDS)  # the clocks of two machines may differ; one that lives renews its lock
        try:
            return self._holder(lock) == holder
        except FileNotFoundError:
            return True

    def _renew(self) -> None:
        while not self._stop.wait(_RENEW_SECONDS):
            with suppress(RunError, OSError):  # a store that does not answer now may the next time
                if not self._holds():
                    return
                self._write_lock()

    def _holds(self) -> bool:
        """Whether the highest lock is this process's; if not, the run is lost to it."""
        locks = self._locks()
        try:
            holder = self._holder(locks[-1]) if locks else None
        except FileNotFoundError:  # let go just now
            holder = None
        if holder is not None and holder.token == self._token:
            return True
        self._lost = "which has let go of it" if holder is None or holder.released else str(holder)
        return False

    def _create(self, lock: str, data: bytes) -> bool:
        """Put it if there is none. An answer that was lost on its way is told from another's lock by the token."""
        try:
            self._bucket.create(lock, data)
        except FileExistsError:
            try:
                return self._holder(lock).token == self._token
            except FileNotFoundError:  # it was another's, and was followed by now
                return False
        return True

    def _remove(self, name: str) -> None:
        self._bucket.remove(name)
        self._there.discard(name)
        self._stamps.pop(name, None)


def is_carried(name: PurePath) -> bool:
    """Whether a store is given a file of this name: not what begins with a dot, which is half written or made of the rest, but
    for torch's index of a sharded checkpoint; nor the state of random numbers, which every process writes at any time."""
    hidden = any(part.startswith(".") and part != _SHARDS_INDEX for part in name.parts)
    return not hidden and not name.name.startswith("rng_state_")


def _runs(pid: int) -> bool:
    """Whether this machine has such a process, also where /proc hides those of others, or is none."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _is_gone_on_from(name: str) -> bool:
    return name.partition("/")[0] in _GONE_ON_FROM


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
