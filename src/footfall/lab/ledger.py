"""The ledger: what every claim gave, as rows of one JSON file that is committed with the code.

A row is stale when the figures change, not when a file does. What can be said at sight, without running anything:

    current     the code is the one that gave the row, or one that was seen to give the same figures
    unchecked   it is another, and the quick outcome has yet to be compared (`footfall.lab.runner`)
    stale       the row has a fault (its claim is stated otherwise, it was edited by hand, rows are computed otherwise
                now), or the code changed and no outcome was recorded

A verdict comes from how sure the effect is, over seeds and over problems.
Seed s of G gives paired differences d_sp (method − baseline on problem p), with the mean d_s. The effect is the mean of
the d_s. Its variance has up to three estimates, each a sum over clusters of deviations e_sp = d_sp − effect:

    V_seeds     = var(d_s) / G, with G − 1 degrees of freedom
    V_problems  = clusters are problems (one that comes back under several seeds is one cluster)
    V_cells     = clusters are single differences
    V           = V_seeds + max(0, V_problems − V_cells)             (two-way clustering)

If every seed draws its own problems, V_problems = V_cells and V = V_seeds: the d_s already vary by their problems as well
as by sampling and training. If seeds share a fixed set of problems, the d_s move together and V_problems − V_cells adds
what they hide. The interval is

    effect ± max( t(G − 1) √V ,  1.96 √V_problems )

where the second term keeps five seeds that agree by luck from making the interval too narrow, and is the whole
interval when there is one seed. In simulation it covers the truth 95 to 98 times in 100. The usual two-stage bootstrap
(seeds, then problems within) does so 84 times with five seeds that differ, and 64 times when they share their problems.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np

from footfall.formats import atomic_write
from footfall.lab.fingerprint import Kept, Records, figures_hash, fingerprint, locked
from footfall.lab.recipe import Claim, Entry, Outcome, Recipe
from footfall.metrics.intervals import Floats, Interval, t_quantile
from footfall.types import Cost

Verdict = Literal["holds", "too close", "does not hold"]
_Z95 = 1.959963984540054


def effect(differences: Sequence[Sequence[float]], problems: Sequence[Sequence[str]] | None = None) -> Interval:
    """The mean effect with its 95% interval from each seed's paired differences.

    `problems` names the problem of each difference where seeds have problems in common; without it all are different.
    """
    seeds = [np.asarray(given, dtype=np.float64) for given in differences]
    if not seeds or any(not len(d) for d in seeds):
        raise ValueError("an effect needs at least one seed, and at least one difference a seed")
    if len(seeds) == 1 and len(seeds[0]) == 1:
        raise ValueError("one seed with one figure has no interval: run more seeds, or measure problem by problem")
    means_G = np.array([d.mean() for d in seeds])
    value = float(means_G.mean())
    shares = [(d - value) / (len(d) * len(seeds)) for d in seeds]
    of_problems, of_cells = _problem_variances(np.concatenate(shares), problems)
    half = _Z95 * math.sqrt(of_problems)
    if len(seeds) > 1:
        over_seeds = float(means_G.var(ddof=1)) / len(seeds) + max(0.0, of_problems - of_cells)
        half = max(half, t_quantile(len(seeds) - 1) * math.sqrt(over_seeds))
    return Interval(value, value - half, value + half)


def _problem_variances(shares_C: Floats, problems: Sequence[Sequence[str]] | None) -> tuple[float, float]:
    """V_problems and V_cells."""
    if problems is None:
        return _cluster_variance(shares_C), _cluster_variance(shares_C)
    names = [name for seed in problems for name in seed]
    if len(names) != len(shares_C):
        raise ValueError(f"{len(names)} problems are named for {len(shares_C)} differences")
    _, problem_C = np.unique(names, return_inverse=True)
    return _cluster_variance(np.bincount(problem_C, weights=shares_C).astype(np.float64)), _cluster_variance(shares_C)


def _cluster_variance(sums_K: Floats) -> float:
    """Σ_k (sum of cluster k)² · K / (K − 1); a single cluster says nothing."""
    k = len(sums_K)
    return float(np.sum(sums_K**2)) * k / (k - 1) if k > 1 else 0.0


def decide(found: Interval, direction: Literal["higher", "lower"], margin: float = 0.0) -> Verdict:
    """`holds` if the whole interval wins by more than `margin`, `does not hold` if none of it does."""
    low, high = (found.low, found.high) if direction == "higher" else (-found.high, -found.low)
    if low > margin:
        return "holds"
    return "does not hold" if high < margin else "too close"


SHIPPED = Path(__file__).with_name("ledger.json")
"""Where a wheel has the ledger."""
Status: TypeAlias = Literal["current", "unchecked", "stale", "cannot tell"]

_DIRECTIONS: tuple[Literal["higher", "lower"], ...] = ("higher", "lower")


class Row(TypedDict):
    """One claim with its result; a recipe with several claims has several rows of one name."""

    name: str
    claim: str
    world: str
    metric: str
    direction: Literal["higher", "lower"]
    baseline: str
    method: str
    effect: float
    """method − baseline, in units of the metric."""
    ci95: list[float]
    seeds: int
    cost: dict[str, float]
    """Of all seeds and both arms together; `seconds` is wall clock."""
    verdict: Verdict
    scale: str
    version: str


class Line(NamedTuple):
    """A claim as the ledger shows it. Without a row it was not run."""

    entry: Entry
    claim: Claim
    row: Row | None
    status: Status = "current"

    @property
    def verdict(self) -> str:
        """What the row says, or that there is none."""
        return "not run" if self.row is None else self.row["verdict"]

    @property
    def stale(self) -> bool:
        """Whether the code gives other figures than the row has."""
        return self.status == "stale"


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


def row_hash(row: Row) -> str:
    """What a row is known by: any edit of any field changes it."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def statistics_hash() -> str:
    """A hash of the rows that made-up outcomes give: it changes when rows are computed otherwise, not when code is moved.

    The outcomes have five seeds with problems of their own, of unequal number, five with the same problems, five with a
    single figure and one seed alone; the claims go both ways, with and without a margin, and end in every verdict.
    """

    def outcome(seed: int, size: int, same: bool) -> Outcome:
        base = [(7 * seed + 3 * p * p) % 11 / 10 for p in range(size)]
        arms = {
            name: [v + shift + (5 * seed + 2 * p) % 7 / 10 for p, v in enumerate(base)]
            for name, shift in shifts.items()
        }
        cost = Cost(prompt_tokens=seed, generated_tokens=2 * size, flops=1.5 * seed, seconds=0.5, calls=size)
        return Outcome({"base": base, **arms}, cost, tuple(f"p{k}" for k in range(size)) if same else ())

    shifts = {"much less": -2.0, "like it": -0.3, "more": 0.4}
    claims = tuple(
        Claim("c", "m", direction, "base", method, margin=margin, beside=("more",))
        for direction in _DIRECTIONS for method in shifts for margin in (0.0, -0.5, 0.5)
    )  # fmt: skip
    recipe = Recipe("made-up", "p", None, 2000, "s", "w", "Scale.", claims)
    sizes: list[tuple[list[int], bool]] = [([4, 6, 5, 6, 4], False), ([6] * 5, True), ([1] * 5, False), ([8], False)]
    trials = [[outcome(seed, size, same) for seed, size in enumerate(given)] for given, same in sizes]
    return figures_hash([dict(row_of(recipe, claim, seeds, "")) for seeds in trials for claim in claims])


