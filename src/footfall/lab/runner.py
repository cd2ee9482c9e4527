"""Running recipes: each seed of one is a unit, stored when it is done, so a killed run goes on where it stopped.

Units need nothing from each other, so they spread over processes (`spread`) or a cluster (`spread_on`): each works on one
thread. Of the outcomes of all seeds `finish` makes a row a claim; whether rows that were made before are still what the code
gives is the matter of `footfall.lab.checking`.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.damaged import naming
from footfall.formats.atomic import remove_folder
from footfall.lab.fingerprint import environment, locked, version_of
from footfall.lab.ledger import Row, row_of, stated
from footfall.lab.recipe import Claim, Entry, Outcome, Trial, load_measure
from footfall.scale import RayWorkers, Remote, is_address
from footfall.store import SCRATCH, Run, keep_json, kept_json
from footfall.store.processes import worker_processes
from footfall.terminal import Progress
from footfall.types import Cost, content_key


class Finding(NamedTuple):
    """The rows of one recipe's claims, each arm's mean over seeds, and what each seed gave."""

    rows: list[Row]
    means: dict[str, float]
    cost: Cost
    folder: Path
    outcomes: dict[int, Outcome]


class Unit(NamedTuple):
    """One seed of one recipe; its trial's folder is the run's."""

    entry: Entry
    trial: Trial
    version: str

    @property
    def path(self) -> Path:
        """The file of its outcome. Other code or another environment is another file."""
        seed, quick = self.trial.seed, self.trial.quick
        key = content_key(self.entry.recipe.name, self.version, seed, quick, environment(self.trial.device))[:16]
        return self.trial.folder / "seeds" / f"{seed:04d}-{key}.json"

    def outcome(self) -> Outcome:
        """What it gives, measured now if it is not stored."""
        found = kept_json(self.path) or self._measure(self.path)
        with naming(self.path):
            return Outcome.from_dict(found)

    def _measure(self, path: Path) -> dict[str, Any]:
        from footfall.loading import single_threaded

        scratch = self.trial.folder / SCRATCH / path.stem
        for needed in (path.parent, scratch):
            needed.mkdir(parents=True, exist_ok=True)
        # A worker may outlive a killed parent for a moment; whoever comes next waits for it.
        with locked(scratch):
            if found := kept_json(path):
                return found
            begun = time.monotonic()
            # Figures must not depend on how many cores a machine has.
            with single_threaded(), _own_garbage():
                outcome = load_measure(self.entry)(self.trial._replace(folder=scratch))
            seconds = round(time.monotonic() - begun, 3)
            outcome = replace(outcome, cost=replace(outcome.cost, seconds=seconds))
            made = keep_json(path, {"seed": self.trial.seed, "version": self.version, **outcome.to_dict()})
            remove_folder(scratch)
        return made


@contextmanager
def _own_garbage() -> Iterator[None]:
    """Collections go through what is made within alone. Every training begins with one, and most of what a process holds is
    libraries."""
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


def units_of(
    entry: Entry,
    seeds: Sequence[int],
    folder: Path,
    quick: bool = False,
    shared: Path | None = None,
    device: str = "cpu",
) -> list[Unit]:
    """One a seed. What recipes have in common is kept in `shared`; None: in the folder "shared" beside the run."""
    version, shared = version_of(entry.path), folder.parent / "shared" if shared is None else shared
    return [Unit(entry, Trial(seed, quick, folder, shared, device), version) for seed in seeds]


def run_recipe(
    entry: Entry, seeds: Sequence[int], folder: Path, quick: bool = False, shared: Path | None = None
) -> Finding:
    """Measure on every seed that is not stored yet, then decide each claim."""
    with opened(entry, folder, quick) as run:
        return finish(run, entry, _outcomes(run, entry, units_of(entry, seeds, folder, quick, shared)), quick)


def measure_seed(entry: Entry, seed: int, folder: Path, quick: bool = False, device: str = "cpu") -> Outcome:
    """What one seed gives, measured now if it is not stored."""
    with opened(entry, folder, quick) as run:
        return _outcomes(run, entry, units_of(entry, [seed], folder, quick, device=device))[seed]


def opened(entry: Entry, folder: Path, quick: bool) -> Run:
    """The run directory of a recipe, here or in an object store."""
    place = Remote(folder) if is_address(folder) else None
    known = {"recipe": entry.recipe.name, "quick": quick}
    return Run(folder if place is None else place.folder, "lab run", known, place=place)


def log_seed(run: Run, seed: int, outcome: Outcome) -> None:
    """A line of the run's log for a seed that was measured just now."""
    run.log("stage", stage=f"seed {seed}", seconds=outcome.cost.seconds, cost=outcome.cost.to_dict())
    run.keep()


