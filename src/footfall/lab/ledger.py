"""The ledger: what every claim gave, as rows of one JSON file that is committed with the code.

A row is stale when the figures change, not when a file does. What can be said at sight, without running anything:

    current     the code is the one that gave the row, or one that was seen to give the same figures
    unchecked   it is another, and the quick outcome has yet to be compared (`footfall.lab.checking`)
    stale       the row has a fault (its claim is stated otherwise, it was edited by hand, rows are computed otherwise
                now), or the code changed and no outcome was recorded

How effect, interval and verdict come about is in `footfall.lab.verdicts`. A claim of tier "real" is not measured by its
recipe: its figures are in `recipes/real.json` with the command that gave them, since they take models and machines that a
recipe cannot ask for. Its interval is over problems; the verdict follows by the same rule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias, TypedDict, cast

from footfall.formats import atomic_write
from footfall.lab.fingerprint import Kept, Records, demand_kinds, figures_hash, fingerprint, locked, read_json
from footfall.lab.recipe import Claim, Entry, Outcome, Recipe
from footfall.lab.verdicts import ROOM, Verdict, decide, effect_by_looks, remarks, without_room
from footfall.metrics.intervals import Interval
from footfall.types import Cost

SHIPPED = Path(__file__).with_name("ledger.json")
"""Where a wheel has the ledger."""
Status: TypeAlias = Literal["current", "unchecked", "stale", "cannot tell"]

REAL = "real.json"
RELABELLED = "what header or stored figures say of the claim is stated otherwise now: footfall lab ledger --update"
RESCALED = "the recipe states another scale now, of which a quick outcome says nothing: footfall lab ledger --update"
_MEANS = " Means: "
"""Between a row's scale and the means of its arms."""
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
    main: bool
    """Whether it is the paper's main claim."""
    stand_in: str | None
    """What the paper measured instead, and why this stands for it; null: the paper's own comparison."""
    tier: Literal["lab", "real"]
    smallest_effect: float
    """In units of the metric, stated before the run (of amounts as a tenth of the baseline's)."""
    notes: list[str]
    """Arms at a ceiling or floor, a threshold that was not tuned, seeds that are left to run."""


class RealFigures(TypedDict):
    """What a claim of tier "real" gave, as `recipes/real.json` keeps it."""

    name: str
    claim: str
    world: str
    """Which benchmark or set of problems."""
    effect: float
    ci95: list[float]
    seeds: int
    """Trainings, or samplings, that the figures are means over."""
    means: dict[str, float]
    """By arm."""
    scale: str
    command: str


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
    def main(self) -> bool:
        """Whether it is the main claim of its paper."""
        return self.claim == self.entry.recipe.claims[0]

    @property
    def stale(self) -> bool:
        """Whether the code gives other figures than the row has."""
        return self.status == "stale"


def row_of(recipe: Recipe, claim: Claim, outcomes: Sequence[Outcome], version: str) -> Row:
    """The ledger's row of one claim."""
    fixed = all(o.problems for o in outcomes)
    found = effect_by_looks([o.differences(claim) for o in outcomes], [o.problems for o in outcomes] if fixed else None)
    value, low, high = (round(number, 6) for number in found)
    shown = (claim.baseline, claim.method, *claim.beside)
    means = {arm: fmean(fmean(o.values(arm)) for o in outcomes) for arm in shown}
    row = Row(
        name=recipe.name,
        claim=claim.claim,
        world=recipe.world,
        metric=metric_of(claim),
        direction=claim.direction,
        baseline=claim.baseline,
        method=claim.method,
        effect=value,
        ci95=[low, high],
        seeds=len(outcomes),
        cost=Cost.total(o.cost for o in outcomes).to_dict(),
        verdict="undecided",
        scale=f"{recipe.scale}{_MEANS}{_means_text(means)}.",
        version=version,
        main=True,
        stand_in=None,
        tier="lab",
        smallest_effect=claim.matters(means[claim.baseline]),
        notes=without_room(claim, means),
    )
    return labelled(recipe, claim, row)