def visible_ledger() -> Path | None:
    """The checkout's ledger, or the one that came with the wheel."""
    return checkout_ledger() or (SHIPPED if SHIPPED.exists() else None)


def checkout_ledger() -> Path | None:
    """`docs/ledger.json` of the checkout that this package is run from; `None` if it is installed elsewhere."""
    root = Path(__file__).resolve().parents[3]
    here = (root / "pyproject.toml").is_file() and (root / "docs").is_dir()
    return root / "docs" / "ledger.json" if here else None


def read_ledger(path: Path) -> list[Row]:
    """The rows of a ledger, none if there is no file yet; a row that lacks a field is an error that names it."""
    if not path.exists():
        return []
    try:
        rows: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if not isinstance(rows, list):
        raise ValueError(f"{path}: expected a list of rows, found {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        given = row.keys() if isinstance(row, dict) else set()
        missing = sorted(Row.__annotations__.keys() - given) + sorted(given - Row.__annotations__.keys())
        if missing:
            raise ValueError(f"{path}: row {number} lacks or should not have the field {missing[0]!r}")
    return rows


def record(path: Path, rows: Sequence[Row]) -> None:
    """Put rows in place of the ones of the same names; rows of one name stay together, names in order."""
    with locked(path.parent):
        names = {row["name"] for row in rows}
        kept = [row for row in read_ledger(path) if row["name"] not in names]
        merged = sorted([*kept, *rows], key=lambda row: row["name"])
        with atomic_write(path) as stream:
            stream.write((json.dumps(merged, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def lines(
    entries: Sequence[Entry],
    rows: Sequence[Row],
    outcomes: Mapping[str, Kept] | None = None,
    found: Mapping[str, Status] | None = None,
) -> list[Line]:
    """Every claim of every recipe with its row. A row whose recipe is gone is an error: it must go too.

    `found` is what a check found of recipes, by name; the others are looked at with what is remembered of their `outcomes`.
    """
    known = {entry.recipe.name for entry in entries}
    orphans = [row["name"] for row in rows if row["name"] not in known]
    if orphans:
        raise ValueError(f"the ledger has a row of {orphans[0]!r}, but there is no such recipe; remove the row")
    shown: list[Line] = []
    for entry in entries:
        name, code = entry.recipe.name, fingerprint(entry.path)
        kept, given = (outcomes or {}).get(name), (found or {}).get(name)
        wrong = faults(entry, rows, kept)
        for claim, row in claims_with_rows(entry, rows):
            at_sight: Status = "stale" if claim.claim in wrong else status_of_code(row, code, kept)
            shown.append(Line(entry, claim, row, given or at_sight))
    return shown


def claims_with_rows(entry: Entry, rows: Sequence[Row]) -> list[tuple[Claim, Row | None]]:
    """Each claim of a recipe and the row that answers it."""
    own = {row["claim"]: row for row in rows if row["name"] == entry.recipe.name}
    return [(claim, own.get(claim.claim)) for claim in entry.recipe.claims]


def faults(entry: Entry, rows: Sequence[Row], kept: Kept | None) -> dict[str, str]:
    """What is wrong with rows of a recipe whatever its code gives, by claim."""
    name, own = entry.recipe.name, [row for row in rows if row["name"] == entry.recipe.name]
    stated = {claim.claim: claim for claim in entry.recipe.claims}
    found: dict[str, str] = {}
    for row in own:
        claim = row["claim"]
        if claim not in stated:
            found[claim] = (
                f"no claim of the recipe has these words; make the rows anew: footfall lab run {name} --record"
            )
        elif is_restated(stated[claim], row):
            found[claim] = "the recipe states it otherwise now: footfall lab ledger --update"
        elif kept and row_hash(row) not in kept["rows"]:
            found[claim] = f"edited by hand; take the edit back, or make it anew: footfall lab run {name} --record"
        elif kept and kept["statistics"] != statistics_hash():
            found[claim] = "rows are computed from outcomes otherwise now: footfall lab ledger --update"
    if kept and len(own) < len(kept["rows"]):
        gone = [claim for claim in stated if claim not in {row["claim"] for row in own}]
        found |= dict.fromkeys(gone, f"its row was removed; make it anew: footfall lab run {name} --record")
    return found


def status_of_code(row: Row | None, code: str, kept: Kept | None) -> Status:
    """What the code alone says of a row; `code` is the fingerprint of its recipe now."""
    records: Records = kept["environments"] if kept else {}
    if row is None or code in {row["version"].partition("+")[2], *(record["code"] for record in records.values())}:
        return "current"
    return "unchecked" if records else "stale"


def is_restated(claim: Claim, row: Row) -> bool:
    """Whether the recipe now compares other arms, by another metric or margin, under the same words."""
    now = (metric_of(claim), claim.direction, claim.baseline, claim.method)
    return now != (row["metric"], row["direction"], row["baseline"], row["method"])


def metric_of(claim: Claim) -> str:
    """The metric with the claim's margin, as rows have it."""
    return claim.metric + (f", margin {claim.margin:+g}" if claim.margin else "")
