"""Which search method at which budget: every searcher at several widths, on worlds and with judges of known quality.

One unit is one method at one place of its dial, on one world with one judge under one seed. Its figures are a small file in
the run's folder, made whole or not at all, so a run that was killed goes on where it stopped; so does the training of the PRM
that is the third judge. All methods of a world and seed get the same problems, the same policy with the same random numbers,
and a judge that says the same of the same text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from footfall.policy.protocol import SamplingParams
from footfall.progress import Progress
from footfall.registry import create
from footfall.search.budget import tokens_of
from footfall.search.method import Method
from footfall.search.priced import Priced, Reader
from footfall.search.revising import Reviser
from footfall.search.searcher import Searcher
from footfall.store import Run
from footfall.studies._search_judges import AGGREGATIONS, exact, noisy
from footfall.studies._search_methods import SINGLE, Row, chosen, unmeasured
from footfall.studies._search_points import NO_JUDGE, PRM, Plan, Point, SearchCosts, World, frontier
from footfall.studies._search_prms import Site, quality, trained
from footfall.studies._workers import Pool
from footfall.studies.frontier import DIGITS, kept
from footfall.types import Problem, SearchResult, content_key

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
    prms: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    with Progress("search", len(plan.settings()) * plan.seeds * len(units)) as progress, Pool(workers) as pool:
        groups = [Group(plan, run.folder, world, seed) for seed in seeds for world in plan.worlds]
        # Copies, one after another: what a group remembers (what judges said, a PRM) goes with it.
        for group, _ in zip(map(replace, groups), pool.each(_fill, groups), strict=True):
            for judge in plan.judges:
                done: dict[_Unit, dict[str, Any]] = {}
                for unit, figures in group.measured(units, judge):
                    done[unit] = figures
                    progress.advance(1)
                found[group.world, judge].append(done)
            if PRM in plan.judges:
                prms[group.world].append(group.prm_quality())
    return _together(plan, units, found, prms)


def _units(plan: Plan) -> list[_Unit]:
    return [_Unit(row, budget) for row in chosen(plan.methods) for budget in row.budgets if budget <= plan.most]


def _fill(group: Group) -> None:
    """Write the files of a world and seed, for somebody else to read."""
    for judge in group.plan.judges:
        for _ in group.measured(_units(group.plan), judge):
            pass
    if PRM in group.plan.judges:
        group.prm_quality()


@dataclass
class Group:
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
    def site(self) -> Site:
        return Site(self.place, self.scripted, self.seed, self.plan.prm_traces)

    @cached_property
    def prm(self) -> Reader:
        return trained(self.site, self._prm_folder)

    @property
    def _prm_folder(self) -> Path:
        return self.folder / "prms" / f"{self.world}-{self.seed:04d}-{self.plan.prm_traces}"

    def prm_quality(self) -> dict[str, Any]:
        return quality(self.site, self._prm_folder)

    def measured(self, units: Sequence[_Unit], judge: str) -> Iterator[tuple[_Unit, dict[str, Any]]]:
        """Every unit with its figures. A method that uses no judge is measured once for all."""
        for unit in units:
            method = unit.row.make(unit.budget, AGGREGATIONS[judge])
            named = judge if method.judged else NO_JUDGE
            trained_on = self.plan.prm_traces if named == PRM else None
            key = content_key(method.name, self.scripted.name, named, self.plan.problems, self.plan.reread, trained_on)
            name = f"{self.seed:04d}-{unit.row.name}-{unit.budget}-{key[:12]}.json"
            path = self.folder / "units" / self.world / named / name
            yield unit, kept(path, lambda method=method: self.figures(method, judge))  # type: ignore[misc]

    def figures(self, method: Method, judge: str) -> dict[str, Any]:
        separator = self.place.prefix(self.problems[0]).separator
        params = SamplingParams(seed=self.seed, max_tokens=_MAX_TOKENS)
        said = self._judge(judge) if method.judged else None
        # The critic of methods that have one is the policy itself, so no method has a better writer than another.
        critic = Reviser(self.scripted, self.problems, separator)
        searcher = Searcher(
            self.scripted, said, method, params=params, separator=separator, helpers={"critic": critic}
        )  # fmt: skip
        return {"judged": method.judged, **measure(searcher.solve(self.problems))}

    def _judge(self, judge: str) -> Priced:
        """A new one a method: it has read nothing, but what any method was told of a text is known."""
        readers: dict[str, Callable[[], Reader]] = {
            "exact": lambda: exact(self.scripted, self.seed),
            "noisy": lambda: noisy(self.place, self.scripted, self.seed),
            PRM: lambda: self.prm,
        }
        return Priced(f"{judge}-{self.world}", readers[judge](), self.memory[judge], self.plan.reread)


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
    prms: Mapping[str, Sequence[Mapping[str, Any]]],
) -> SearchCosts:
    points: list[Point] = []
    worlds: dict[str, World] = {}
    for (world, judge), seeds in found.items():
        here = [_point(world, judge, unit, [seed[unit] for seed in seeds]) for unit in units]
        points += frontier(here)
        single = next(point for point in here if point.method == SINGLE)
        worlds[f"{world}/{judge}"] = World(f"scripted-{world}", single.accuracy.value, single.tokens)
    return SearchCosts(plan, worlds, points, prms, unmeasured())


def _point(world: str, judge: str, unit: _Unit, seeds: Sequence[Mapping[str, Any]]) -> Point:
    def mean(name: str) -> float:
        return round(fmean(number for seed in seeds for number in seed[name]), DIGITS)

    return Point(
        world, judge, unit.row.name, bool(seeds[0]["judged"]), unit.row.dial, unit.budget,
        tuple(number for seed in seeds for number in seed["right"]), mean("answered"), mean("policy_tokens"),
        mean("judge_tokens"), len(seeds),
    )  # fmt: skip