def labelled(recipe: Recipe, claim: Claim, row: Row) -> Row:
    """The row with what the header says of the claim, and the verdict that follows from its interval: nothing is run."""
    matters = claim.stated_effect or row["smallest_effect"]
    verdict = decide(Interval(row["effect"], *row["ci95"]), claim.direction, claim.margin, matters)
    said = {
        "verdict": verdict,
        "main": claim == recipe.claims[0],
        "stand_in": claim.stand_in,
        "tier": claim.tier,
        "world": recipe.world if claim.tier == "lab" else row["world"],
        "smallest_effect": matters,
        "notes": [note for note in row["notes"] if note.startswith(ROOM)] + remarks(claim, row["seeds"], verdict),
    }
    return cast(Row, {**row, **said})


def real_figures(entry: Entry) -> dict[str, RealFigures]:
    """The stored figures of a recipe's claims of tier "real", by claim."""
    file = entry.path.with_name(REAL)
    return _read_real(file, file.stat().st_mtime_ns).get(entry.recipe.name, {}) if file.is_file() else {}


@lru_cache(maxsize=4)
def _read_real(file: Path, changed: int) -> dict[str, dict[str, RealFigures]]:
    found: dict[str, dict[str, RealFigures]] = {}
    for number, given in enumerate(json.loads(file.read_text(encoding="utf-8")), start=1):
        if set(given) != set(RealFigures.__annotations__):
            raise ValueError(
                f"{file}: entry {number} must have {', '.join(RealFigures.__annotations__)} and nothing else"
            )
        found.setdefault(given["name"], {})[given["claim"]] = given
    return found


def stated(entry: Entry, claim: Claim, row: Row | None) -> Row | None:
    """The row as header and stored figures have it now; None if there is nothing to make it from."""
    if claim.tier == "lab":
        return row and labelled(entry.recipe, claim, row)
    given = real_figures(entry).get(claim.claim)
    if given is None:
        return row
    made = Row(
        name=entry.recipe.name, claim=claim.claim, world=given["world"], metric=metric_of(claim), direction=claim.direction,
        baseline=claim.baseline, method=claim.method, effect=given["effect"], ci95=given["ci95"], seeds=given["seeds"],
        cost=Cost().to_dict(), verdict="undecided", scale=f"{given['scale']}{_MEANS}{_means_text(given['means'])}. "
        f"Command: `{given['command']}`.", version="stored", main=True, stand_in=None, tier="real",
        smallest_effect=claim.matters(given["means"][claim.baseline]), notes=without_room(claim, given["means"]),
    )  # fmt: skip
    return labelled(entry.recipe, claim, made)


def _means_text(means: Mapping[str, float]) -> str:
    return ", ".join(f"{arm} {mean:.4g}" for arm, mean in means.items())


