"""What commands read: problems and traces from a file, or from a world by `world:NAME:N[:SPLIT]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from footfall.commands._options import PolicyOptions, ReadOptions
from footfall.commands._output import note
from footfall.commands._parts import make_part, open_policy, placed
from footfall.commands._values import MANY
from footfall.formats import FormatError, Solutions, iter_problems, iter_read, read, spooled
from footfall.registry import create, load
from footfall.scale import Remote, is_address
from footfall.terminal import one_line, telling
from footfall.types import Judged, Problem, Trajectory, content_key, image_name, problem_rest

T = TypeVar("T")
_COUNT = re.compile(r"[0-9]{1,9}")
_TOLD = 5
"""Bad records whose reasons are told."""


class Skipped:
    """Bad records that were left out: all are counted, the first few are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def append(self, error: FormatError) -> None:
        self.count += 1
        if len(self.first) < _TOLD:
            self.first.append(str(error))

    def tell(self) -> None:
        """Say it on standard error."""
        if self.count:
            more = [f"and {self.count - len(self.first)} more"] if self.count > len(self.first) else []
            note("\n  ".join([f"--skip-bad left out {self.count} bad records:", *self.first, *more]))


@contextmanager
def skipping(options: ReadOptions) -> Iterator[Skipped | None]:
    """Where bad records go while something is read, or `None` if they are errors; in the end they are told."""
    bad = Skipped() if options.skip_bad else None
    try:
        yield bad
    finally:
        if bad is not None:
            bad.tell()


@contextmanager
def splitting(source: str, options: ReadOptions) -> Iterator[Solutions]:
    """What cuts solutions into steps while a source is read; in the end it is told how."""
    solutions = Solutions(options.segment)
    yield solutions
    if options.segment is not None and not solutions.counts:
        raise ValueError(f"--segment {options.segment} means nothing for {source}: its traces are in steps already")
    if said := solutions.told():
        note(f"{source}: {said}")


class Some(list[T]):
    """What was read, as far as --limit lets it be, and how much there was."""

    def __init__(self, everything: Sequence[T], limit: int | None) -> None:
        super().__init__(everything[:limit])
        self.of = len(everything)

    @property
    def limited(self) -> dict[str, dict[str, int]]:
        """For a result: `{"limited": {"used": 80, "of": 3400}}`, or nothing if all was taken."""
        return _limited(len(self), self.of)


def _limited(used: int, of: int) -> dict[str, dict[str, int]]:
    return {"limited": {"used": used, "of": of}} if used < of else {}


def read_traces(source: str, format: str, options: ReadOptions) -> Some[Judged]:
    """The rows of a file or of standard input."""
    source = here(source)
    with skipping(options) as bad, splitting(source, options) as solutions:
        return Some(read(source, format, bad=bad, solutions=solutions, names=options.names), options.limit)


@dataclass(frozen=True)
class Many(Generic[T]):
    """Rows, which lie in a temporary folder where they are many, and for a result how many of all they are."""

    rows: Sequence[T]
    limited: dict[str, dict[str, int]]

    @classmethod
    def of(cls, rows: Iterable[T], kind: str, limit: int | None) -> Many[T]:
        """The first ones, as far as the limit lets them be; all are gone through."""
        seen = 0

        def taken() -> Iterator[T]:
            nonlocal seen
            for row in rows:
                seen += 1
                if limit is None or seen <= limit:
                    yield row

        kept = spooled(telling("read", taken()), kind)
        return cls(kept, _limited(len(kept), seen))


def read_many(source: str, format: str, options: ReadOptions) -> Many[Trajectory]:
    """As `read_traces` for a command that goes through them in order: no more than some thousands are in memory."""
    source = here(source)
    with skipping(options) as bad, splitting(source, options) as solutions:
        rows = iter_read(source, format, bad=bad, solutions=solutions, names=options.names)
        return Many.of((row.trajectory for row in rows), "trajectory", options.limit)


def here(source: str) -> str:
    """A file of an object store (s3://, gs://) fetched to this machine; any other as it is."""
    return str(Remote(source).data(source.rpartition("/")[2])) if is_address(source) else source


class WorldSource(NamedTuple):
    """`n` problems of one split of a world."""

    world: str
    n: int
    split: str
    tier: str = "default"

    def opened(self) -> Any:
        """The world itself, at its tier."""
        if self.tier == "default":
            return create("world", self.world)
        world: Any = load("world", self.world)
        return world.at(self.tier)


def world_source(source: str, default_split: str) -> WorldSource | None:
    """`world:arithmetic:64`, `world:arithmetic/hard:64` or `world:arithmetic:64:test` taken apart; `None` for a path."""
    if not source.startswith("world:"):
        return None
    _, world, *rest = source.split(":")
    if not 1 <= len(rest) <= 2 or not _COUNT.fullmatch(rest[0]) or not 1 <= int(rest[0]) <= MANY:
        raise ValueError(
            f"{one_line(repr(source), 200)}: a world is named as world:NAME:N or world:NAME:N:SPLIT, N from 1 to {MANY:,}; "
            "`footfall list world` has them"
        )
    world, _, tier = world.partition("/")
    load("world", world)
    return WorldSource(world, int(rest[0]), rest[1] if len(rest) == 2 else default_split, tier or "default")


def read_source(source: str, seed: int, default_split: str, options: ReadOptions) -> Some[Problem]:
    """The problems of a file or of a world; a source without any is an error."""
    return Some(list(_problems(source, seed, default_split, options)), options.limit)


def read_many_problems(source: str, seed: int, default_split: str, options: ReadOptions) -> Many[Problem]:
    """The same for a command that goes through them in order: no more than some thousands are in memory."""
    return Many.of(_problems(source, seed, default_split, options), "problem", options.limit)


def _problems(source: str, seed: int, default_split: str, options: ReadOptions) -> Iterator[Problem]:
    found = world_source(source, default_split)
    if found is not None:
        options.refuse(source, "a world makes its problems", ("limit",))
        yield from found.opened().iter_problems(found.n, seed=seed, split=found.split)
        return
    if options.segment is not None:
        raise ValueError(f"--segment means nothing for {source}: only its problems are read")
    some = False
    with skipping(options) as bad:
        for problem in iter_problems(here(source), bad=bad, names=options.names):
            some = True
            yield problem
    if not some:
        raise ValueError(f"{source}: there is no problem in it")


def problem_key(problem: Problem) -> str:
    """Content address of all that a problem says, its reference answer included."""
    more = [list(map(image_name, problem.images)), problem_rest(problem)]
    return content_key(problem.id, problem.text, problem.answer, *(more if any(more) else []))


def world_rows(source: WorldSource, policy: PolicyOptions, seed: int) -> list[Judged]:
    """One trace a problem, with the truth of each step: the scripted writer's where no policy is named."""
    writer = open_policy(placed(policy.resolved(f"scripted-{source.world}"))[0])
    traces = source.opened().traces(writer, source.n, seed=seed, split=source.split)
    found = [trajectory for _, trajectory in traces]
    truth = make_part("labeller", f"truth-{source.world}", {})
    return [Judged(t, j) for t, j in zip(found, truth.judge(found), strict=True)]