def finish(run: Run, entry: Entry, outcomes: Mapping[int, Outcome], quick: bool) -> Finding:
    """Decide each claim, and write the run's result."""
    found = list(outcomes.values())
    finding = Finding(
        rows=rows_of(entry, found),
        means={arm: fmean(fmean(o.values(arm)) for o in found) for arm in found[0].arms},
        cost=Cost.total(o.cost for o in found),
        folder=run.folder,
        outcomes=dict(outcomes),
    )
    run.finish({"rows": finding.rows, "means": finding.means, "seeds": list(outcomes), "quick": quick})
    return finding


def rows_of(entry: Entry, outcomes: Sequence[Outcome]) -> list[Row]:
    """A row a claim, from the outcomes of seeds in their order, or from stored figures.

    A claim by one figure a seed has none after one seed: one number has no interval.
    """
    without = single_figures(entry, outcomes)
    made = [
        row_of(entry.recipe, claim, outcomes, version_of(entry.path))
        if claim.tier == "lab"
        else stated(entry, claim, None)
        for claim in entry.recipe.claims
        if claim not in without
    ]
    return [row for row in made if row is not None]


def single_figures(entry: Entry, outcomes: Sequence[Outcome]) -> list[Claim]:
    """The claims that one seed gave one figure of: they need another seed."""
    lab = [claim for claim in entry.recipe.claims if claim.tier == "lab"]
    return [claim for claim in lab if len(outcomes) == 1 and len(outcomes[0].differences(claim)) == 1]


def spread(
    waiting: deque[Unit], workers: int = 1, minutes: float | None = None
) -> Iterator[tuple[Unit, Callable[[], Outcome]]]:
    """Each unit and what gives its outcome, or raises what went wrong, as they are done by so many processes.

    Units are taken from the queue when they are begun, and whoever is told of one may put others there. After `minutes` nothing
    new is begun. One worker is this process: the unit is done when its outcome is asked for.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: one at least has to work")
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    if workers == 1:
        while waiting and time.monotonic() < until:
            unit = waiting.popleft()
            yield unit, unit.outcome
        return
    # Read by the numerical libraries of the workers when they are loaded: sixteen teams of sixteen threads would wait.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    running: dict[Future[Outcome], Unit] = {}

    def under_way() -> str:
        return ", ".join(f"{unit.entry.recipe.name} seed {unit.trial.seed}" for unit in running.values())

    with worker_processes(workers, under_way, "pass fewer --workers") as executor:
        while True:
            while waiting and len(running) < workers and time.monotonic() < until:
                unit = waiting.popleft()
                running[executor.submit(unit.outcome)] = unit
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                if isinstance(lost := future.exception(), BrokenProcessPool):
                    raise lost
                yield running.pop(future), future.result


def seed_outcome(item: tuple[Unit, float]) -> Outcome | None:
    """What a unit gives, in a worker of a cluster; `None` after the time at which nothing more is begun."""
    unit, until = item
    return None if time.time() > until else unit.outcome()


def spread_on(
    cluster: RayWorkers, waiting: deque[Unit], log: Callable[..., None], minutes: float | None = None
) -> Iterator[tuple[Unit, Callable[[], Outcome]]]:
    """As `spread`, by workers of a cluster, which were made for calls of `seed_outcome` and see the runs' folders.

    All that waits is handed out at once; what is put into the queue meanwhile stays there. `log` takes what happens to workers,
    and who measured which seed of a `recipe`.
    """
    units = list(waiting)
    waiting.clear()
    until = math.inf if minutes is None else time.time() + 60 * minutes
    for done in cluster.calls("seeds", ((unit, until) for unit in units), log, errors_told=True):
        unit = units[done.chunk.index]
        if done.shard is not None:
            facts = {"recipe": unit.entry.recipe.name, "index": unit.trial.seed, "seconds": round(done.seconds, 3)}
            log("chunk", stage="seeds", items=1, worker=done.worker, **facts)
            yield unit, partial(_returned, done.shard)


def _returned(found: Outcome | Exception) -> Outcome:
    if isinstance(found, Exception):
        raise found
    return found


def _outcomes(run: Run, entry: Entry, units: Sequence[Unit]) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    with Progress(entry.recipe.name, len(units)) as progress:
        for unit in units:
            seed, stored = unit.trial.seed, unit.path.exists()
            found[seed] = unit.outcome()
            progress.at_start += stored
            if not stored:
                log_seed(run, seed, found[seed])
            progress.advance(1)
    return found
