"""The small files that stages of a plan left, as an archive in pieces of at most so many MiB, and back: how a run travels.

Packed are the records of all stages and what the stages made (of unfinished ones, with what they go on); what a plan calls
heavy stays. An archive may come from anybody: nothing in it is a link, a device or a path that leads out of the folder, it is
no larger than said, and all of it is read to its checksum before the first file is written. No runner may be at work there.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import io
import math
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from footfall.formats import atomic_write
from scripts.plan_file import Plan
from scripts.plan_run import LOCK, locked
from scripts.plan_state import FOLDER, Progress, is_there, read_records

MIB = 1 << 20
CAME = "came.txt"
_OWN = ((FOLDER, LOCK), (FOLDER, CAME))
"""What every machine has for itself."""
MOST_FILES = 20_000
_BLOCK = 1 << 20
_PIECE = re.compile(r"(?P<stem>.+)\.(?P<k>[1-9]\d{0,4})-of-(?P<n>[1-9]\d{0,4})")
_LONGEST_PATH, _LONGEST_NAME = 400, 200
"""Of a file with its folders, and of each of these: a name that is being written is a little longer."""


class Packed(NamedTuple):
    """What went into an archive: bytes by stage, and the files that it became."""

    sizes: dict[str, int]
    pieces: list[Path]


def pack(
    out: Path, to: Path, mib: float, only: Sequence[str] = (), plan: Plan | None = None, new: bool = False,
    below: float = math.inf,
) -> Packed:  # fmt: skip
    """Write `to`, or `to.1-of-3` and so on where it is larger.

    With `only`, files of stages of these names or patterns; with a `plan`, those that its open stages need; with `new`, those
    that came with no archive; with `below`, those of fewer MiB. Records travel always.
    """
    records = read_records(out)
    if not records:
        raise ValueError(f"{out / FOLDER} has no record of a stage: nothing to pack")
    # Who names all that a run may have come to is not refused because it ended before the last of it.
    if only and not any(fnmatch.filter(records, each) for each in only):
        raise ValueError(f"no stage with a record is called {only[0]!r}; there are {', '.join(records)}")
    taken: dict[Path, str] = {out / FOLDER / f"{name}.json": FOLDER for name in records}
    ended = {n for n, each in records.items() if each.end == "done" and all(is_there(out, path) for path in each.makes)}
    for name, record in records.items():
        if only and not any(fnmatch.fnmatchcase(name, pattern) for pattern in only):
            continue
        patterns = record.makes if name in ended else [*record.makes, *record.keeps]
        for file in (file for pattern in patterns for path in out.glob(pattern) for file in _files(path)):
            taken.setdefault(file, name)
    if plan is not None:
        wanted = {file for pattern in needed(out, plan) for path in out.glob(pattern) for file in _files(path)}
        taken = {file: name for file, name in taken.items() if file in wanted or name not in ended}
    if new:
        came = _came(out)
        taken = {f: name for f, name in taken.items() if name == FOLDER or came.get(_path(f, out)) != _digest(f)}
    taken = {file: name for file, name in taken.items() if name == FOLDER or file.stat().st_size < below * MIB}
    sizes: dict[str, int] = {}
    for file, name in taken.items():
        sizes[name] = sizes.get(name, 0) + file.stat().st_size
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=to.parent) as whole:
        _write(whole, out, sorted(taken))
        pieces = _cut(whole, to, int(mib * MIB))
    return Packed(sizes, pieces)


def needed(out: Path, plan: Plan) -> list[str]:
    """Patterns of the files that the open stages of a plan read."""
    by_name = {stage.name: stage for stage in plan.stages}
    open_ = Progress(plan, plan.stages, out, {}).open()
    return [path for stage in open_ for path in stage.reads or (m for n in stage.after for m in by_name[n].makes)]


def _path(file: Path, out: Path) -> str:
    return file.relative_to(out).as_posix()


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _came(out: Path) -> dict[str, str]:
    """The files that archives brought, with their digests, as `sha256sum` writes them."""
    file = out / FOLDER / CAME
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _files(path: Path) -> Iterator[Path]:
    """Those of a folder, or the file itself; links are left out, and what is this machine's own."""
    every = sorted(path.rglob("*")) if path.is_dir() else [path]
    return (file for file in every if file.is_file() and not file.is_symlink() and file.parts[-2:] not in _OWN)


def _write(whole: IO[bytes], out: Path, files: Sequence[Path]) -> None:
    """The same bytes for the same files, whoever packs them and when."""
    packed = gzip.GzipFile(filename="", fileobj=whole, mode="wb", compresslevel=6, mtime=0)
    with packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(_path(file, out))
            entry.size, entry.mode = file.stat().st_size, 0o644
            with file.open("rb") as stream:
                archive.addfile(entry, stream)


