"""Whether the ledger's rows are still what the code gives: figures are compared, not files.

    1  code as it was when it last gave these figures      current; nothing is run
    2  quick outcome with the recorded hash                current
    3  one full seed with the recorded hash                current; the new quick hash is recorded
    4  else                                                stale; the other seeds are run and the rows made anew

`check` goes as far as 2 and writes nothing beside the ledger; `update` goes to the end and records what it finds, recipe by
recipe. In an environment that nothing was recorded in, a quick outcome that differs says nothing ("cannot tell"). All outcomes
are kept in the run directories, so what was killed goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from footfall.lab.fingerprint import fingerprint
from footfall.lab.ledger import Row, Status, claims_with_rows, is_restated, read_ledger, record, status_at_sight
from footfall.lab.outcomes import Record, Records, environment, outcome_hash, read_outcomes, record_outcomes
from footfall.lab.recipe import Entry
from footfall.lab.runner import Finding, measure_seed, run_recipe

QUICK_SEED = 0
"""Of the quick outcomes whose hashes are recorded."""


class Standing(NamedTuple):
    """How a recipe's rows stand to the code, and why."""

    name: str
    status: Status
    why: str = ""


def check(ledger: Path, entry: Entry, runs: Path) -> Standing:
    """Compare the quick outcome, if the code changed. Run directories are folders of `runs`."""
    name, records = entry.recipe.name, read_outcomes(ledger).get(entry.recipe.name, {})
    rows = _rows(ledger, entry)
    status = at_sight(entry, rows, records)
    if status == "unchecked":
        return compared(name, quick_hash(entry, runs), records)
    if status == "stale":
        restated = any(row is not None and is_restated(claim, row) for claim, row in claims_with_rows(entry, rows))
        return Standing(
            name, "stale", "a claim is stated otherwise" if restated else "code changed, no outcome is recorded"
        )
    return Standing(name, status)


def update(ledger: Path, entry: Entry, runs: Path) -> Standing:
    """Check a recipe; run what is needed to decide, make its rows anew if they are stale, and record its hashes."""
    name, code = entry.recipe.name, fingerprint(entry.path)
    rows, records = _rows(ledger, entry), read_outcomes(ledger).get(entry.recipe.name, {})
    at_first = at_sight(entry, rows, records)
    if not rows or (at_first == "current" and not _to_record(records, code)):
        return Standing(name, "current")
    quick, here = quick_hash(entry, runs), environment()
    mine = records.get(here, Record(code="", quick="", seeds={}))
    confirmed = {**records, here: Record(code=code, quick=quick, seeds=mine["seeds"])}
    found = compared(name, quick, records) if at_first == "unchecked" else Standing(name, at_first)
    if found.status == "current":
        record_outcomes(ledger, name, confirmed)
        return found
    if found.status == "cannot tell":
        return found
    if at_first == "unchecked" and _same_full_seed(entry, mine, runs):
        record_outcomes(ledger, name, confirmed)
        return Standing(name, "current", "the quick outcome differs, a full seed does not: the row stays")
    seeds = sorted(map(int, mine["seeds"])) or list(range(rows[0]["seeds"]))
    record_run(ledger, entry, run_recipe(entry, seeds, runs / name), runs)
    return Standing(name, "current", f"measured anew on {len(seeds)} seeds")


def record_run(ledger: Path, entry: Entry, finding: Finding, runs: Path) -> None:
    """Put a run's rows into the ledger, and beside it the hashes of its seeds and of the quick outcome.

    Of other environments only what this very code gave is kept. What is remembered is forgotten first: a kill between two
    writes must not leave new rows with old hashes.
    """
    name, code = entry.recipe.name, fingerprint(entry.path)
    quick, seeds = quick_hash(entry, runs), {str(s): outcome_hash(o) for s, o in sorted(finding.outcomes.items())}
    others = {where: r for where, r in read_outcomes(ledger).get(name, {}).items() if r["code"] == code}
    record_outcomes(ledger, name, {})
    record(ledger, finding.rows)
    record_outcomes(ledger, name, {**others, environment(): Record(code=code, quick=quick, seeds=seeds)})


def quick_hash(entry: Entry, runs: Path) -> str:
    """The hash of the quick outcome of the present code."""
    return outcome_hash(measure_seed(entry, QUICK_SEED, runs / f"{entry.recipe.name}-quick", quick=True))


def at_sight(entry: Entry, rows: Sequence[Row], records: Records) -> Status:
    """The worst that can be said of a recipe's rows without running anything."""
    code = fingerprint(entry.path)
    found = [status_at_sight(claim, row, code, records) for claim, row in claims_with_rows(entry, rows) if row]
    order: tuple[Status, ...] = ("stale", "unchecked", "current")
    return next((status for status in order if status in found), "current")


def compared(name: str, quick: str, records: Records) -> Standing:
    """The quick outcome against the recorded ones: of this environment, or of any if it has none."""
    here = environment()
    if here not in records:
        if any(quick == record["quick"] for record in records.values()):
            return Standing(name, "current")
        return Standing(name, "cannot tell", f"cannot tell here: recorded on {'; '.join(records) or 'no machine'}")
    if quick == records[here]["quick"]:
        return Standing(name, "current")
    return Standing(name, "stale", "its quick outcome differs from the recorded one")


def _same_full_seed(entry: Entry, mine: Record, runs: Path) -> bool:
    """Whether the first recorded seed still gives what it gave; it says nothing if none was recorded."""
    if not mine["seeds"]:
        return False
    seed = min(mine["seeds"], key=int)
    return outcome_hash(measure_seed(entry, int(seed), runs / entry.recipe.name)) == mine["seeds"][seed]


def _to_record(records: Records, code: str) -> bool:
    """Whether this environment has yet to see what this code gives."""
    mine = records.get(environment())
    return mine is None or mine["code"] != code


def _rows(ledger: Path, entry: Entry) -> list[Row]:
    return [row for row in read_ledger(ledger) if row["name"] == entry.recipe.name]
