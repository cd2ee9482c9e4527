"""What is measured in a study: method x budget x world x seed -> figures (`frontier` compares them, `report` shows them).

A unit is one method at one budget, measured in one setting (a world, and the judge where there are several) under one seed. Its
figures are a small file in the run's folder, made whole or not at all, so a run that was killed goes on where it stopped.

Its rows are collected from what registered methods declare of themselves: no method is named here.
"""

from __future__ import annotations

import inspect
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.registry import Kind, StudyRow, declared, load, parts
from footfall.store import Chunk, Run, keep_json, kept_json
from footfall.store.processes import worker_processes
from footfall.studies.frontier import DIGITS
from footfall.terminal import Progress

_LOOK_EVERY_SECONDS = 0.5
KEPT = ("units", "prms", "models", "rollouts")
"""Folders of a run in which studies keep figures and what these are made of, to go on from."""
R = TypeVar("R")
_ORDER = {kind: place for place, kind in enumerate(get_args(Kind))}


class Rows(NamedTuple):
    """What a study measures, in the order of its tables, and what it leaves out with the reason."""

    known: dict[str, StudyRow]
    unmeasured: dict[str, str]

    def chosen(self, names: Sequence[str] | None, what: str, always: str = "") -> list[StudyRow]:
        """The rows of these names, and of `always`, in their order; all without any. An unknown name is an error."""
        unknown = next((name for name in names or () if name not in self.known), None)
        if unknown in self.unmeasured:
            raise ValueError(f"{unknown!r} is not measured here: {self.unmeasured[unknown]}")
        if unknown is not None:
            raise ValueError(f"no {what} method is called {unknown!r} here; there are {', '.join(self.known)}")
        return [row for name, row in self.known.items() if names is None or name in names or name == always]


def rows_of(kinds: Sequence[str], usual: StudyRow, given: Sequence[str] = ()) -> Rows:
    """The rows of all parts of these kinds, by kind of row, place and name.

    A part that declares none has the `usual` one if it takes its dial, else a row without a dial; one that cannot be made of
    its dial and of what is `given` is left out.
    """
    found: list[StudyRow] = []
    unmeasured: dict[str, str] = {}
    for kind in kinds:
        for name in parts(kind):
            said = declared(kind, name)
            if said.control:
                continue
            own = said.study or (said.unmeasured or _usual_row(kind, name, usual, given))
            if isinstance(own, str):
                unmeasured[name] = own
            else:
                found += [replace(row, name=row.name or name, part=row.part or name) for row in own]
    known: dict[str, StudyRow] = {}
    for row in sorted(found, key=lambda row: (_ORDER[row.kind], row.place, row.name)):
        if row.name in known:
            raise ValueError(f"two rows are called {row.name!r}: of {known[row.name].part} and of {row.part}")
        known[row.name] = row
    return Rows(known, unmeasured)


def _usual_row(kind: str, name: str, usual: StudyRow, given: Sequence[str]) -> tuple[StudyRow, ...] | str:
    takes = inspect.signature(load(kind, name)).parameters.values()
    wanting = [
        p.name for p in takes
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in (usual.dial, *given)
    ]  # fmt: skip
    if wanting:
        return f"it needs {', '.join(wanting)}, and declares no row that says what that is here"
    return (usual if any(p.name == usual.dial for p in takes) else StudyRow(),)


DEFAULT_WORLDS = ("arithmetic", "logic", "algebra", "code")
Place = tuple[tuple[str, ...], int]
"""A setting, and the number of a unit."""
Figures = Mapping[str, Any]


class Unit(NamedTuple):
    """A method at one place of its dial."""

    row: StudyRow
    budget: float


def check_worlds(worlds: Sequence[str]) -> None:
    """An unknown world is an error."""
    for world in worlds:
        load("world", world)


