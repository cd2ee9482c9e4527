"""Which search method at which budget: every searcher at several widths, on worlds and with judges of known quality.

One unit is one method at one place of its dial, on one world with one judge under one seed. Its figures are a small file in
the run's folder, made whole or not at all, so a run that was killed goes on where it stopped. All methods of a world and seed
get the same problems, the same policy with the same random numbers, and a judge that says the same of the same text.
"""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.bench._frontier import DIGITS, kept
from footfall.bench._search_advice import advice
from footfall.bench._search_judges import AGGREGATIONS, Priced, exact_values, noisy_values, prm_of
from footfall.bench._search_methods import SINGLE, Row, chosen, unmeasured
from footfall.bench._search_page import BLOCKS, HEAD, chart, chart_file, costs_page, rows
from footfall.bench._search_points import NO_JUDGE, Plan, Point, SearchCosts, World, frontier
from footfall.policy.protocol import SamplingParams
from footfall.progress import Progress
from footfall.registry import create
from footfall.search.budget import tokens_of
from footfall.search.searcher import Searcher
from footfall.store import Run
from footfall.types import Judge, Problem, SearchResult, content_key

__all__ = [
    "BLOCKS", "HEAD", "Plan", "Point", "SearchCosts", "World", "advice", "chart", "chart_file", "costs_page", "frontier",
    "measure", "rows", "run_plan",
]  # fmt: skip

_MAX_TOKENS = 256
"""Of one sample, be it a step or a solution: more than any trace of these worlds has."""


class _Unit(NamedTuple):
    """A method at one place of its dial."""

    row: Row
    budget: int


def run_plan(plan: Plan, run: Run, workers: int = 1) -> SearchCosts:
    """Measure all units that are not there yet, worlds and seeds side by side in `workers`, then put them together."""
    units = _units(plan)
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    found: defaultdict[tuple[str, str], list[dict[_Unit, dict[str, Any]]]] = defaultdict(list)
    with Progress("search", len(plan.settings()) * plan.seeds * len(units)) as progress, _Pool(workers) as pool:
        groups = [_Group(plan, run.folder, world, seed) for seed in seeds for world in plan.worlds]
        for group, _ in zip(groups, pool.each(_fill, groups), strict=True):
            for judge in [judge for world, judge in plan.settings() if world == group.world]:
                done: dict[_Unit, dict[str, Any]] = {}
                for unit, figures in group.measured(units, judge):
                    done[unit] = figures
                    progress.advance(1)
                found[group.world, judge].append(done)
    return _together(plan, units, found)


def _units(plan: Plan) -> list[_Unit]:
    return [_Unit(row, budget) for row in chosen(plan.methods) for budget in row.budgets if budget <= plan.most]


def _fill(group: _Group) -> None:
    """Write the files of a world and seed, for somebody else to read."""
    for judge in [judge for world, judge in group.plan.settings() if world == group.world]:
        for _ in group.measured(_units(group.plan), judge):
            pass


class _Pool:
    """Other processes, or none."""

    def __init__(self, workers: int) -> None:
        # Not forked: a copy of a process that has threads may hang.
        context = multiprocessing.get_context("spawn")
        self.executor = ProcessPoolExecutor(workers, context) if workers > 1 else None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self.executor is not None:
            self.executor.shutdown(cancel_futures=True)

    def each(self, work: Callable[[_Group], None], groups: Sequence[_Group]) -> Iterable[None]:
        """As soon as each is done, in order. Without other processes nothing is done here: whoever reads makes it."""
        return [None] * len(groups) if self.executor is None else self.executor.map(work, groups)


