"""Several recipes side by side, each up to the look that decides it: what `footfall lab run` does between two lines of output.

Who is not decided by a look has the seeds of the next one put to those that wait, so that nobody waits for other recipes.
"""

from __future__ import annotations

import math
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from footfall.lab.checking import QUICK_SEED, quick_folder
from footfall.lab.ledger import read_ledger, visible_ledger
from footfall.lab.recipe import Entry, Outcome
from footfall.lab.runner import Unit, log_seed, rows_of, spread, spread_on, units_of
from footfall.scale import RayWorkers
from footfall.store import Run
from footfall.terminal import Progress


@dataclass
class Campaign:
    """Recipes with their opened runs, and so many seeds a look, from `seed` on; `found` and `failed` fill as it goes."""

    entries: Mapping[str, Entry]
    runs: Mapping[str, Run]
    counts: Sequence[int]
    """Seeds of each look; the last one is the budget."""
    seed: int = 0
    quick: bool = False
    """Nothing but the smoke test of each."""
    recorded: bool = False
    """With the quick outcomes that a record needs, first of all."""
    workers: int = 1
    device: str = "cpu"
    minutes: float | None = None
    """Begin nothing new after so many."""
    cluster: RayWorkers | None = None
    found: dict[str, dict[int, Outcome]] = field(init=False)
    """By recipe and seed."""
    failed: set[str] = field(init=False, default_factory=set)
    """Recipes that broke beside others; alone, a recipe raises."""

    def __post_init__(self) -> None:
        self.found = {name: {} for name in self.entries}

    def decided(self) -> Iterator[str]:
        """Names of recipes, each as soon as all its claims are decided or its last look is there."""
        begun, left = time.monotonic(), self.minutes
        waiting = self._first_look()
        stored = {unit.path for unit in waiting if unit.path.exists()}
        with Progress("seeds", len(waiting)) as progress:
            while waiting and (left is None or left > 0):
                for unit, measured in self._measured(waiting, left):
                    name = unit.entry.recipe.name
                    progress.advance(1)
                    if unit.trial.quick != self.quick:
                        continue
                    if unit.path not in stored:
                        log_seed(self.runs[name], unit.trial.seed, measured)
                    self.found[name][unit.trial.seed] = measured
                    if (count := len(self.found[name])) not in self.counts:
                        continue
                    if count == self.counts[-1] or self._is_decided(name):
                        yield name
                        continue
                    more = self._next_look(name, count)
                    stored |= {unit.path for unit in more if unit.path.exists()}
                    waiting.extend(more)
                    progress.grow(len(more))
                if self.cluster is None:
                    return  # what was put there meanwhile is done as well, or the time is over
                left = None if self.minutes is None else self.minutes - (time.monotonic() - begun) / 60

    def _measured(self, waiting: deque[Unit], minutes: float | None) -> Iterator[tuple[Unit, Outcome]]:
        """Each unit as soon as it is measured. One broken recipe must not cost the rest of a long run."""
        if self.cluster is None:
            done = spread(waiting, self.workers, minutes)
        else:
            done = spread_on(self.cluster, waiting, self._log, minutes)
        for unit, outcome in done:
            try:
                measured = outcome()
            except Exception:
                if len(self.runs) == 1:
                    raise
                traceback.print_exc()
                self.failed.add(unit.entry.recipe.name)
                continue
            yield unit, measured

    def _first_look(self) -> deque[Unit]:
        """In the order they are begun: the quick outcomes that a record needs, then recipe by recipe, the cheapest first."""
        rows = read_ledger(checkout) if (checkout := visible_ledger()) else []
        seconds = {row["name"]: row["cost"]["seconds"] / row["seeds"] for row in rows}
        ordered = sorted(self.entries, key=lambda name: seconds.get(name, math.inf))
        full = [unit for name in ordered for unit in self._seeds(name, 0, self.counts[0])]
        if self.minutes is not None:
            full.sort(key=lambda unit: unit.trial.seed != self.seed)
        return deque([unit for name in ordered if self.recorded for unit in self._quick(name)] + full)

    def _next_look(self, name: str, count: int) -> list[Unit]:
        return self._seeds(name, count, self.counts[self.counts.index(count) + 1])

    def _seeds(self, name: str, start: int, end: int) -> list[Unit]:
        seeds = range(self.seed + start, self.seed + end)
        return units_of(self.entries[name], seeds, self.runs[name].folder, self.quick, device=self.device)

    def _quick(self, name: str) -> list[Unit]:
        entry = self.entries[name]
        folder = quick_folder(entry, self.runs[name].folder.parent)
        return units_of(entry, [QUICK_SEED], folder, quick=True, device=self.device)

    def _is_decided(self, name: str) -> bool:
        """Whether no claim that seeds can decide is open."""
        outcomes = self.found[name]
        now = rows_of(self.entries[name], [outcomes[seed] for seed in sorted(outcomes)])
        return not any(row["verdict"] == "undecided" and row["tier"] == "lab" for row in now)

    def _log(self, event: str, recipe: str | None = None, **said: Any) -> None:
        for run in self.runs.values() if recipe is None else [self.runs[recipe]]:
            run.log(event, **said)
