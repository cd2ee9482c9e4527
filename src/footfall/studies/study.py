"""What is measured in a study: method x budget x world x seed -> points with their frontier (`report` has the rest).

A unit is one method at one budget, measured in one setting (a world, and the judge where there are several) under one seed. Its
figures are a small file in the run's folder, made whole or not at all, so a run that was killed goes on where it stopped.

Its rows are collected from what registered methods declare of themselves: no method is named here.

Quality against tokens, for any set of methods, gives the frontier, and which point a budget is best spent on, by rule.
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
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, get_args

from footfall.metrics.intervals import Interval, mean_of_seeds
from footfall.registry import Kind, StudyRow, declared, load, parts
from footfall.store import Chunk, Run, keep_json, kept_json, worker_processes
from footfall.terminal import Progress

DIGITS = 6
"""Figures are rounded before they are compared: what is stored is what was compared."""
_LOOK_EVERY_SECONDS = 0.5


class Placed(Protocol):
    """A method at one place of its dial, that stands somewhere between cost and quality."""

    @property
    def method(self) -> str: ...
    @property
    def dial(self) -> str: ...
    @property
    def budget(self) -> float: ...
    @property
    def tokens(self) -> float: ...
    @property
    def accuracy(self) -> Interval: ...
    @property
    def outcomes(self) -> Sequence[float]:
        """One number a seed or a problem, the same ones for all points: for paired comparisons."""
        ...


class Point(Placed, Protocol):
    """A unit of a study over all seeds: a dataclass that also knows where it was measured and of what kind it is."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def setting(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def frontier(self) -> bool: ...


P = TypeVar("P", bound=Placed)
Q = TypeVar("Q", bound=Point)
R = TypeVar("R")


def measured(points: Sequence[Q]) -> list[Q]:
    """Those that may be advised."""
    return [point for point in points if point.kind == "measured"]


def frontier(points: Sequence[Q]) -> list[Q]:
    """The points of one setting, marked: no measured point is at least as good and at most as dear (and not the same).

    Stand-ins are held against measured methods but beat none of them, for their quality is assumed; references and methods
    with traces of their own are not on it.
    """
    rivals = measured(points)
    return [
        replace(point, frontier=point.kind in ("measured", "stand-in") and not any(beats(r, point) for r in rivals))
        for point in points
    ]


def beats(other: Placed, point: Placed) -> bool:
    """At least as good and at most as dear, and not the same."""
    cheaper, better = point.tokens - other.tokens, other.accuracy.value - point.accuracy.value
    return cheaper >= 0 and better >= 0 and (cheaper > 0 or better > 0)


def clearly_better(a: Placed, b: Placed) -> bool:
    """Whether all of the interval of a − b, paired, lies above zero; with a single outcome: whether it is more."""
    difference = mean_of_seeds([x - y for x, y in zip(a.outcomes, b.outcomes, strict=True)])
    return difference.value > 0 if math.isnan(difference.low) else difference.low > 0


class Choice(NamedTuple):
    """What is advised, and the best there was for as much."""

    point: Any
    best: Any
    again: bool = False
    """Advised at a smaller budget already: nothing that fits this one is clearly better."""


def cheapest_as_good(points: Sequence[P], limit: float, before: P | None = None) -> Choice | None:
    """Of those within a limit of tokens: the cheapest that is not clearly worse than the best; `None` if there is none.

    `before` is what a smaller limit had: it stays unless the best is clearly better, and none below its mean takes its place.
    Points that another beats are no candidates.
    """
    within = [p for p in points if p.tokens <= limit and not any(beats(other, p) for other in points)]
    if not within:
        return None
    best = max(within, key=lambda p: (p.accuracy.value, -p.tokens))
    if before is not None and not clearly_better(best, before):
        return Choice(before, best, again=True)
    least = -math.inf if before is None else before.accuracy.value
    good = [p for p in within if p.accuracy.value >= least and not clearly_better(best, p)]
    return Choice(min(good, key=lambda p: p.tokens), best)