@dataclass
class _Group:
    """One world under one seed. What judges said of a text is remembered for all methods."""

    plan: Plan
    folder: Path
    world: str
    seed: int

    @cached_property
    def place(self) -> Any:
        return create("world", self.world)

    @cached_property
    def scripted(self) -> Any:
        return create("policy", f"scripted-{self.world}")

    @cached_property
    def memory(self) -> defaultdict[str, dict[str, float | None]]:
        return defaultdict(dict)

    @cached_property
    def problems(self) -> list[Problem]:
        found: list[Problem] = self.place.problems(self.plan.problems, self.seed, split="test")
        return found

    @cached_property
    def embedded(self) -> Any:
        return create("policy", "embedded")

    def policy(self, judge: str) -> Any:
        return self.embedded if judge == "prm" else self.scripted

    def measured(self, units: Sequence[_Unit], judge: str) -> Iterator[tuple[_Unit, dict[str, Any]]]:
        """Every unit with its figures. A method that uses no judge is measured once for all judges of a policy."""
        for unit in units:
            method = unit.row.make(unit.budget, AGGREGATIONS[judge])
            policy = self.policy(judge)
            named = judge if method.judged else f"{NO_JUDGE}-{'embedded' if judge == 'prm' else 'scripted'}"
            key = content_key(
                method.name, policy.name, named, self.plan.problems, self.plan.reread, self.plan.prm if judge == "prm" else None
            )  # fmt: skip
            name = f"{self.seed:04d}-{unit.row.name}-{unit.budget}-{key[:12]}.json"
            path = self.folder / "units" / self.world / named / name
            yield unit, kept(path, lambda unit=unit: self._figures(unit, judge))  # type: ignore[misc]

    def _figures(self, unit: _Unit, judge: str) -> dict[str, Any]:
        lacks = unit.row.lacks(judge != "prm")
        if lacks is not None:
            return {"lacks": lacks}
        method = unit.row.make(unit.budget, AGGREGATIONS[judge])
        separator = self.place.prefix(self.problems[0]).separator
        params = SamplingParams(seed=self.seed, max_tokens=_MAX_TOKENS)
        said = self._judge(judge) if method.judged else None
        results = Searcher(self.policy(judge), said, method, params=params, separator=separator).solve(self.problems)
        return {"judged": method.judged, **measure(results)}

    def _judge(self, judge: str) -> Judge:
        if judge == "prm":
            return prm_of(self.plan.prm)
        values = exact_values(self.scripted) if judge == "exact" else noisy_values(self.place, self.seed)
        return Priced(f"{judge}-{self.world}", values, self.memory[judge], self.plan.reread)


def measure(results: Sequence[SearchResult]) -> dict[str, list[int]]:
    """The figures of one method's answers, a problem each. A call that failed is an error in the setting, and raised."""
    failed = next((d for r in results for d in r.decisions if d.what == "failed" and not d.nodes), None)
    if failed is not None:
        raise RuntimeError(f"a search failed: {failed.why}")
    return {
        "right": [int(r.chosen is not None and bool(r.chosen.correct)) for r in results],
        "answered": [int(r.answer is not None) for r in results],
        "policy_tokens": [tokens_of(r.policy_cost) for r in results],
        "judge_tokens": [tokens_of(r.judge_cost) for r in results],
    }


def _together(
    plan: Plan,
    units: Sequence[_Unit],
    found: Mapping[tuple[str, str], Sequence[Mapping[_Unit, Mapping[str, Any]]]],
) -> SearchCosts:
    points: list[Point] = []
    lacking: dict[str, str] = {}
    worlds: dict[str, World] = {}
    for (world, judge), seeds in found.items():
        here = []
        for unit in units:
            figures = [seed[unit] for seed in seeds]
            if "lacks" in figures[0]:
                lacking[unit.row.name] = figures[0]["lacks"]
            else:
                here.append(_point(world, judge, unit, figures))
        points += frontier(here)
        single = next(point for point in here if point.method == SINGLE)
        policy = "embedded" if judge == "prm" else f"scripted-{world}"
        worlds[f"{world}/{judge}"] = World(policy, single.accuracy.value, single.tokens)
    applied = {point.method for point in points}
    lacking = {name: why for name, why in lacking.items() if name not in applied}
    return SearchCosts(plan, worlds, points, lacking, unmeasured())


def _point(world: str, judge: str, unit: _Unit, seeds: Sequence[Mapping[str, Any]]) -> Point:
    def mean(name: str) -> float:
        return round(fmean(number for seed in seeds for number in seed[name]), DIGITS)

    return Point(
        world, judge, unit.row.name, bool(seeds[0]["judged"]), unit.row.dial, unit.budget,
        tuple(number for seed in seeds for number in seed["right"]), mean("answered"), mean("policy_tokens"),
        mean("judge_tokens"),
    )  # fmt: skip
