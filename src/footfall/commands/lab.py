"""`footfall lab`: measure what a published system claims, and show what all of them gave."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from tyro.conf import Positional

from footfall.commands._options import RayOptions
from footfall.commands._output import facts, note, spent
from footfall.commands._running import ray_workers
from footfall.lab.campaign import Campaign
from footfall.lab.checking import QUICK_SEED, at_sight, check, merge, quick_folder, record_run, update
from footfall.lab.fingerprint import read_kept, read_outcomes
from footfall.lab.ledger import SHIPPED, Line, Row, Status, checkout_ledger, lines, read_ledger, visible_ledger
from footfall.lab.pages import effect_text, out_of_date, remarks_on, scale_text, write_pages
from footfall.lab.recipe import Entry, Outcome, catalogue, find
from footfall.lab.runner import Finding, finish, opened, seed_outcome, single_figures, spread, units_of
from footfall.lab.verdicts import BUDGET, looks
from footfall.scale import Call
from footfall.store import Run

RUNS = Path("runs") / "lab"
_STYLES = {"holds": "green", "no difference": "cyan", "undecided": "yellow", "does not hold": "red", "not run": "dim"}
_WIDE = 110
"""Columns from which claims have one of their own."""


@dataclass(frozen=True)
class RunConfig:
    """Run recipes: method and baseline on the same seeds and problems.

        footfall lab run math-shepherd
        footfall lab run all --quick
        footfall lab run all --workers 16 --device cuda --minutes 10 --record
        footfall lab run all --ray head:6379

    Seeds are added (5, 10, 20, …) until every claim of a recipe is decided or the budget is spent. Prints effect (method −
    baseline), its 95% interval over seeds, problems and looks, cost and verdict, and writes them into the run directory. Every
    finished seed is kept: the same command goes on where it was stopped, and more seeds only add.
    """

    names: Positional[tuple[str, ...]]
    """Recipes of `footfall lab ledger`, or all."""
    all: bool = False
    """Every recipe, as the name all."""
    seeds: int | None = None
    """So many, looked at once. None: 5, 10, 20, … until every claim is decided; with --quick 2."""
    budget: int = BUDGET
    """Seeds after which a claim stays undecided."""
    seed: int = 0
    """The first one."""
    quick: bool = False
    """A smoke test in seconds; its figures mean nothing and cannot be recorded."""
    workers: int = 1
    """Processes that share the seeds, each on one thread; cheap recipes come first."""
    device: str = "cpu"
    """Where models are run and trained, e.g. cuda; several workers share one."""
    minutes: float | None = None
    """Begin nothing new after so many; what is done is shown and recorded. The first seed of every recipe comes before the
    others. None: run to the end."""
    out: Path | None = None
    """Run directory; of several recipes, the folder of one each. None: runs/lab/NAME."""
    record: bool = False
    """Put hashes of the outcomes into docs/ledger_outcomes.json of the checkout. Rows of docs/ledger.json that are what the
    code gives stay; those that are not, or are missing, are made anew."""
    ledger: Path | None = None
    """With --record: another ledger to record in."""
    config: Path | None = None
    """A file with options of this command, TOML or JSON; the command line wins over it."""
    json: bool = False
    """Print the ledger rows as JSON on standard output and nothing else there."""
    ray: RayOptions = field(default_factory=RayOptions)


@dataclass(frozen=True)
class LedgerConfig:
    """Show the main claim of every system with its verdict; in a checkout, write ledger.md and papers.md beside the ledger.

        footfall lab ledger pav           all claims of a system; --all: of every one
        footfall lab ledger --check       is every row what the code gives now?
        footfall lab ledger --update      decide it with full seeds where need be, and make stale rows anew

    holds: the 95% interval is wholly on the claimed side; does not hold: wholly on the other; no difference: wholly within the
    smallest effect that would matter; undecided: none of these. Stale: the code no longer gives the figures of the row.
    Changed code with the same figures makes nothing stale.
    """

    names: Positional[tuple[str, ...]] = ()
    """Systems whose claims are shown, each with its notes, and that --check and --update look at; none: the main claim of
    each, and all are looked at."""
    all: bool = False
    """Show every claim of every system."""
    ledger: Path | None = None
    """None: docs/ledger.json of the checkout, or the one that the installed package has."""
    config: Path | None = None
    """A file with options of this command, TOML or JSON; the command line wins over it."""
    json: bool = False
    """Print rows as JSON on standard output, all claims of the systems named or of every one, with `status` and `stale` added,
    and those that were not run."""
    check: bool = False
    """Write nothing here; run the quick outcomes of recipes whose code changed, and exit with 1 if one differs from the
    recorded one, a row was edited or is computed otherwise now, or, where no system is named, a page is not what the ledger
    and the recipes give."""
    update: bool = False
    """As --check; where a quick outcome differs run a full seed, and where that differs too all seeds, and record."""
    workers: int = 1
    """Processes that share the quick outcomes of --check and --update."""
    merge: Path | None = None
    """Take up what `footfall lab run --record` recorded on another machine: its ledger_outcomes.json. Rows stay as they are."""


def main(config: RunConfig | LedgerConfig) -> int:
    """Run the subcommand of this configuration; the exit code."""
    return _run(config) if isinstance(config, RunConfig) else _ledger(config)


def _run(config: RunConfig) -> int:
    seeds = 2 if config.seeds is None and config.quick else config.seeds
    if (config.budget if seeds is None else seeds) < 1:
        given = f"--budget {config.budget}" if seeds is None else f"--seeds {seeds}"
        raise ValueError(f"{given}: at least one seed is needed")
    if config.minutes is not None and not config.minutes >= 0:
        raise ValueError(f"--minutes {config.minutes:g}: it must be 0 or more")
    entries, ledger = _asked_for(config), _ledger_to_record_in(config)
    if config.workers != 1:
        config.ray.refuse("--workers are processes of this machine; say --ray-workers how many the cluster has")
    with ExitStack() as held:
        cluster = held.enter_context(ray_workers(config.ray.patient(), _seeds))
        runs = {
            entry.recipe.name: held.enter_context(opened(entry, _folder(config, entry, len(entries)), config.quick))
            for entry in entries
        }
        campaign = Campaign(
            {entry.recipe.name: entry for entry in entries},
            runs,
            looks(config.budget) if seeds is None else [seeds],
            seed=config.seed,
            quick=config.quick,
            recorded=ledger is not None,
            workers=config.workers,
            device=config.device,
            minutes=config.minutes,
            cluster=cluster,
        )
        return _measure_all(config, ledger, campaign)


def _asked_for(config: RunConfig) -> list[Entry]:
    if not config.names and not config.all:
        raise ValueError("name a recipe, several, or all; `footfall lab ledger` lists them")
    every = config.all or "all" in config.names
    if every and {*config.names} - {"all"}:
        raise ValueError("all are every recipe: leave the other names away, or name those alone that you want")
    return catalogue() if every else [find(name) for name in dict.fromkeys(config.names)]


def _seeds() -> Call:
    """What a worker of a cluster does."""
    return Call(seed_outcome)


def _ledger_to_record_in(config: RunConfig) -> Path | None:
    if not config.record:
        if config.ledger is not None:
            raise ValueError("--ledger is where --record records: give both, or neither")
        return None
    if config.quick:
        raise ValueError("the figures of --quick mean nothing and are not recorded: leave --quick or --record away")
    ledger = config.ledger or checkout_ledger()
    if ledger is None:
        raise ValueError("there is no checkout of footfall to record in: pass --ledger FILE")
    return ledger


def _folder(config: RunConfig, entry: Entry, recipes: int) -> Path:
    if config.out is not None:
        return config.out if recipes == 1 else config.out / entry.recipe.name
    return RUNS / (entry.recipe.name + ("-quick" if config.quick else ""))


def _measure_all(config: RunConfig, ledger: Path | None, campaign: Campaign) -> int:
    """A recipe is shown and recorded with its last seed, or with what it has at the end."""
    rows: list[Row] = []
    entries, runs, found, failed = campaign.entries, campaign.runs, campaign.found, campaign.failed
    for name in campaign.decided():
        rows += _finish(config, ledger, entries[name], runs[name], found.pop(name)).rows
    for name, part in found.items():
        if part and ledger is not None and name not in failed:
            folder, counts = runs[name].folder.parent, campaign.counts
            told = record_run(ledger, entries[name], part, folder, counts[0], config.device)
            note(f"{name}: {len(part)} of {counts[-1]} seeds; {told}")
    if ledger is not None:
        write_pages(ledger, lines(catalogue(), read_ledger(ledger), read_outcomes(ledger)))
    if config.json:
        _print_json(rows)
    if failed:
        note(f"{len(failed)} recipes failed: {', '.join(sorted(failed))}")
    if len(found) > len(failed):
        note(f"{len(found)} of {len(entries)} recipes are not done; the same command goes on")
    return 1 if failed else 0


def _finish(config: RunConfig, ledger: Path | None, entry: Entry, run: Run, outcomes: dict[int, Outcome]) -> Finding:
    finding = finish(run, entry, {seed: outcomes[seed] for seed in sorted(outcomes)}, config.quick)
    if not config.json:
        _show_finding(finding)
    if single := single_figures(entry, list(finding.outcomes.values())):
        told = f"{len(single)} claims by one figure a seed have no interval after one seed; --seeds 2 at least"
        note(f"{entry.recipe.name}: {told}")
    if ledger is not None:
        told = record_run(ledger, entry, finding.outcomes, run.folder.parent, device=config.device)
        note(f"{entry.recipe.name}: {told}")
    return finding


def _ledger(config: LedgerConfig) -> int:
    ledger = config.ledger or visible_ledger()
    if ledger is None:
        raise ValueError("there is no ledger here: run in a checkout of footfall, or pass --ledger FILE")
    if config.ledger is not None and not ledger.is_file():
        raise FileNotFoundError(
            f"{ledger}: there is no such ledger; `footfall lab run NAME --record --ledger FILE` makes one"
        )
    if sum((config.check, config.update, config.merge is not None)) > 1:
        raise ValueError("--check writes nothing, --update and --merge do; give one of them")
    if ledger == SHIPPED and (config.update or config.merge):
        raise ValueError("the ledger of an installed package is for reading: record in a checkout of footfall")
    if config.merge is not None:
        _merge(ledger, config.merge)
    wanted = {find(name).recipe.name for name in config.names}
    found = _checked(config, ledger, wanted)
    shown = lines(catalogue(), read_ledger(ledger), read_outcomes(ledger), found)
    asked = [line for line in shown if line.entry.recipe.name in wanted] if wanted else shown
    if config.json:
        _print_json([_as_json(line) for line in asked])
    else:
        _show_ledger(asked if wanted or config.all else [line for line in shown if line.main], bool(wanted))
    unchecked = {line.entry.recipe.name for line in asked if line.status == "unchecked"}
    if unchecked:
        names = ", ".join(sorted(unchecked))
        note(f"code changed since the last check of {names}; compare with: footfall lab ledger --check")
    stale = "stale" in found.values() or any(line.stale for line in asked)
    if not config.check:
        if ledger != SHIPPED:
            write_pages(ledger, shown)
        return 0
    wrong = [] if ledger == SHIPPED or wanted else out_of_date(ledger, shown)
    for page in wrong:
        note(f"{page} is not what {ledger.name} gives; write it with: footfall lab ledger")
    if stale:
        note("full seeds decide, and make stale rows anew: footfall lab ledger --update")
    return 1 if wrong or stale else 0


def _merge(ledger: Path, given: Path) -> None:
    entries = {entry.recipe.name: entry for entry in catalogue()}
    for name, kept in read_kept(given).items():
        if name not in entries:
            note(f"{name}: nothing is merged, for there is no such recipe")
            continue
        for line in merge(ledger, entries[name], kept, RUNS):
            note(line)


def _checked(config: LedgerConfig, ledger: Path, wanted: set[str]) -> dict[str, Status]:
    """What a check or an update found of these recipes, of all if none is named, told one by one; else nothing."""
    if not (config.check or config.update):
        return {}
    found: dict[str, Status] = {}
    entries = [entry for entry in catalogue() if not wanted or entry.recipe.name in wanted]
    rows, outcomes = read_ledger(ledger), read_outcomes(ledger)
    todo = [e for e in entries if at_sight(e, rows, outcomes.get(e.recipe.name)).status == "unchecked"]
    units = deque(unit for e in todo for unit in units_of(e, [QUICK_SEED], quick_folder(e, RUNS), quick=True))
    for _, outcome in spread(units, config.workers):
        outcome()
    for entry in entries:
        kept = outcomes.get(entry.recipe.name)
        standing = update(ledger, entry, RUNS) if config.update else check(entry, rows, kept, RUNS)
        found[standing.name] = standing.status
        if standing.why:
            note(f"{standing.name}: {standing.why}")
    return found


def _as_json(line: Line) -> dict[str, Any]:
    if line.row is not None:
        return {**line.row, "status": line.status, "stale": line.stale}
    named = {field: getattr(line.claim, field) for field in ("claim", "metric", "direction", "baseline", "method")}
    return {"name": line.entry.recipe.name, **named, "world": line.entry.recipe.world, "verdict": "not run"}


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _console() -> Console:
    return Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


def _show_finding(finding: Finding) -> None:
    console = _console()
    for row in finding.rows:
        console.print(f"{row['name']}: {row['claim']}", style="bold")
        arms = {arm: f"{finding.means[arm]:.4f}" for arm in (row["baseline"], row["method"])}
        facts(console, {
            "metric": f"{row['metric']} ({row['direction']} is better)",
            **(arms if row["tier"] == "lab" else {"stored": f"not measured by this run. {row['scale']}"}),
            "effect": f"{effect_text(row)}, {row['seeds']} seeds; {row['smallest_effect']:g} would matter",
            "verdict": "; ".join([row["verdict"], *row["notes"]]),
        })  # fmt: skip
        console.print()
    facts(console, {"cost": spent(finding.cost, finding.cost.seconds), "run": finding.folder})


def _show_ledger(shown: Sequence[Line], notes: bool) -> None:
    console = Console(markup=False, emoji=False, highlight=False)
    if console.width >= _WIDE and not notes:
        _show_table(console, shown)
    else:
        _show_stacked(console, shown, notes)


def _show_table(console: Console, shown: Sequence[Line]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("recipe", "claim", "effect [95% interval]", "verdict", "scale"):
        table.add_column(name, no_wrap=name != "claim", overflow="fold")
    for line in shown:
        table.add_row(line.entry.recipe.name, line.claim.claim, *_result(line), style=_STYLES[line.verdict])
    console.print(table)


def _show_stacked(console: Console, shown: Sequence[Line], notes: bool) -> None:
    """For terminals too narrow for claims in a column, and for notes."""
    for line in shown:
        effect, verdict, scale = _result(line)
        told = ", ".join(word for word in (f"{verdict} {effect}".rstrip(), scale) if word)
        console.print(f"{line.entry.recipe.name}: {told}", style=_STYLES[line.verdict])
        console.print(Padding(line.claim.claim, (0, 0, 0, 4)))
        for text in remarks_on(line.row) if notes and line.row else ():
            console.print(Padding(text, (0, 0, 0, 8)), style="dim")


def _result(line: Line) -> tuple[str, str, str]:
    """The effect, the verdict and the scale in words."""
    stale = " STALE" if line.stale else ""
    return (effect_text(line.row), line.verdict + stale, scale_text(line.row)) if line.row else ("", line.verdict, "")
