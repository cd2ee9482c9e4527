"""The ledger: what every claim gave, as rows of one JSON file that is committed with the code.

A row is stale when the figures change, not when a file does. What can be said at sight, without running anything:

    current     the code is the one that gave the row, or one that was seen to give the same figures
    unchecked   it is another, and the quick outcome has yet to be compared (`footfall.lab.check`)
    stale       the claim is stated otherwise, or the code changed and no outcome was recorded
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from footfall.formats import atomic_write
from footfall.lab.fingerprint import fingerprint
from footfall.lab.outcomes import Records, locked
from footfall.lab.recipe import Claim, Entry
from footfall.lab.statistics import Verdict

Status: TypeAlias = Literal["current", "unchecked", "stale", "cannot tell"]


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
    outcomes: Mapping[str, Records] | None = None,
    found: Mapping[str, Status] | None = None,
) -> list[Line]:
    """Every claim of every recipe with its row. A row whose recipe is gone is an error: it must go too.

    `found` is what a check found of recipes, by name; the others are looked at with their recorded `outcomes`.
    """
    known = {entry.recipe.name for entry in entries}
    orphans = [row["name"] for row in rows if row["name"] not in known]
    if orphans:
        raise ValueError(f"the ledger has a row of {orphans[0]!r}, but there is no such recipe; remove the row")
    shown: list[Line] = []
    for entry in entries:
        name, code = entry.recipe.name, fingerprint(entry.path)
        records, given = (outcomes or {}).get(name, {}), (found or {}).get(name)
        for claim, row in claims_with_rows(entry, rows):
            status = status_at_sight(claim, row, code, records) if row and not given else given
            shown.append(Line(entry, claim, row, status or "current"))
    return shown


def claims_with_rows(entry: Entry, rows: Sequence[Row]) -> list[tuple[Claim, Row | None]]:
    """Each claim of a recipe and the row that answers it."""
    own = {row["claim"]: row for row in rows if row["name"] == entry.recipe.name}
    return [(claim, own.get(claim.claim)) for claim in entry.recipe.claims]


def status_at_sight(claim: Claim, row: Row, code: str, records: Records) -> Status:
    """What can be said of a row without running anything; `code` is the fingerprint of its recipe now."""
    if is_restated(claim, row):
        return "stale"
    known = {row["version"].partition("+")[2], *(record["code"] for record in records.values())}
    if code in known:
        return "current"
    return "unchecked" if records else "stale"


def is_restated(claim: Claim, row: Row) -> bool:
    """Whether the recipe now compares other arms, by another metric or margin, under the same words."""
    now = (metric_of(claim), claim.direction, claim.baseline, claim.method)
    return now != (row["metric"], row["direction"], row["baseline"], row["method"])


def metric_of(claim: Claim) -> str:
    """The metric with the claim's margin, as rows have it."""
    return claim.metric + (f", margin {claim.margin:+g}" if claim.margin else "")