def advised(points: Sequence[P], limits: Sequence[float]) -> list[Choice | None]:
    """The choice at each limit, from the smallest up: its mean never falls as the limit grows."""
    if list(limits) != sorted(limits):
        raise ValueError(f"budgets go from small to large, not {list(limits)}")
    found: list[Choice | None] = []
    for limit in limits:
        before = found[-1] if found else None
        found.append(cheapest_as_good(points, limit, None if before is None else before.point))
    return found


class Pick(NamedTuple):
    """The advice for one setting and budget."""

    setting: tuple[str, ...]
    """The world, and the judge where there are several."""
    level: str
    limit: float
    """Tokens."""
    point: Any
    best: Any
    """The most accurate within the budget; often the same."""
    again: bool
    """Advised at a smaller budget already."""

    @property
    def world(self) -> str:
        return self.setting[0]


def picks_of(points: Sequence[P], setting: tuple[str, ...], limits: Mapping[str, float]) -> list[Pick]:
    """Among the points of one setting, by level, from the low budget to the high one; none where nothing is that cheap."""
    rows = zip(limits.items(), advised(points, list(limits.values())), strict=True)
    return [Pick(setting, level, limit, *choice) for (level, limit), choice in rows if choice is not None]


def ties(points: Sequence[P]) -> list[list[P]]:
    """Points that cost the same and are as good, together, in the order of the first of each."""
    found: dict[tuple[float, float], list[P]] = {}
    for point in points:
        found.setdefault((round(point.tokens, DIGITS), round(point.accuracy.value, DIGITS)), []).append(point)
    return list(found.values())


_ORDER = {kind: place for place, kind in enumerate(get_args(Kind))}


class Rows(NamedTuple):
    """What a study measures, in the order of its tables, and what it leaves out with the reason."""

    known: dict[str, StudyRow]
    unmeasured: dict[str, str]

    def chosen(self, names: Sequence[str] | None, what: str, always: str = "") -> list[StudyRow]:
        """The rows of these names, and of `always`, in their order; all without any. An unknown name is an error."""
        unknown = [name for name in names or () if name not in self.known]
        if unknown:
            raise ValueError(f"no {what} method is called {unknown[0]!r} here; there are {', '.join(self.known)}")
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


class Costs(Generic[Q]):
    """All that a study found; its subclasses are dataclasses with these fields and their own."""

    __slots__ = ()
    worlds: Mapping[str, Any]
    """By `WORLD`, or `WORLD/JUDGE`."""
    points: Sequence[Q]

    def settings(self) -> list[tuple[str, ...]]:
        """As they were measured."""
        return [tuple(name.split("/")) for name in self.worlds]

    def of(self, *setting: str) -> list[Q]:
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


def measure_all(name: str, sites: Sequence[Site], workers: int = 1, run: Run | None = None) -> Measured:
    """Measure all units that are not there yet, worlds and seeds side by side in `workers` or by those of the run, which fill
    the sites that they are given (`filled`), and gather their figures."""
    for site in sites:
        site.check()
    figures: defaultdict[Place, list[Figures]] = defaultdict(list)
    worlds: defaultdict[str, list[Figures]] = defaultdict(list)
    total = sum(len(site.settings()) * len(site.units()) for site in sites)
    cluster = run if run is not None and run.workers is not None else None
    with Progress(name, total) as progress, _filled(sites, workers, progress, cluster) as done:
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
def _filled(sites: Sequence[Site], workers: int, progress: Progress, cluster: Run | None) -> Iterator[Iterable[Site]]:
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
    executor = worker_processes(workers, _count_in, done)
    try:
        running = [executor.submit(_fill_told, site, place) for place, site in enumerate(sites)]
        yield (site for site, future in zip(copies, running, strict=True) if _awaited(future, done, progress))
    finally:
        executor.shutdown(cancel_futures=True)


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
