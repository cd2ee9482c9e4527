"""How commands run: a run directory named by the settings that decide its result, and editions of what judges were told.

A run that asks judges anew keeps what they say as an edition of its own in the rollout store (`footfall.drive.rollout_store`),
whose name stays in the run's folder until it is finished. One that was killed goes on with the replies that it has, and with no
other, whether it is asked for anew once more or not.
"""

from __future__ import annotations

import errno
import json
import re
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from footfall.commands._options import WHERE, RayOptions, RunOptions, without_place
from footfall.formats import Mapped, atomic_write
from footfall.registry import named_files
from footfall.scale import Call, RayWorkers, Remote, Resources, is_address
from footfall.store import REMOVING, Run, RunError, Task, is_half_removed
from footfall.types import content_key

T = TypeVar("T")
_NOT_SETTINGS = ("config", "out", "fresh", "json", "store", "skip_bad", *WHERE, *(f.name for f in fields(RayOptions)))
"""Options that say where and how, not what: a server that moved to another port does not make another run."""
_LATER = (
    "system", "observations", "template", "tokenizer", "step_stop", "neutral", "logprobs", "trees", "segment", "map", "limit",
    "base", "chunk", "judge_policy", "held_out_judge", "meta",
)  # fmt: skip
"""Options that earlier runs did not have: unless they are given, such a run is still the same."""
REPORT = "report.html"
"""The page of a run, in its folder."""
_FILES = (".jsonl", ".json", ".gz", ".parquet", ".csv", ".html", ".txt")
_EDITION = re.compile(r"[0-9]{20}")
_MARK = ".again"
_POLICIES = ("policy", "helper", "prover", "judge_policy", "writer")
"""Options that hold policies in words; what these say of the place does not count either."""


class RunConfig(Protocol):
    """The configuration of a command that keeps a run directory: a dataclass with a group of `RunOptions`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def run(self) -> RunOptions: ...


def run_settings(config: RunConfig, for_show: Sequence[str] = ()) -> dict[str, Any]:
    """What decides the result, as JSON: all fields, those of option groups beside the command's own.

    Fields `for_show` decide only what is printed of it.
    """
    flat: dict[str, Any] = {}
    for name, value in asdict(config).items():
        flat.update(value if isinstance(value, dict) else {name: value})
    for name in _POLICIES:
        if isinstance(value := flat.get(name), str):
            flat[name] = without_place(value)
        elif value:
            flat[name] = [without_place(words) for words in value]
    kept = {name: value for name, value in flat.items() if name not in (*_NOT_SETTINGS, *for_show)}
    kept = {name: value for name, value in kept.items() if value not in (None, ()) or name not in _LATER}
    if files := named_files():
        kept["files"] = files
    settings: dict[str, Any] = json.loads(json.dumps(kept, default=str))
    return settings


def run_folder(command: str, config: RunConfig, for_show: Sequence[str] = ()) -> Path:
    """Where the run of this configuration lies: `--out`, or a name made of its settings. A name of a file is refused."""
    out = config.run.out
    if out is not None and is_address(out):
        return Remote(out).folder
    if out is not None and out.suffix in _FILES and not out.is_dir():
        other = f"pass --to {out} to write that file" if hasattr(config, "to") else "its files are written into it"
        raise ValueError(f"--out {out}: it names the run's folder, not a file; {other}")
    return config.run.out or Path("runs") / f"{command}-{content_key(command, run_settings(config, for_show))[:8]}"


@contextmanager
def ray_workers(options: RayOptions, make: Callable[[], Task | Call]) -> Iterator[RayWorkers | None]:
    """The workers that --ray asks for, each of which does chunks by what `make` gives there; `None` without --ray."""
    if options.ray is None:
        yield None
        return
    own = Resources(
        options.ray_workers, options.ray_cpus, options.ray_gpus, options.ray_memory, options.ray_patience,
        options.ray_opening,
    )  # fmt: skip
    with RayWorkers(options.ray, make, own) as workers:
        yield workers


def open_run(
    command: str,
    config: RunConfig,
    more: Mapping[str, Any] | None = None,
    for_show: Sequence[str] = (),
    workers: RayWorkers | None = None,
    beside: Sequence[str] = (),
    inner: Sequence[str] = (),
) -> Run:
    """The run directory of this configuration. `more` are facts that must agree too, but do not name the folder; what --fresh
    throws away with the run is named by `beside` and `inner`, as in `Run`."""
    settings = run_settings(config, for_show)
    folder = run_folder(command, config, for_show)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file; a run needs a folder")
    place = Remote(config.run.out) if is_address(config.run.out) else None
    try:
        return Run(folder, command, {**settings, **(more or {})}, config.run.fresh, workers, place, beside, inner)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise ValueError(
            f"{folder}: the run may not be written there ({error}); name another folder by --out"
        ) from error


def tried_again(
    run: Run, found: Sequence[T], failed: Callable[[T], bool], ask: Callable[[str, Sequence[int]], Sequence[T]]
) -> Sequence[T]:
    """What a stage gave, in which calls that failed in an earlier start are made again, once a start, in a stage of their own:
    `ask` is given its name and the places of what failed."""
    stage = 0
    while not run.worked and (places := array("q", (at for at, each in enumerate(found) if failed(each)))):
        stage += 1
        again = ask(f"retry-{stage}", places)
        found = Mapped(partial(_last, places, again), range(len(found)), found)
    return found


def _last(places: Sequence[int], again: Sequence[T], place: int, before: T) -> T:
    """What came of the call at this place the last time it was made."""
    at = bisect_left(places, place)
    return again[at] if at < len(places) and places[at] == place else before


def edition_of(config: RunConfig, folder: Path, again: bool) -> str:
    """The edition that the run in the folder has begun; if none, a new one to ask anew for, or "" for what is there.

    Of a run in an object store the store knows: another machine may have begun it, or have ended it since.
    """
    place = Remote(config.run.out) if is_address(config.run.out) else None
    half = is_half_removed(folder) or (place is not None and place.text(REMOVING) is not None)
    fresh = config.run.fresh or half
    if not fresh and (begun := _begun(folder / _MARK) if place is None else place.text(_MARK)) is not None:
        if not _EDITION.fullmatch(begun):  # it is part of files' names, and others may write there
            raise RunError(
                f"{config.run.out or folder}/{_MARK} is no mark of a run; remove it, or begin anew with --fresh"
            )
        return begun
    return f"{time.time_ns():020d}" if again or fresh else ""  # the last is found first, so names grow


def _begun(mark: Path) -> str | None:
    return mark.read_text(encoding="ascii", errors="replace") if mark.is_file() else None


def begin_edition(run: Run, edition: str) -> None:
    """Note that the run asks for this edition, if it is one."""
    if edition:
        mark = run.folder / _MARK
        with atomic_write(mark) as stream:
            stream.write(edition.encode("ascii"))
        if run.place is not None:
            run.place.put(mark)


def end_edition(run: Run) -> None:
    """The run is finished; the next that asks anew has another edition."""
    mark = run.folder / _MARK
    if run.place is not None:
        run.place.remove(mark)
    mark.unlink(missing_ok=True)
