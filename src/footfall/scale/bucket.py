"""The objects at an address of a store (s3://, gs://, or file:// for a mounted folder), through fsspec.

An object is put whole or not at all; one that must be new is put if there is none (If-None-Match; in a mounted folder a hard
link, which fails if there is one). A call that fails is tried again, unless the store refuses it. Credentials come from the
environment, as fsspec's file systems find them there, and are written nowhere.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from footfall.formats import atomic_write
from footfall.store import RunError

T = TypeVar("T")

_ADDRESS = re.compile(r"(s3|gs|file):/+(.+)")
_LIKE_ADDRESS = re.compile(r"(?:s3|gs|file):|[A-Za-z][A-Za-z0-9+.-]+:/.*", re.DOTALL)
"""Of more than a letter, for C:/ is a disk."""
_PACKAGES = {"s3": "footfall[s3]", "gs": "footfall[gcs]"}
_TRIES, _FIRST_WAIT = 8, 0.1


def is_address(path: object) -> bool:
    """Whether this names an object store; `Path` makes one slash of two."""
    return _ADDRESS.fullmatch(str(path)) is not None


def check_place(option: str, path: object, may_be_address: bool) -> None:
    """An error about an address that would be taken for a folder of this machine, called `gcs:` or `s3:`."""
    if _LIKE_ADDRESS.fullmatch(str(path)) is None or (may_be_address and is_address(path)):
        return
    known = "stores are named s3://BUCKET/NAME, gs://BUCKET/NAME or file:///FOLDER"
    raise RunError(
        f"{option} {path}: {known if may_be_address else 'it is a place on this machine, and in no object store'}"
    )


class _Faults(NamedTuple):
    """What a file system raises when a call fails."""

    passing: tuple[type[Exception], ...] = (OSError,)
    """The same call may do better the next time."""
    refusals: tuple[type[Exception], ...] = (PermissionError,)
    """It will not, whatever `passing` says: credentials are missing, wrong, or not enough."""


def _file_system(scheme: str, address: str) -> tuple[Any, _Faults]:
    """The file system of fsspec, and how its calls fail."""
    faults = _Faults()
    try:
        import fsspec

        how = {"auto_mkdir": True} if scheme == "file" else {"use_listings_cache": False}
        files = fsspec.filesystem(scheme, **how)
        if scheme == "s3":
            from botocore.exceptions import BotoCoreError, NoCredentialsError, PartialCredentialsError

            faults = _Faults((OSError, BotoCoreError), (PermissionError, NoCredentialsError, PartialCredentialsError))
        elif scheme == "gs":
            from aiohttp import ClientError
            from gcsfs.retry import HttpError
            from google.auth.exceptions import GoogleAuthError

            faults = _Faults((OSError, HttpError, ClientError, GoogleAuthError))
    except ImportError as error:
        raise RunError(f'{address}: pip install "{_PACKAGES.get(scheme, "fsspec")}" ({error})') from None
    return files, faults


class Bucket:
    """What lies at an address; names are relative to it. `token` is this process's own, for files that it has not finished."""

    def __init__(self, address: object, token: str) -> None:
        found = _ADDRESS.fullmatch(str(address))
        assert found is not None, f"{address} is no address of an object store"
        scheme, rest = found[1], found[2].rstrip("/")
        bucket = rest.partition("/")[0]
        if scheme != "file" and ("@" in bucket or (":" in bucket and not bucket.startswith("arn:"))):
            raise RunError(
                f"an address {scheme}://… with a user name or key in it: credentials come from the environment"
            )
        self.address = f"{scheme}://{'/' if scheme == 'file' else ''}{rest}"
        self._token, self._mounted = token, scheme == "file"
        self._files, self._faults = _file_system(scheme, self.address)
        self._root = self._files._strip_protocol(self.address)

    def names(self) -> list[str]:
        """Of all objects."""
        found: list[object] = self.tried(lambda: self._files.find(self._root), absent=[])
        return sorted(str(name)[len(str(self._root)) :].lstrip("/") for name in found)

    def at_top(self) -> list[str]:
        """Names without a slash, as they are now."""
        found: list[object] = self.tried(lambda: self._files.ls(self._root, detail=False, refresh=True), absent=[])
        return [str(each).rpartition("/")[2] for each in found]

    def get(self, name: str) -> bytes:
        """What an object holds; `FileNotFoundError` if there is none."""
        place = self._plain_file(name)
        data: bytes = self.tried(lambda: self._files.cat_file(place))
        return data

    def get_if_there(self, name: str) -> bytes | None:
        """The same, None if there is none."""
        place = self._plain_file(name)
        found: bytes | None = self.tried(lambda: self._files.cat_file(place), absent=None)
        return found

    def download(self, name: str, path: Path) -> None:
        """Into the file, which is whole or as it was; not through memory."""
        place = self._plain_file(name)
        temporary = path.with_name(f".{path.name}.{self._token}.fetched")
        try:
            self.tried(lambda: self._files.get_file(place, str(temporary)))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def upload(self, path: Path, name: str) -> None:
        """The file as an object."""
        self.tried(lambda: self._upload(path, self._place(name)))

    def write(self, name: str, data: bytes) -> None:
        """An object that holds this."""
        self.tried(lambda: self._write(self._place(name), data))

    def create(self, name: str, data: bytes) -> None:
        """An object that holds this, or `FileExistsError` if there is one, which may be this one: its answer may be lost."""
        place = self._place(name)
        try:
            if self._mounted:
                _link_new(Path(place), data, self._token)
            else:
                self.tried(lambda: self._files.pipe_file(place, data, mode="create"))
        except FileNotFoundError as error:
            raise RunError(f"{self.address} cannot be written: {error}; make the bucket first") from error

    def remove(self, name: str) -> None:
        """The object, if it is there."""
        self.tried(lambda: self._files.rm_file(self._place(name)), absent=None)

    def tried(self, call: Callable[[], T], **otherwise: T) -> T:
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
            except self._faults.refusals as error:
                raise RunError(f"{self.address} refuses: {error}; credentials come from the environment") from error
            except self._faults.passing as error:
                if attempt == _TRIES - 1:
                    raise RunError(f"{self.address} does not answer: {error}") from error
                time.sleep(_FIRST_WAIT * 2**attempt)
        raise AssertionError

    def _upload(self, path: Path, place: str) -> None:
        if not self._mounted:
            self._files.put_file(str(path), place)
            return
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as source, atomic_write(place) as stream:
            shutil.copyfileobj(source, stream)

    def _write(self, place: str, data: bytes) -> None:
        if not self._mounted:
            self._files.pipe_file(place, data)
            return
        with atomic_write(place) as stream:
            stream.write(data)

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    def _plain_file(self, name: str) -> str:
        place = self._place(name)
        if self._mounted and Path(place).exists() and not Path(place).is_file():
            raise RunError(f"file://{place} is no plain file but a folder, pipe or device")
        return place


def _link_new(place: Path, data: bytes, token: str) -> None:
    """A new file, whole from its first moment; `FileExistsError` if there is one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{token}.new")
    try:
        temporary.write_bytes(data)
        os.link(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
