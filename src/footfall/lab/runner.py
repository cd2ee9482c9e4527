"""Running a recipe: each seed is one unit, stored when it is done, so a killed run goes on where it stopped."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from footfall.lab.fingerprint import version_of
from footfall.lab.ledger import Row, metric_of
from footfall.lab.outcomes import environment
from footfall.lab.recipe import Claim, Entry, Outcome, Recipe, Trial, load_measure
from footfall.lab.statistics import decide, effect
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


def run_recipe(
    entry: Entry, seeds: Sequence[int], folder: Path, quick: bool = False, shared: Path | None = None
) -> Finding:
    """Measure on every seed that is not stored yet, then decide each claim.

    What recipes have in common is kept in `shared`; None: in the folder "shared" beside the run.
    """
    recipe, version = entry.recipe, version_of(entry.path)
    with _opened(entry, folder, quick) as run:
        measured = _outcomes(run, entry, seeds, quick, shared)
        outcomes = list(measured.values())
        finding = Finding(
            rows=[row_of(recipe, claim, outcomes, version) for claim in recipe.claims],
            means={arm: fmean(fmean(o.values(arm)) for o in outcomes) for arm in outcomes[0].arms},
            cost=Cost.total(o.cost for o in outcomes),
            folder=folder,
            outcomes=measured,
        )
        run.finish({"rows": finding.rows, "means": finding.means, "seeds": list(seeds), "quick": quick})
    return finding


def measure_seed(entry: Entry, seed: int, folder: Path, quick: bool = False, shared: Path | None = None) -> Outcome:
    """What one seed gives, measured now if it is not stored."""
    with _opened(entry, folder, quick) as run:
        return _outcomes(run, entry, [seed], quick, shared)[seed]


def _opened(entry: Entry, folder: Path, quick: bool) -> Run:
    return Run(folder, "lab run", {"recipe": entry.recipe.name, "quick": quick})


def _outcomes(run: Run, entry: Entry, seeds: Sequence[int], quick: bool, shared: Path | None) -> dict[int, Outcome]:
    shared = run.folder.parent / "shared" if shared is None else shared
    found: dict[int, Outcome] = {}
    with Progress(entry.recipe.name, len(seeds)) as progress:
        for seed in seeds:
            path = _measured(run, entry, Trial(seed, quick, run.folder, shared))
            found[seed] = Outcome.from_dict(json.loads(path.read_text(encoding="utf-8")))
            progress.advance(1)
    return found


def _measured(run: Run, entry: Entry, trial: Trial) -> Path:
    """The file of a seed's outcome, made now if it is not there. Other code or another environment is another file."""
    seed, version = trial.seed, version_of(entry.path)
    key = content_key(entry.recipe.name, version, seed, trial.quick, environment())[:16]
    path = run.folder / "seeds" / f"{seed:04d}-{key}.json"
    if path.exists():
        return path
    from footfall.loading import single_threaded

    scratch = run.folder / "work" / path.stem
    for needed in (path.parent, scratch):
        needed.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    # Figures must not depend on how many cores a machine has.
    with single_threaded():
        outcome = load_measure(entry)(trial._replace(folder=scratch))
    seconds = round(time.monotonic() - begun, 3)
    outcome = replace(outcome, cost=replace(outcome.cost, seconds=seconds))
    write_json(path, {"seed": seed, "version": version, **outcome.to_dict()})
    run.log("stage", stage=f"seed {seed}", seconds=seconds, cost=outcome.cost.to_dict())
    shutil.rmtree(scratch)
    return path


def row_of(recipe: Recipe, claim: Claim, outcomes: Sequence[Outcome], version: str) -> Row:
    """The ledger's row of one claim."""
    fixed = all(o.problems for o in outcomes)
    found = effect([o.differences(claim) for o in outcomes], [o.problems for o in outcomes] if fixed else None)
    shown = (claim.baseline, claim.method, *claim.beside)
    means = ", ".join(f"{arm} {fmean(fmean(o.values(arm)) for o in outcomes):.4g}" for arm in shown)
    return Row(
        name=recipe.name,
        claim=claim.claim,
        world=recipe.world,
        metric=metric_of(claim),
        direction=claim.direction,
        baseline=claim.baseline,
        method=claim.method,
        effect=round(found.value, 6),
        ci95=[round(found.low, 6), round(found.high, 6)],
        seeds=len(outcomes),
        cost=Cost.total(o.cost for o in outcomes).to_dict(),
        verdict=decide(found, claim.direction, claim.margin),
        scale=f"{recipe.scale} Means: {means}.",
        version=version,
    )
