"""Which labelling method at which budget: every labeller at several budgets on worlds whose truth is known.

One unit is one method with one budget on one world under one seed. Its figures are a small file in the run's folder, made
whole or not at all, so a run that was killed goes on where it stopped. All methods of a world and seed label the same
traces with the same rollouts, out of one store that charges each method for all it uses.
"""

from __future__ import annotations

import inspect
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.label.stored_policy import StoredPolicy
from footfall.policy.protocol import SamplingParams
from footfall.progress import Progress
from footfall.registry import create, load
from footfall.store import Run
from footfall.studies._labels_figures import FIGURES, SHARES, Known, measure, measure_own, per_1000
from footfall.studies._labels_methods import Method, chosen, unmeasured
from footfall.studies._labels_points import LabelCosts, Plan, Point, World, frontier
from footfall.studies._labels_setting import Setting
from footfall.studies._labels_trees import OwnTraces
from footfall.studies._workers import Pool
from footfall.studies.frontier import DIGITS, kept, over_seeds
from footfall.types import content_key

_ROLLOUT_SEED = 100_000  # apart from the seeds of traces: a rollout of a whole problem must not be its trace again
_CHUNK = 8192


class _Unit(NamedTuple):
    """A method with a budget; `place` is that in the table."""

    place: int
    method: Method
    budget: float


def run_plan(plan: Plan, run: Run, workers: int = 1) -> LabelCosts:
    """Measure all units that are not there yet, worlds and seeds side by side in `workers`, then put them together."""
    units = _units(plan)
    worlds: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    found: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    groups = [_Group(plan, run.folder, world, seed) for seed in seeds for world in plan.worlds]
    for world in plan.worlds:
        _policy(world, plan.recover)  # that cannot be made is said before any process starts
    with Progress("labels", len(groups) * len(units)) as progress, Pool(workers) as pool:
        for group, _ in zip(groups, pool.each(_fill, groups), strict=True):
            worlds[group.world].append(group.about())
            for unit, figures in group.measured(units):
                found[group.world, unit.place].append(figures)
                progress.advance(1)
            group.close()
    return _together(plan, units, worlds, found)


def _units(plan: Plan) -> list[_Unit]:
    pairs = [(method, budget) for method in chosen(plan.methods) for budget in method.budgets]
    return [_Unit(place, method, budget) for place, (method, budget) in enumerate(pairs)]


def _fill(group: _Group) -> None:
    """Write the files of a world and seed, for somebody else to read."""
    group.about()
    for _ in group.measured(_units(group.plan)):
        pass
    group.close()


@dataclass
class _Group:
    """One world under one seed. Traces are drawn, and rollouts stored, only if a unit is missing."""

    plan: Plan
    folder: Path
    world: str
    seed: int

    @cached_property
    def writer(self) -> Any:
        return _policy(self.world, self.plan.recover)

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts" / f"{self.world}-{self.seed}"

    @cached_property
    def setting(self) -> Setting:
        stored = StoredPolicy(self.writer, self.rollouts, charge="always", chunk=_CHUNK)
        params = SamplingParams(seed=_ROLLOUT_SEED + self.seed)
        return Setting(self.world, create("world", self.world), stored, params, self.plan.price, {})

    @cached_property
    def known(self) -> Known:
        world: Any = self.setting.world
        traces = [trace for _, trace in world.traces(self.writer, self.plan.traces, seed=self.seed)]
        return Known(self.setting, traces, self.writer)

    def measured(self, units: Sequence[_Unit]) -> Iterator[tuple[_Unit, dict[str, Any]]]:
        """Every unit with its figures, dear budgets first: they fill the store for the others."""
        for unit in sorted(units, key=lambda unit: -unit.budget):
            judge = unit.method.make(self.setting, unit.budget).name
            name = f"{unit.method.name}-{unit.budget:g}"
            # What a figure means is part of the key: one that was kept under another meaning is measured anew.
            yield unit, self._kept(name, [judge, unit.method.threshold, FIGURES], partial(self._figures, unit))

    def about(self) -> dict[str, Any]:
        """What the traces are like."""
        return self._kept("traces", [], self._about)

    def close(self) -> None:
        """Drop the rollouts: all figures made of them are kept."""
        shutil.rmtree(self.rollouts, ignore_errors=True)

    def _kept(self, name: str, made_by: Sequence[object], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What an earlier run wrote, or what is made now and written whole."""
        key = content_key(name, made_by, self.writer.name, self.plan.traces, self.seed)[:16]
        path = self.folder / "units" / self.world / f"{self.seed:04d}-{name}-{key}.json"
        return kept(path, make)

    def _figures(self, unit: _Unit) -> dict[str, Any]:
        lacks = unit.method.lacks(self.setting)
        if lacks is not None:
            return {"lacks": lacks}
        judge = unit.method.make(self.setting, unit.budget)
        if isinstance(judge, OwnTraces):
            return measure_own(self.known, unit.method, judge) or {"lacks": "no trace of its own is clean"}
        return measure(self.known, unit.method, judge.judge(self.known.traces))

    def _about(self) -> dict[str, Any]:
        traces = self.known.traces
        return {
            "policy": self.writer.name,
            "steps": fmean(len(trace.steps) for trace in traces),
            "tokens": fmean(trace.cost.generated_tokens for trace in traces),
            "errors": fmean(error >= 0 for error in self.known.first_errors),
        }


def _policy(world: str, recover: float | None) -> Any:
    """The scripted policy of a world."""
    name = f"scripted-{world}"
    if recover is None:
        return create("policy", name)
    if "recover" not in inspect.signature(load("policy", name)).parameters:
        raise ValueError(f"the policy {name!r} takes no recover")
    return create("policy", name, recover=recover)


def _together(
    plan: Plan,
    units: Sequence[_Unit],
    worlds: Mapping[str, Sequence[Mapping[str, Any]]],
    found: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
) -> LabelCosts:
    points: list[Point] = []
    lacking: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for world in plan.worlds:
        here = []
        for unit in units:
            seeds = found[world, unit.place]
            lacks = next((seed["lacks"] for seed in seeds if "lacks" in seed), None)
            if lacks is None:
                here.append(_point(world, unit, seeds))
            elif unit.method.kind != "reference":
                lacking[unit.method.name][world] = lacks
        points += frontier(here)
    about = {
        name: World(
            seeds[0]["policy"], *(round(fmean(s[key] for s in seeds), DIGITS) for key in ("steps", "tokens", "errors"))
        )
        for name, seeds in worlds.items()
    }
    return LabelCosts(plan, about, points, dict(lacking), unmeasured())


def _point(world: str, unit: _Unit, seeds: Sequence[Mapping[str, Any]]) -> Point:
    method, rates = unit.method, [per_1000(seed) for seed in seeds]
    return Point(
        world, method.name, method.kind, method.dial, unit.budget,
        figures=over_seeds(seeds, tuple(FIGURES), SHARES),
        per_1000=over_seeds(rates, tuple(rates[0])),
        seeds=tuple(round(seed["first_error"], DIGITS) for seed in seeds),
    )  # fmt: skip
