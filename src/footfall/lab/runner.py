"""Running recipes: each seed of one is a unit, stored when it is done, so a killed run goes on where it stopped.

Units need nothing from each other, so they spread over processes (`spread`): each works on one thread.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from footfall.lab.fingerprint import version_of
from footfall.lab.ledger import Row, row_of
from footfall.lab.outcomes import environment, locked
from footfall.lab.recipe import Entry, Outcome, Trial, load_measure
from footfall.progress import Progress
from footfall.store import Run, write_json
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
        key = content_key(self.entry.recipe.name, self.version, seed, quick, environment())[:16]
        return self.trial.folder / "seeds" / f"{seed:04d}-{key}.json"

    def outcome(self) -> Outcome:
        """What it gives, measured now if it is not stored."""
        path = self.path
        if not path.exists():
            self._measure(path)
        return Outcome.from_dict(json.loads(path.read_text(encoding="utf-8")))

    def _measure(self, path: Path) -> None:
        from footfall.loading import single_threaded

        scratch = self.trial.folder / "work" / path.stem
        for needed in (path.parent, scratch):
            needed.mkdir(parents=True, exist_ok=True)
        # A worker outlives a killed parent until its unit is done; whoever comes next waits for it.
        with locked(scratch):
            if path.exists():
                return
            begun = time.monotonic()
            # Figures must not depend on how many cores a machine has.
            with single_threaded():
                outcome = load_measure(self.entry)(self.trial._replace(folder=scratch))
            seconds = round(time.monotonic() - begun, 3)
            outcome = replace(outcome, cost=replace(outcome.cost, seconds=seconds))
            write_json(path, {"seed": self.trial.seed, "version": self.version, **outcome.to_dict()})
            shutil.rmtree(scratch)


def units_of(
    entry: Entry, seeds: Sequence[int], folder: Path, quick: bool = False, shared: Path | None = None
) -> list[Unit]:
    """One a seed. What recipes have in common is kept in `shared`; None: in the folder "shared" beside the run."""
    version, shared = version_of(entry.path), folder.parent / "shared" if shared is None else shared
    return [Unit(entry, Trial(seed, quick, folder, shared), version) for seed in seeds]


def run_recipe(
    entry: Entry, seeds: Sequence[int], folder: Path, quick: bool = False, shared: Path | None = None
) -> Finding:
    """Measure on every seed that is not stored yet, then decide each claim."""
    with opened(entry, folder, quick) as run:
        return finish(run, entry, _outcomes(run, entry, units_of(entry, seeds, folder, quick, shared)), quick)


def measure_seed(entry: Entry, seed: int, folder: Path, quick: bool = False, shared: Path | None = None) -> Outcome:
    """What one seed gives, measured now if it is not stored."""
    with opened(entry, folder, quick) as run:
        return _outcomes(run, entry, units_of(entry, [seed], folder, quick, shared))[seed]


def opened(entry: Entry, folder: Path, quick: bool) -> Run:
    """The run directory of a recipe."""
    return Run(folder, "lab run", {"recipe": entry.recipe.name, "quick": quick})


def log_seed(run: Run, seed: int, outcome: Outcome) -> None:
    """A line of the run's log for a seed that was measured just now."""
    run.log("stage", stage=f"seed {seed}", seconds=outcome.cost.seconds, cost=outcome.cost.to_dict())


def finish(run: Run, entry: Entry, outcomes: Mapping[int, Outcome], quick: bool) -> Finding:
    """Decide each claim, and write the run's result."""
    found = list(outcomes.values())
    finding = Finding(
        rows=[row_of(entry.recipe, claim, found, version_of(entry.path)) for claim in entry.recipe.claims],
        means={arm: fmean(fmean(o.values(arm)) for o in found) for arm in found[0].arms},
        cost=Cost.total(o.cost for o in found),
        folder=run.folder,
        outcomes=dict(outcomes),
    )
    run.finish({"rows": finding.rows, "means": finding.means, "seeds": list(outcomes), "quick": quick})
    return finding


def spread(
    units: Sequence[Unit], workers: int = 1, minutes: float | None = None
) -> Iterator[tuple[Unit, Callable[[], Outcome]]]:
    """Each unit and what gives its outcome, or raises what went wrong, as they are done by so many processes.

    After `minutes` nothing new is begun. One worker is this process: the unit is done when its outcome is asked for.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: one at least has to work")
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    waiting = deque(units)
    if workers == 1:
        while waiting and time.monotonic() < until:
            unit = waiting.popleft()
            yield unit, unit.outcome
        return
    # Read by the numerical libraries of the workers when they are loaded: sixteen teams of sixteen threads would wait.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Not forked: a copy of a process that has threads may hang.
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    running: dict[Future[Outcome], Unit] = {}
    try:
        while True:
            while waiting and len(running) < workers and time.monotonic() < until:
                unit = waiting.popleft()
                running[executor.submit(unit.outcome)] = unit
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result
    finally:
        executor.shutdown(cancel_futures=True)


def _outcomes(run: Run, entry: Entry, units: Sequence[Unit]) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    with Progress(entry.recipe.name, len(units)) as progress:
        for unit in units:
            seed, stored = unit.trial.seed, unit.path.exists()
            found[seed] = unit.outcome()
            if not stored:
                log_seed(run, seed, found[seed])
            progress.advance(1)
    return found
