"""The ledger: what every claim gave, as rows of one JSON file that is committed with the code."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

from footfall.formats import atomic_write
from footfall.lab.catalogue import Entry
from footfall.lab.fingerprint import is_stale
from footfall.lab.recipe import Claim
from footfall.lab.statistics import Verdict

__all__ = ["Line", "Row", "checkout_ledger", "lines", "read_ledger", "record"]


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
    stale: bool = False

    @property
    def verdict(self) -> str:
        return "not run" if self.row is None else self.row["verdict"]


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
    with _held(path.parent):
        names = {row["name"] for row in rows}
        kept = [row for row in read_ledger(path) if row["name"] not in names]
        merged = sorted([*kept, *rows], key=lambda row: row["name"])
        with atomic_write(path) as stream:
            stream.write((json.dumps(merged, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def lines(entries: Sequence[Entry], rows: Sequence[Row]) -> list[Line]:
    """Every claim of every recipe with its row. A row whose recipe is gone is an error: it must go too."""
    known = {entry.recipe.name for entry in entries}
    orphans = [row["name"] for row in rows if row["name"] not in known]
    if orphans:
        raise ValueError(f"the ledger has a row of {orphans[0]!r}, but there is no such recipe; remove the row")
    return [_line(entry, claim, rows) for entry in entries for claim in entry.recipe.claims]


def _line(entry: Entry, claim: Claim, rows: Sequence[Row]) -> Line:
    own = [r for r in rows if r["name"] == entry.recipe.name and r["claim"] == claim.claim]
    return Line(entry, claim, own[0], is_stale(own[0]["version"], entry.path)) if own else Line(entry, claim, None)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Holds the ledger's folder, so that two runs that end at once do not lose a row."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
