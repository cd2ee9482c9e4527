"""Whether the ledger's rows are still what the code gives. Figures are compared, not files.

    1  code as it was when it last gave these figures      current; nothing is run
    2  quick outcome with the recorded hash                current
    3  one full seed with the recorded hash                current; the new quick hash and the seed's are recorded
    4  else                                                stale; the other seeds are run and the rows made anew

Where the recipe states another scale 2 says nothing, for a quick run is as small as before: 3 decides.

`check` goes as far as 2 and writes nothing beside the ledger; `update` goes to the end and records what it finds, recipe by
recipe. In an environment that nothing was recorded in, a quick outcome that differs says nothing ("cannot tell"). All outcomes
are kept in the run directories, so what was killed goes on where it stopped. `record_run` puts in what a run gave, `merge`
what was recorded on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from footfall.lab.fingerprint import (
    Kept,
    Record,
    Records,
    environment,
    fingerprint,
    outcome_hash,
    read_outcomes,
    record_outcomes,
)
from footfall.lab.ledger import (
    RELABELLED,
    RESCALED,
    Row,
    Status,
    claims_with_rows,
    faults,
    is_rescaled,
    read_ledger,
    record,
    rescaled,
    row_hash,
    stated,
    statistics_hash,
    status_of_code,
)  # fmt: skip
from footfall.lab.recipe import Entry, Outcome
from footfall.lab.runner import measure_seed, rows_of, run_recipe, single_figures

QUICK_SEED = 0
"""Of the quick outcomes whose hashes are recorded."""


class Standing(NamedTuple):
    """How a recipe's rows stand to the code, and why."""

    name: str
    status: Status
    why: str = ""


def check(entry: Entry, rows: Sequence[Row], kept: Kept | None, runs: Path) -> Standing:
    """Compare the quick outcome, if the code changed since what is recorded. Run directories are folders of `runs`."""
    found = at_sight(entry, rows, kept)
    return compared(found.name, quick_hash(entry, runs), _records(kept)) if found.status == "unchecked" else found


def update(ledger: Path, entry: Entry, runs: Path) -> Standing:
    """Check a recipe; run what is needed to decide, make its rows anew if they are stale, and record its hashes."""
    name, code, here = entry.recipe.name, fingerprint(entry.path), environment()
    rows, kept = _relabelled(ledger, entry)
    records = _records(kept)
    found = at_sight(entry, rows, kept)
    seen = here in records and records[here]["code"] == code
    if not rows or (found.status == "current" and seen):
        return found
    quick, seeds_here = quick_hash(entry, runs), records[here]["seeds"] if here in records else {}
    if {*faults(entry, rows, kept).values()} == {RESCALED}:
        if same := _same_full_seed(entry, records, runs):
            rows, seeds_here = _in_new_words(ledger, entry, rows, records), _by_seed({**seeds_here, **same})
            found = Standing(name, "current", "the scale is stated otherwise, a full seed is as it was: the row stays")
    elif found.status == "unchecked":
        found = compared(name, quick, records)
        if found.status == "stale" and (same := _same_full_seed(entry, records, runs)):
            seeds_here = _by_seed({**seeds_here, **same})
            found = Standing(name, "current", "the quick outcome differs, a full seed does not: the row stays")
    if found.status == "current":
        now = Record(code=code, quick=quick, seeds=seeds_here)
        record_outcomes(ledger, name, _keep(rows, {**records, here: now}))
    if found.status != "stale":
        return found
    known = sorted(map(int, seeds_here))
    seeds = known if len(known) >= rows[0]["seeds"] else list(range(rows[0]["seeds"]))
    _replace_rows(ledger, entry, run_recipe(entry, seeds, runs / name).outcomes, quick, records, here)
    return Standing(name, "current", f"measured anew on {len(seeds)} seeds")


def _relabelled(ledger: Path, entry: Entry) -> tuple[list[Row], Kept | None]:
    """What is recorded, after the rows were given what the header says of their claims now, where that is all they lack.

    The hashes are written first: after a kill between the two, the rows are still known by what they would be.
    """
    rows, kept = _recorded(ledger, entry)
    made = [stated(entry, claim, row) for claim, row in claims_with_rows(entry, rows)]
    now = [row for row in made if row is not None]
    if kept is None or now == rows or any(fault != RELABELLED for fault in faults(entry, rows, kept).values()):
        return rows, kept
    record_outcomes(ledger, entry.recipe.name, _keep(now, kept["environments"]))
    record(ledger, now)
    return _recorded(ledger, entry)


