"""What is measured in a study: method x budget x world x seed -> points with their frontier (`report` has the rest).

A unit is one method at one budget, measured in one setting (a world, and the judge where there are several) under one seed. Its
figures are a small file in the run's folder, made whole or not at all, so a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.progress import Progress
from footfall.registry import load
from footfall.store import write_json
from footfall.studies.frontier import DIGITS, Pick, Point, measured, picks_of
from footfall.study_rows import StudyRow

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

    def fill(self) -> None:
        """Write the files of a world and seed, for somebody else to read."""
        self.about()
        for _ in self.measured():
            pass
        self.close()


P = TypeVar("P", bound=Point)


class Costs(Generic[P]):
    """All that a study found; its subclasses are dataclasses with these fields and their own."""

    __slots__ = ()
    worlds: Mapping[str, Any]
    """By `WORLD`, or `WORLD/JUDGE`."""
    points: Sequence[P]

    def settings(self) -> list[tuple[str, ...]]:
        """As they were measured."""
        return [tuple(name.split("/")) for name in self.worlds]

    def of(self, *setting: str) -> list[P]:
        return [point for point in self.points if point.setting == setting]

    def limits(self, setting: tuple[str, ...], levels: Mapping[str, float]) -> dict[str, float]:
        """Tokens by level; levels are multiples of what one trace of the world costs to write."""
        unit = self.worlds["/".join(setting)].tokens
        return {level: times * unit for level, times in levels.items()}

    def picks(self, levels: Mapping[str, float]) -> list[Pick]:
        """Setting by setting, from the low budget to the high one, among the methods that are measured."""
        return [
            one
            for setting in self.settings()
            for one in picks_of(measured(self.of(*setting)), setting, self.limits(setting, levels))
        ]

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError


class Measured(NamedTuple):
    """Figures by place, and what each world is like, one entry a seed."""

    figures: Mapping[Place, Sequence[Figures]]
    worlds: Mapping[str, Sequence[Figures]]


def measure_all(name: str, sites: Sequence[Site], workers: int = 1) -> Measured:
    """Measure all units that are not there yet, worlds and seeds side by side in `workers`, and gather their figures."""
    for site in sites:
        site.check()
    figures: defaultdict[Place, list[Figures]] = defaultdict(list)
    worlds: defaultdict[str, list[Figures]] = defaultdict(list)
    total = sum(len(site.settings()) * len(site.units()) for site in sites)
    with Progress(name, total) as progress, _filled(sites, workers) as done:
        for site in done:
            worlds[site.world].append(site.about())
            for place, found in site.measured():
                figures[place].append(found)
                progress.advance(1)
            site.close()
    return Measured(figures, worlds)


@contextmanager
def _filled(sites: Sequence[Site], workers: int) -> Iterator[Iterable[Site]]:
    """The sites in order, each as soon as another process has left its figures on disk.

    Without other processes nothing is done here: whoever reads the figures makes them.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: one at least has to work")
    # Copies, one after another: what a site remembers (what judges said, a PRM) goes with it.
    copies = map(replace, sites)
    if workers == 1:
        yield copies
        return
    # Not forked: a copy of a process that has threads may hang.
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        yield (site for site, _ in zip(copies, executor.map(Site.fill, sites), strict=True))
    finally:
        executor.shutdown(cancel_futures=True)


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What an earlier run wrote there, or what is made now and written whole."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, make())
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


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


def plan_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plan as they were before JSON made lists of their tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