def _cut(whole: IO[bytes], to: Path, most: int) -> list[Path]:
    """Pieces of at most so many bytes; those of an earlier archive of this name are removed first."""
    size = whole.tell()
    whole.seek(0)
    count = max(1, -(-size // most))
    for old in [to, *(file for file in to.parent.glob(f"{glob_of(to.name)}.*") if _is_piece(file, to))]:
        old.unlink(missing_ok=True)
    names = [to] if count == 1 else [to.with_name(f"{to.name}.{k}-of-{count}") for k in range(1, count + 1)]
    for name in names:
        with atomic_write(name) as stream:
            left = most
            while left and (block := whole.read(min(_BLOCK, left))):
                stream.write(block)
                left -= len(block)
    return names


def glob_of(name: str) -> str:
    """A pattern for this very name."""
    return re.sub(r"([\[*?])", r"[\1]", name)


def _is_piece(file: Path, of: Path) -> bool:
    found = _PIECE.fullmatch(file.name)
    return found is not None and found["stem"] == of.name


def unpack(given: Path, out: Path, most_mib: float, replace: bool = False) -> list[str]:
    """Write the files of an archive, whole or in pieces, into `out`; gives those that are new or changed.

    A file that is here with other bytes is an error without `replace`; then nothing is written.
    """
    with _joined(given) as whole:
        names = _checked(given, whole, out, int(most_mib * MIB))
        with locked(out):
            changed = _written(given, whole, out, replace)
            came = _came(out) | {name: _digest(out / name) for name in names}
            with atomic_write(out / FOLDER / CAME) as stream:
                stream.write("".join(f"{digest}  {name}\n" for name, digest in sorted(came.items())).encode())
    return changed


def _written(given: Path, whole: IO[bytes], out: Path, replace: bool) -> list[str]:
    changed = [name for name, content in _members(whole) if not _same(out / name, content)]
    there = [name for name in changed if (out / name).exists()]
    if there and not replace:
        raise ValueError(
            f"{out / there[0]} and {len(there) - 1} more are here with other bytes than in {given}; --replace takes the "
            "archive's"
        )
    wanted = {*changed}
    for name, content in _members(whole):
        if name in wanted:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(out / name) as stream:
                shutil.copyfileobj(content, stream, _BLOCK)
    return changed


@contextmanager
def _joined(given: Path) -> Iterator[IO[bytes]]:
    """One stream of an archive and its pieces."""
    if given.is_file():
        with given.open("rb") as stream:
            yield stream
        return
    found = {}
    for file in given.parent.glob(f"{glob_of(given.name)}.*"):
        if (piece := _PIECE.fullmatch(file.name)) and piece["stem"] == given.name:
            found[int(piece["k"]), int(piece["n"])] = file
    counts = {n for _, n in found}
    if not found or len(counts) > 1:
        raise ValueError(f"{given}: there is no such file, nor pieces {given.name}.1-of-N of one archive")
    (count,) = counts
    if lacking := [k for k in range(1, count + 1) if (k, count) not in found]:
        raise ValueError(f"{given}.{lacking[0]}-of-{count} is missing")
    with tempfile.TemporaryFile() as whole:
        for k in range(1, count + 1):
            with found[k, count].open("rb") as piece_stream:
                shutil.copyfileobj(piece_stream, whole, _BLOCK)
        yield whole


def _checked(given: Path, whole: IO[bytes], out: Path, most: int) -> list[str]:
    """The names of all files, after every byte was read once."""
    names: list[str] = []
    size = 0
    try:
        whole.seek(0)
        unpacked = _Bounded(whole, most + MOST_FILES * 2048)
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for entry in archive:
                _check_entry(entry, out)
                names.append(entry.name)
                size += entry.size
                if len(names) > MOST_FILES or size > most:
                    raise ValueError(f"it holds more than {MOST_FILES:,} files or {most / MIB:,.0f} MiB")
                content = archive.extractfile(entry)
                while content is not None and content.read(_BLOCK):
                    pass
        # A header that is damaged ends a tar as its last one does, and only who reads on to the end sees gzip's checksum.
        while block := unpacked.read(_BLOCK):
            if any(block):
                raise ValueError(f"something follows its file {len(names)}, as if it were damaged there")
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise ValueError(f"{given}: {' '.join(str(error).split())[:300] or type(error).__name__}") from error
    if not names or len({*names}) != len(names):
        raise ValueError(f"{given}: it holds {'a file twice' if names else 'no file'}")
    if within := {*names} & {str(folder) for name in names for folder in PurePosixPath(name).parents}:
        raise ValueError(f"{given}: it holds {min(within)!a} both as a file and as a folder")
    return names


def _check_entry(entry: tarfile.TarInfo, out: Path) -> None:
    path = PurePosixPath(entry.name)
    shown = ascii(entry.name[:100])
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise ValueError(f"{shown} is no plain file")
    short = len(entry.name) <= _LONGEST_PATH and all(len(part.encode()) <= _LONGEST_NAME for part in path.parts)
    plain = entry.name.isprintable() and "\\" not in entry.name and short
    if not plain or path.is_absolute() or ".." in path.parts or str(path) != entry.name or path.name == "":
        raise ValueError(f"{shown} is no plain path inside the folder")
    if path.parts in _OWN:
        raise ValueError(f"{shown} is each machine's own, which does not travel")
    here = out
    for part in path.parts:
        here = here / part
        if here.is_symlink():
            raise ValueError(f"{shown} would go through the link {here}")
        if here.is_dir() if here == out / path else here.exists() and not here.is_dir():
            raise ValueError(f"{shown}: {here} is a {'folder' if here.is_dir() else 'file'} here")


def _members(whole: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of an archive that was checked."""
    whole.seek(0)
    with tarfile.open(fileobj=gzip.GzipFile(fileobj=whole), mode="r|") as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            assert content is not None
            yield entry.name, content


def _same(file: Path, content: IO[bytes]) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as own:
        while True:
            ours, theirs = own.read(_BLOCK), content.read(_BLOCK)
            if ours != theirs:
                return False
            if not ours:
                return True


class _Bounded(io.RawIOBase):
    """What a gzip stream holds, and an error if that is too much: a few bytes may stand for terabytes."""

    def __init__(self, whole: IO[bytes], most: int) -> None:
        self._stream, self._left = gzip.GzipFile(fileobj=whole), most

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise ValueError("it holds more than it may")
        return block