def _in_new_words(ledger: Path, entry: Entry, rows: Sequence[Row], records: Records) -> list[Row]:
    """The rows as the header states them now, their scale too; written after their hashes, as in `_relabelled`."""
    made = [stated(entry, claim, row) for claim, row in claims_with_rows(entry, rows)]
    now = [rescaled(entry.recipe, row) for row in made if row is not None]
    record_outcomes(ledger, entry.recipe.name, _keep(now, records))
    record(ledger, now)
    return now


def record_run(
    ledger: Path, entry: Entry, outcomes: Mapping[int, Outcome], runs: Path, wanted: int = 1, device: str = "cpu"
) -> str:
    """Record full seeds of a device: their hashes, and rows made from them unless the rows at hand are what this code gives.

    Rows are made from `wanted` seeds at least, and from no fewer than they had, unless the recipe states another scale now:
    then those seeds measured something else. The answer says in words what was recorded.
    """
    rows, kept = _recorded(ledger, entry)
    here = environment(device)
    records, mine = _records(kept), _records(kept).get(here)
    quick, seeds = quick_hash(entry, runs, device), _hashes(outcomes)
    before = rows[0]["seeds"] if rows and not is_rescaled(entry.recipe, rows[0]) else 0
    status = at_sight(entry, rows, kept).status
    if rows and len(seeds) <= before and _gives_the_rows(status, mine, quick, seeds):
        merged = _by_seed({**(mine["seeds"] if mine else {}), **seeds})
        now = Record(code=fingerprint(entry.path), quick=quick, seeds=merged)
        record_outcomes(ledger, entry.recipe.name, _keep(rows, {**records, here: now}))
        return f"hashes of {len(seeds)} seeds recorded; the rows are what this code gives and stay"
    if len(seeds) < max(wanted, before):
        return f"not recorded: new rows need {max(wanted, before)} seeds, {len(seeds)} are measured"
    if single_figures(entry, list(outcomes.values())):
        return "not recorded: one seed with one figure has no interval, two are needed"
    _replace_rows(ledger, entry, outcomes, quick, records, here)
    return f"rows of {len(seeds)} seeds recorded"


def merge(ledger: Path, entry: Entry, given: Kept, runs: Path) -> list[str]:
    """Take up hashes that were recorded elsewhere, if they are of code that gives the rows here; a line on each environment.

    Such code is: the row's, the code of a record here, the present code if a check finds the rows current, and code that
    gave, in an environment that both sides know, the quick outcome that is recorded here.
    """
    name, (rows, kept) = entry.recipe.name, _recorded(ledger, entry)
    if not rows or kept is None:
        return [f"{name}: nothing is merged, for the ledger has no rows of it"]
    ours, theirs = dict(kept["environments"]), given["environments"]
    known = {*(row["version"].partition("+")[2] for row in rows), *(record["code"] for record in ours.values())}
    known |= {
        there["code"] for where, there in theirs.items() if where in ours and ours[where]["quick"] == there["quick"]
    }
    code = fingerprint(entry.path)
    if (
        code in {there["code"] for there in theirs.values()} - known
        and check(entry, rows, kept, runs).status == "current"
    ):
        known.add(code)
    told: list[str] = []
    for where, there in theirs.items():
        here = ours.get(where, there)
        if here == there and where in ours:
            continue
        common = here["seeds"].keys() & there["seeds"].keys()
        if there["code"] not in known:
            told.append(
                f"{name}: not merged, it was measured with code that is not known to give these rows, on {where}"
            )
        elif here["quick"] != there["quick"] or any(here["seeds"][s] != there["seeds"][s] for s in common):
            told.append(f"{name}: not merged, its figures differ from the recorded ones, on {where}")
        else:
            ours[where] = Record(
                code=here["code"], quick=here["quick"], seeds=_by_seed({**here["seeds"], **there["seeds"]})
            )
            told.append(f"{name}: {len(there['seeds'])} seeds merged, on {where}")
    record_outcomes(ledger, name, Kept(statistics=kept["statistics"], rows=kept["rows"], environments=ours))
    return told


