"""One study: method x budget x world x seed -> points -> frontier -> advice -> page.

A unit is one method at one budget, measured in one setting (a world, and the judge where there are several) under one seed. Its
figures are a small file in the run's folder, made whole or not at all, so a run that was killed goes on where it stopped. What
differs between studies is what a `Site` measures, and the words of the report.
"""

from __future__ import annotations

import json
import math
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.progress import Progress
from footfall.registry import load
from footfall.store import Run, write_json
from footfall.studies.frontier import DIGITS, Placed
from footfall.study_rows import Kind, StudyRow

DEFAULT_WORLDS = ("arithmetic", "logic", "algebra", "code")
Place = tuple[tuple[str, ...], int]
"""A setting, and the number of a unit."""
Figures = Mapping[str, Any]


class Unit(NamedTuple):
    """A method at one place of its dial."""

    row: StudyRow
    budget: float


class Plan(Protocol):
    """What is measured: every study has these, and fields of its own."""

    @property
    def worlds(self) -> tuple[str, ...]: ...
    @property
    def seeds(self) -> int: ...
    @property
    def first_seed(self) -> int: ...


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


class Point(Placed, Protocol):
    """A unit over all seeds, as a study's tables know it."""

    @property
    def setting(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def frontier(self) -> bool: ...


class World(Protocol):
    @property
    def tokens(self) -> float: ...


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
        unit: World = self.worlds["/".join(setting)]
        return {level: times * unit.tokens for level, times in levels.items()}

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError


C = TypeVar("C", bound=Costs[Any])


class Measured(NamedTuple):
    """Figures by place, and what each world is like, one entry a seed."""

    figures: Mapping[Place, Sequence[Figures]]
    worlds: Mapping[str, Sequence[Figures]]


@dataclass(frozen=True)
class Study(Generic[C]):
    """What is measured of which methods, and how it is told."""

    name: str
    plan: Callable[..., Any]
    lists: tuple[str, ...]
    """Options of the plan that are names with commas between."""
    numbers: tuple[str, ...]
    site: Callable[[Any, Path, str, int], Site]
    together: Callable[[Any, Measured], C]
    """The points with their frontier, out of all figures."""
    read: Callable[[Mapping[str, Any]], C]
    """From JSON."""
    docs: str
    """What the files of the documentation begin with: `label_costs`."""
    page: Callable[[C], str]
    charts: Callable[[C], Mapping[str, str]]
    """By file name."""
    shown: Callable[[C], Sequence[str | Sequence[Sequence[str]]]]
    """What a terminal shows: lines, and tables with their header."""
    left_out: Callable[[C], Mapping[str, str]]
    blocks: Mapping[str, Callable[[C], str]]
    """What the page of the documentation shows between its marks, from the figures alone."""

    def run(self, plan: Plan, run: Run, workers: int = 1) -> C:
        """Measure all units that are not there yet, worlds and seeds side by side in `workers`, then put them together."""
        seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
        sites = [self.site(plan, run.folder, world, seed) for seed in seeds for world in plan.worlds]
        for site in sites:
            site.check()
        figures: defaultdict[Place, list[Figures]] = defaultdict(list)
        worlds: defaultdict[str, list[Figures]] = defaultdict(list)
        total = sum(len(site.settings()) * len(site.units()) for site in sites)
        with Progress(self.name, total) as progress, Workers(workers) as pool:
            # Copies, one after another: what a site remembers (what judges said, a PRM) goes with it.
            for site, _ in zip(map(replace, sites), pool.each(_fill, sites), strict=True):
                worlds[site.world].append(site.about())
                for place, found in site.measured():
                    figures[place].append(found)
                    progress.advance(1)
                site.close()
        return self.together(plan, Measured(figures, worlds))


def _fill(site: Site) -> None:
    site.fill()


class Workers:
    """Other processes that each leave their results on disk for whoever asks, or none."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: one at least has to work")
        # Not forked: a copy of a process that has threads may hang.
        context = multiprocessing.get_context("spawn")
        self.executor = ProcessPoolExecutor(workers, context) if workers > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self.executor is not None:
            self.executor.shutdown(cancel_futures=True)

    def each(self, work: Callable[[Site], None], sites: Sequence[Site]) -> Iterable[None]:
        """As soon as each is done, in order. Without other processes nothing is done here: whoever reads makes it."""
        return [None] * len(sites) if self.executor is None else self.executor.map(work, sites)


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