def row_hash(row: Row) -> str:
    """What a row is known by: any edit of any field changes it."""
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def statistics_hash() -> str:
    """A hash of the rows that made-up outcomes give: it changes when rows are computed otherwise, not when code is moved.

    The outcomes have five seeds with problems of their own, of unequal number, five with the same problems, ten with a
    single figure (two looks), five of right and wrong, and one seed alone; the claims go both ways, by a rate and by an
    amount, with and without a margin, and end in every verdict.
    """

    def outcome(seed: int, size: int, same: bool) -> Outcome:
        base = [(7 * seed + 3 * p * p) % 11 / 10 for p in range(size)]
        arms = {"equal": base} | {
            name: [v + shift + (5 * seed + 2 * p) % 7 / 10 for p, v in enumerate(base)]
            for name, shift in shifts.items()
        }
        if size == 9:
            base, arms = [float(v > 0.5) for v in base], {n: [float(v > 0.9) for v in a] for n, a in arms.items()}
        cost = Cost(prompt_tokens=seed, generated_tokens=2 * size, flops=1.5 * seed, seconds=0.5, calls=size)
        return Outcome({"base": base, **arms}, cost, tuple(f"p{k}" for k in range(size)) if same else ())

    shifts = {"much less": -2.0, "like it": -0.3, "more": 0.4}
    ways = product(("accuracy", "m"), _DIRECTIONS, ("equal", *shifts), (0.0, -0.5, 0.5))
    claims = tuple(
        Claim(f"{metric} {margin}", metric, direction, "base", method, margin=margin, beside=("more",))
        for metric, direction, method, margin in ways
    )
    recipe = Recipe("made-up", "p", None, 2000, "s", "w", "Scale.", claims)
    sizes: list[tuple[list[int], bool]] = [
        ([4, 6, 5, 6, 4], False),
        ([6] * 5, True),
        ([1] * 10, False),
        ([9] * 5, False),
        ([8], False),
    ]
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
    rows: list[Row] = read_json(path, list, "a list of rows")
    for number, row in enumerate(rows, start=1):
        given = row.keys() if isinstance(row, dict) else set()
        missing = sorted(Row.__annotations__.keys() - given) + sorted(given - Row.__annotations__.keys())
        if missing:
            raise ValueError(f"{path}: row {number} lacks or should not have the field {missing[0]!r}")
        demand_kinds(row, Row, f"{path}: row {number}")
        if len(row["ci95"]) != 2:
            raise ValueError(f"{path}: row {number}: ci95 has two ends")
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
    claims = {claim.claim: claim for claim in entry.recipe.claims}
    now = {claim.claim: stated(entry, claim, row) for claim, row in claims_with_rows(entry, rows)}
    found: dict[str, str] = {}
    for row in own:
        claim = row["claim"]
        if claim not in claims:
            found[claim] = (
                f"no claim of the recipe has these words; make the rows anew: footfall lab run {name} --record"
            )
        elif is_restated(claims[claim], row):
            found[claim] = "the recipe states it otherwise now: footfall lab ledger --update"
        elif kept and not {*map(row_hash, _versions(entry.recipe, row, now[claim]))} & {*kept["rows"]}:
            found[claim] = f"edited by hand; take the edit back, or make it anew: footfall lab run {name} --record"
        elif kept and kept["statistics"] != statistics_hash():
            found[claim] = "rows are computed from outcomes otherwise now: footfall lab ledger --update"
        elif is_rescaled(entry.recipe, row):
            found[claim] = RESCALED
        elif now[claim] != row:
            found[claim] = RELABELLED
    if kept and len(own) < len(kept["rows"]):
        gone = [claim for claim in claims if claim not in {row["claim"] for row in own}]
        found |= dict.fromkeys(gone, f"its row was removed; make it anew: footfall lab run {name} --record")
    return found


def _versions(recipe: Recipe, row: Row, now: Row | None) -> list[Row]:
    """What an update that was killed between its two writes may have left behind, beside the row itself."""
    now = now or row
    return [row, now, rescaled(recipe, now)]


def status_of_code(row: Row | None, code: str, kept: Kept | None) -> Status:
    """What the code alone says of a row; `code` is the fingerprint of its recipe now, which has no part in stored figures."""
    records: Records = kept["environments"] if kept else {}
    if (
        row is None
        or row["tier"] == "real"
        or code in {row["version"].partition("+")[2], *(record["code"] for record in records.values())}
    ):
        return "current"
    return "unchecked" if records else "stale"


def is_restated(claim: Claim, row: Row) -> bool:
    """Whether the recipe now compares other arms, by another metric or margin, under the same words."""
    now = (metric_of(claim), claim.direction, claim.baseline, claim.method)
    return now != (row["metric"], row["direction"], row["baseline"], row["method"])


def is_rescaled(recipe: Recipe, row: Row) -> bool:
    """Whether the recipe states another scale than the row was measured at; figures from elsewhere have their own.

    A quick run has the small model and the small sizes whatever a full one has, so its outcome stays as it was.
    """
    return row["tier"] == "lab" and row["scale"].partition(_MEANS)[0] != recipe.scale


def rescaled(recipe: Recipe, row: Row) -> Row:
    """The row in the words that the recipe has for its scale now, if it is one of the lab."""
    means = row["scale"].partition(_MEANS)[2]
    return {**row, "scale": f"{recipe.scale}{_MEANS}{means}"} if row["tier"] == "lab" else row


def metric_of(claim: Claim) -> str:
    """The metric with the claim's margin, as rows have it."""
    return claim.metric + (f", margin {claim.margin:+g}" if claim.margin else "")