def quick_hash(entry: Entry, runs: Path, device: str = "cpu") -> str:
    """The hash of the quick outcome of the present code."""
    return outcome_hash(measure_seed(entry, QUICK_SEED, quick_folder(entry, runs), quick=True, device=device))


def quick_folder(entry: Entry, runs: Path) -> Path:
    """The run directory of a recipe's quick outcomes."""
    return runs / f"{entry.recipe.name}-quick"


def at_sight(entry: Entry, rows: Sequence[Row], kept: Kept | None) -> Standing:
    """The worst that can be said of a recipe's rows without running anything."""
    name, wrong = entry.recipe.name, faults(entry, rows, kept)
    if wrong:
        return Standing(name, "stale", "; ".join(f'row "{claim}": {fault}' for claim, fault in wrong.items()))
    code = fingerprint(entry.path)
    found = {status_of_code(row, code, kept) for _, row in claims_with_rows(entry, rows)}
    if "stale" in found:
        return Standing(name, "stale", "code changed, no outcome is recorded")
    return Standing(name, "unchecked" if "unchecked" in found else "current")


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


def _replace_rows(
    ledger: Path, entry: Entry, outcomes: Mapping[int, Outcome], quick: str, records: Records, here: str
) -> None:
    """New rows, and beside them the hashes of their seeds and of the quick outcome.

    Of other environments only what this very code gave is kept. The hashes are written first: a kill between the two writes
    must not leave new rows with old hashes, nor lose what other machines recorded. Old rows with new hashes are stale.
    """
    code = fingerprint(entry.path)
    rows = rows_of(entry, [outcomes[seed] for seed in sorted(outcomes)])
    others = {where: record for where, record in records.items() if record["code"] == code}
    mine = Record(code=code, quick=quick, seeds=_hashes(outcomes))
    record_outcomes(ledger, entry.recipe.name, _keep(rows, {**others, here: mine}))
    record(ledger, rows)


def _gives_the_rows(status: Status, mine: Record | None, quick: str, seeds: Mapping[str, str]) -> bool:
    """Whether rows of this status are what the code gives, now that full seeds are known."""
    if mine is None or status not in ("current", "unchecked"):
        return status == "current"
    common = seeds.keys() & mine["seeds"].keys()
    same = all(seeds[seed] == mine["seeds"][seed] for seed in common)
    return same and (status == "current" or quick == mine["quick"] or bool(common))


def _same_full_seed(entry: Entry, records: Records, runs: Path) -> dict[str, str]:
    """The first recorded seed with its hash, if it still gives what it gave; else, or if none was recorded, nothing.

    Without a hash of this environment one of another serves: equal figures are equal anywhere.
    """
    mine = records.get(environment())
    recorded = [mine["seeds"]] if mine and mine["seeds"] else [record["seeds"] for record in records.values()]
    seeds = {seed for hashes in recorded for seed in hashes}
    if not seeds:
        return {}
    seed = min(seeds, key=int)
    found = outcome_hash(measure_seed(entry, int(seed), runs / entry.recipe.name))
    return {seed: found} if found in [hashes.get(seed) for hashes in recorded] else {}


def _hashes(outcomes: Mapping[int, Outcome]) -> dict[str, str]:
    return {str(seed): outcome_hash(outcomes[seed]) for seed in sorted(outcomes)}


def _by_seed(hashes: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(hashes.items(), key=lambda item: int(item[0])))


def _keep(rows: Sequence[Row], environments: Records) -> Kept:
    return Kept(statistics=statistics_hash(), rows=list(map(row_hash, rows)), environments=environments)


def _records(kept: Kept | None) -> Records:
    return kept["environments"] if kept else {}


def _recorded(ledger: Path, entry: Entry) -> tuple[list[Row], Kept | None]:
    name = entry.recipe.name
    return [row for row in read_ledger(ledger) if row["name"] == name], read_outcomes(ledger).get(name)