@dataclass
class Site:
    """One world under one seed: measures its units, or reads what an earlier run has measured."""

    plan: Any
    folder: Path
    world: str
    seed: int

    def units(self) -> list[Unit]:
        raise NotImplementedError

    def settings(self) -> list[tuple[str, ...]]:
        """What each unit is measured in."""
        return [(self.world,)]

    def measured(self) -> Iterator[tuple[Place, Figures]]:
        """Every unit in every setting, as it is done."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """What the world is like under this seed."""
        return {}

    def check(self) -> None:
        """Raises what makes measuring impossible, before any process starts."""

    def close(self) -> None:
        """All figures are kept: what they were made of can go."""

    def fill(self) -> Iterator[int]:
        """Write the files of a world and seed, for somebody else to read; after each unit, how many are done."""
        self.about()
        for count, _ in enumerate(self.measured(), 1):
            yield count
        self.close()


class Measured(NamedTuple):
    """Figures by place, and what each world is like, one entry a seed."""

    figures: Mapping[Place, Sequence[Figures]]
    worlds: Mapping[str, Sequence[Figures]]


def measure_all(name: str, sites: Sequence[Site], workers: int = 1, run: Run | None = None) -> Measured:
    """Measure all units that are not there yet, worlds and seeds side by side in `workers` or by those of the run, which fill
    the sites that they are given (`filled`), and gather their figures."""
    for site in sites:
        site.check()
    figures: defaultdict[Place, list[Figures]] = defaultdict(list)
    worlds: defaultdict[str, list[Figures]] = defaultdict(list)
    total = sum(len(site.settings()) * len(site.units()) for site in sites)
    cluster = run if run is not None and run.workers is not None else None
    with Progress(name, total) as progress, _filled(name, sites, workers, progress, cluster) as done:
        for site in done:
            worlds[site.world].append(site.about())
            for place, found in site.measured():
                figures[place].append(found)
                if workers == 1 and cluster is None:
                    _advance(progress, 1)
            site.close()
            if run is not None:
                run.keep()
    return Measured(figures, worlds)


def measure_plan(
    name: str, plan: Any, site: Callable[[Any, Path, str, int], Site], run: Run, workers: int = 1
) -> Measured:
    """All worlds and seeds of a plan (`measure_all`)."""
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    sites = [site(plan, run.folder, world, seed) for seed in seeds for world in plan.worlds]
    return measure_all(name, sites, workers, run)


@contextmanager
def _filled(
    name: str, sites: Sequence[Site], workers: int, progress: Progress, cluster: Run | None
) -> Iterator[Iterable[Site]]:
    """The sites in order, each as soon as another process has left its figures on disk; units are counted as they are done.

    Without other processes nothing is done here: whoever reads the figures makes them.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: one at least has to work")
    # Copies, one after another: what a site remembers (what judges said, a PRM) goes with it.
    copies = map(replace, sites)
    if cluster is not None and cluster.workers is not None:
        chunks = (Chunk("sites", place, "", (site,)) for place, site in enumerate(sites))
        for one in cluster.workers.each(chunks, cluster.log):
            at, seconds = one.chunk.index, round(one.seconds, 3)
            cluster.log("chunk", stage="sites", index=at, items=1, seconds=seconds, worker=one.worker)
            _advance(progress, one.shard)
        yield copies
        return
    if workers == 1:
        yield copies
        return
    # One place a site, written by one process alone: no lock that a killed process could hold.
    done = RawArray("q", len(sites))
    running: list[Future[None]] = []

    def under_way() -> str:
        left = [site for site, future in zip(sites, running, strict=False) if not future.done() or future.exception()]
        return f"{name}, {', '.join(f'{site.world} seed {site.seed}' for site in left[:workers])}"

    with worker_processes(workers, under_way, "pass a smaller --option workers=N", _count_in, done) as executor:
        running += (executor.submit(_fill_told, site, place) for place, site in enumerate(sites))
        yield (site for site, future in zip(copies, running, strict=True) if _awaited(future, done, progress))


_done: Any = []
"""In a process that fills sites: the units done of each."""


def _count_in(done: Any) -> None:
    global _done
    _done = done


def _fill_told(site: Site, place: int) -> None:
    for count in site.fill():
        _done[place] = count


def filled(site: Site) -> int:
    """What a worker of a cluster does, which sees the run's folder: all units of a site, and how many they are."""
    return max(site.fill(), default=0)


def _advance(progress: Progress, units: int) -> None:
    """The first units pay for what all share (traces, a PRM): rate and time left are of those after them."""
    if progress.done == 0 < units < progress.total:
        progress.started, progress.at_start = time.monotonic(), units
    progress.advance(units)


def _awaited(future: Future[None], done: Any, progress: Progress) -> bool:
    """The end of one site; meanwhile, how far all are."""
    while True:
        ended = wait([future], timeout=_LOOK_EVERY_SECONDS).done
        _advance(progress, sum(done) - progress.done)
        if ended:
            future.result()
            return True


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What an earlier run wrote there, or what is made now and written whole."""
    if (found := kept_json(path)) is not None:
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    return keep_json(path, make())


def over_seeds(seeds: Sequence[Figures], names: Sequence[str], shares: Sequence[str] = ()) -> dict[str, Interval]:
    """Means over the seeds that have a figure; a figure that none has is left out. Shares stay within 0 and 1."""
    found = {}
    for name in names:
        means = [seed[name] for seed in seeds if seed[name] is not None]
        if means:
            value, low, high = (round(end, DIGITS) for end in mean_of_seeds(means))
            # The comparisons keep a NaN, which max and min may not.
            inside = name in shares
            found[name] = Interval(value, 0.0 if inside and low < 0 else low, 1.0 if inside and high > 1 else high)
    return found


def interval_json(interval: Interval) -> dict[str, Any]:
    """As a report states it; one seed has no interval."""
    ends = [end for end in interval[1:] if math.isfinite(end)]
    return {"value": interval.value, "ci95": ends or None}


def interval_from(given: Mapping[str, Any]) -> Interval:
    return Interval(given["value"], *(given["ci95"] or (math.nan, math.nan)))


def row_json(row: Any) -> dict[str, Any]:
    """A row that is a dataclass with intervals in `figures`."""
    told = {field.name: getattr(row, field.name) for field in fields(row)}
    return {**told, "figures": {name: interval_json(found) for name, found in row.figures.items()}}


def row_from(kind: Callable[..., R], given: Mapping[str, Any]) -> R:
    """What `row_json` told of a row of this kind."""
    return kind(**{**given, "figures": {name: interval_from(found) for name, found in given["figures"].items()}})


def plan_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plan as they were before JSON made lists of their tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
