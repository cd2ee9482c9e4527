"""Run directories in an object store (s3://, gs://, or file:// for a mounted one), through fsspec.

The store holds what a run directory holds, under the same names; a folder on this machine is a copy to work in. Nothing is
renamed there: an object is put whole or not at all; a shard is named by its content, so putting it twice is putting it once;
`result.json` is put last. Who holds the run is decided by a conditional put ("only if there is none", If-None-Match):

    .lock-000001   host, process, a token and when it was last renewed; a taken-over run has .lock-000002, and so on

The holder renews its lock. One that was not renewed for a minute, or whose process on this machine is gone, is taken over by
putting the next number; only one can. A holder that finds a higher number than its own stops. What it puts in the meantime is
what the other would put.

Credentials come from the environment, as fsspec's file systems find them there, and are written nowhere.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from footfall.store import OWN_FILES, RunError
from footfall.terminal import one_line
from footfall.types import content_key

T = TypeVar("T")

_ADDRESS = re.compile(r"(s3|gs|file):/+(.+)")
_PACKAGES = {"s3": "footfall[s3]", "gs": "footfall[gcs]"}
_LOCK = re.compile(r"\.lock-(\d{6})")
_RENEW_SECONDS, _STALE_SECONDS = 10.0, 60.0
_TRIES, _FIRST_WAIT = 8, 0.1


def is_address(path: object) -> bool:
    """Whether this names an object store; `Path` makes one slash of two."""
    return _ADDRESS.fullmatch(str(path)) is not None


class _Holder(NamedTuple):
    """What a lock says."""

    host: str
    pid: int
    token: str
    renewed: float


def _file_system(scheme: str, address: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """The file system of fsspec, and what it raises when a call fails that may do better the next time."""
    faults: tuple[type[Exception], ...] = (OSError,)
    try:
        import fsspec

        how = {"auto_mkdir": True} if scheme == "file" else {"use_listings_cache": False}
        files = fsspec.filesystem(scheme, **how)
        if scheme == "s3":
            from botocore.exceptions import BotoCoreError

            faults = (OSError, BotoCoreError)
    except ImportError as error:
        raise RunError(f'{address}: pip install "{_PACKAGES.get(scheme, "fsspec")}" ({error})') from None
    return files, faults


class Remote:
    """The run directory at an address, and its copy in a folder."""

    def __init__(self, address: object, now: Callable[[], float] = time.time) -> None:
        found = _ADDRESS.fullmatch(str(address))
        assert found is not None, f"{address} is no address of an object store"
        scheme, rest = found[1], found[2].rstrip("/")
        bucket = rest.partition("/")[0]
        if scheme != "file" and ("@" in bucket or (":" in bucket and not bucket.startswith("arn:"))):
            raise RunError(
                f"an address {scheme}://… with a user name or key in it: credentials come from the environment"
            )
        self.address = f"{scheme}://{'/' if scheme == 'file' else ''}{rest}"
        self._now, self._token = now, secrets.token_hex(8)
        self._generation = 0
        self._stop = threading.Event()
        self._lost = ""
        self._files, self._faults = _file_system(scheme, self.address)
        self._root = self._files._strip_protocol(self.address)

    @property
    def folder(self) -> Path:
        """The copy on this machine."""
        return Path("runs") / f"copy-{content_key(self.address)[:12]}"

    def take(self) -> None:
        """Hold the run, or say who does. Then renew the lock until `release`."""
        locks = self._locks()
        if locks:
            holder = self._holder(locks[-1])
            if not self._gone(holder):
                raise RunError(
                    f"{self.address} is in use by process {holder.pid} on {holder.host}, which renewed its lock "
                    f"{max(0.0, self._now() - holder.renewed):.0f} s ago; wait for it or choose another --out"
                )
            self._generation = int(locks[-1].removeprefix(".lock-"))
        self._generation += 1
        if not self._create(self._own_lock, self._facts()):
            raise RunError(f"{self.address} was taken by another process just now; wait for it or choose another --out")
        for old in locks:
            self._remove(old)
        threading.Thread(target=self._renew, daemon=True).start()

    def release(self) -> None:
        """Let others hold it."""
        self._stop.set()
        self._remove(self._own_lock)

    def check(self) -> None:
        """An error if another process has taken the run over, as after this one was stopped for long."""
        if self._lost:
            raise RunError(
                f"{self.address} was taken over by another process while this one did not answer: {self._lost}"
            )

    def fetch(self) -> None:
        """Make the copy what the store has, but for shards, which are fetched when they are asked for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in OWN_FILES:
            (self.folder / name).unlink(missing_ok=True)
            self.fetch_file(self.folder / name)

    def fetch_file(self, path: Path) -> None:
        """The file of the copy from the store, if it is there and the copy does not have it."""
        if path.exists():
            return
        try:
            data = self._get(path.relative_to(self.folder).as_posix())
        except FileNotFoundError:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.fetched")
        temporary.write_bytes(data)
        temporary.replace(path)

    def data(self, name: str) -> Path:
        """A data file that lies at the address itself, fetched anew into a folder for such."""
        path = Path("runs") / "data" / f"{content_key(self.address)[:12]}-{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._get(""))
        return path

    def put(self, path: Path) -> None:
        """A file of the copy to the store, whole."""
        self.check()
        name, data = path.relative_to(self.folder).as_posix(), path.read_bytes()
        self._tried(lambda: self._files.pipe_file(self._place(name), data))

    def remove(self, name: str) -> None:
        """As --fresh does."""
        self._remove(name)

    def names(self) -> list[str]:
        """Of all that the store has of the run."""
        found: list[object] = self._tried(lambda: self._files.find(self._root), absent=[])
        return sorted(str(name)[len(str(self._root)) :].lstrip("/") for name in found)

    @property
    def _own_lock(self) -> str:
        return f".lock-{self._generation:06d}"

    def _locks(self) -> list[str]:
        found: list[object] = self._tried(lambda: self._files.ls(self._root, detail=False, refresh=True), absent=[])
        return sorted(name for each in found if _LOCK.fullmatch(name := str(each).rpartition("/")[2]))

    def _facts(self) -> bytes:
        facts = {"host": os.uname().nodename, "pid": os.getpid(), "token": self._token, "renewed": self._now()}
        return json.dumps(facts).encode()

    def _holder(self, lock: str) -> _Holder:
        """Who put the lock; anybody who may write there may have put anything."""
        try:
            said = json.loads(self._get(lock)[:4096])
            return _Holder(
                one_line(str(said["host"]), 60), int(said["pid"]), str(said["token"]), float(said["renewed"])
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"{self.address}/{lock} is no lock of a run ({error!r}); remove it if nobody uses it"
            ) from error

    def _gone(self, holder: _Holder) -> bool:
        here = holder.host == os.uname().nodename and not Path(f"/proc/{holder.pid}").exists()
        return here or self._now() - holder.renewed > _STALE_SECONDS

    def _renew(self) -> None:
        while not self._stop.wait(_RENEW_SECONDS):
            with suppress(RunError):  # a store that does not answer now may the next time
                higher = [name for name in self._locks() if name > self._own_lock]
                if higher:
                    self._lost = str(self._holder(higher[-1]))
                    return
                self._tried(lambda: self._files.pipe_file(self._place(self._own_lock), self._facts()))

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def _get(self, name: str) -> bytes:
        place = self._place(name)
        if self.address.startswith("file:") and Path(place).exists() and not Path(place).is_file():
            raise RunError(f"file://{place} is no plain file but a folder, pipe or device")
        data: bytes = self._tried(lambda: self._files.cat_file(place))
        return data

    def _create(self, name: str, data: bytes) -> bool:
        """Put it if there is none. An answer that was lost on its way is told from another's lock by the token."""
        try:
            self._tried(lambda: self._files.pipe_file(self._place(name), data, mode="create"))
        except FileExistsError:
            return self._holder(name).token == self._token
        return True

    def _remove(self, name: str) -> None:
        self._tried(lambda: self._files.rm_file(self._place(name)), absent=None)

    def _tried(self, call: Callable[[], T], **otherwise: T) -> T:
        """The call, again after a while if it fails; `absent` is what an object that is not there gives."""
        for attempt in range(_TRIES):
            try:
                return call()
            except FileNotFoundError:
                if "absent" in otherwise:
                    return otherwise["absent"]
                raise
            except FileExistsError:
                raise
            except self._faults as error:
                if attempt == _TRIES - 1:
                    raise RunError(f"{self.address} does not answer: {error}") from error
                time.sleep(_FIRST_WAIT * 2**attempt)
        raise AssertionError
