"""`footfall lab`: measure what a published system claims, and show what all of them gave."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from tyro.conf import Positional

from footfall.commands._output import facts, note, spent
from footfall.lab.check import Standing, check, record_run, update
from footfall.lab.ledger import Line, Row, Status, checkout_ledger, lines, read_ledger
from footfall.lab.outcomes import read_outcomes
from footfall.lab.pages import effect_text, out_of_date, write_pages
from footfall.lab.recipe import Entry, catalogue, find
from footfall.lab.runner import Finding, run_recipe

RUNS = Path("runs") / "lab"
RECORDED_FROM = 5
"""Seeds below which a result goes into the ledger only if the user names one."""
_STYLES = {"holds": "green", "too close": "yellow", "does not hold": "red", "not run": "dim"}
_WIDE = 110
"""Columns from which claims have one of their own."""


@dataclass(frozen=True)
class RunConfig:
    """Run a recipe: its method and its baseline on the same seeds and problems.

        footfall lab run math-shepherd
        footfall lab run all --quick

    Prints effect (method − baseline), its 95% interval over seeds and problems, cost and verdict. Every finished seed is
    kept: the same command goes on where it was stopped, and more seeds only add. In a checkout the result goes into
    docs/ledger.json and the pages made from it, and hashes of the outcomes into docs/ledger_outcomes.json.
    """

    name: Positional[str]
    """A recipe of `footfall lab ledger`, or all."""
    seeds: int | None = None
    """How many. None: 5, with --quick 2."""
    seed: int = 0
    """The first one."""
    quick: bool = False
    """A smoke test in seconds; its figures mean nothing and are not recorded."""
    out: Path | None = None
    """Run directory; with all, the folder of one a recipe. None: runs/lab/NAME."""
    ledger: Path | None = None
    """Ledger to record in. None: docs/ledger.json of the checkout, for 5 seeds or more."""
    json: bool = False
    """Print the ledger rows as JSON on standard output and nothing else there."""


@dataclass(frozen=True)
class LedgerConfig:
    """Show every claim with its verdict, and write ledger.md and papers.md beside the ledger.

        footfall lab ledger --check       is every row what the code gives now?
        footfall lab ledger --update      decide it with full seeds where need be, and make stale rows anew

    holds: the 95% interval is wholly on the claimed side; does not hold: wholly on the other; too close: neither. Stale:
    the code no longer gives the figures of the row. Changed code with the same figures makes nothing stale.
    """

    ledger: Path | None = None
    """None: docs/ledger.json of the checkout."""
    json: bool = False
    """Print rows as JSON on standard output, with `status` and `stale` added, and claims that were not run."""
    check: bool = False
    """Write nothing here; run the quick outcomes of recipes whose code changed, and exit with 1 if one differs from the
    recorded one or a page is not what the ledger and the recipes give."""
    update: bool = False
    """As --check; where a quick outcome differs run a full seed, and where that differs too all seeds, and record."""


def main(argv: list[str]) -> int:
    """Run the subcommand that `argv` names; the exit code."""
    import tyro

    run = Annotated[RunConfig, tyro.conf.subcommand("run")]
    ledger = Annotated[LedgerConfig, tyro.conf.subcommand("ledger")]
    style = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)
    config: RunConfig | LedgerConfig = tyro.cli(
        run | ledger, args=argv, prog="footfall lab", description=__doc__, config=style
    )
    return _run(config) if isinstance(config, RunConfig) else _ledger(config)


def _run(config: RunConfig) -> int:
    seeds = config.seeds if config.seeds is not None else 2 if config.quick else 5
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: at least one is needed")
    if config.name == "all":
        return _run_all(config, seeds)
    rows = _run_one(config, find(config.name), seeds, config.out).rows
    if config.json:
        _print_json(rows)
    return 0


def _run_all(config: RunConfig, seeds: int) -> int:
    rows: list[Row] = []
    failed: list[str] = []
    for entry in catalogue():
        folder = None if config.out is None else config.out / entry.recipe.name
        try:
            rows += _run_one(config, entry, seeds, folder).rows
        except Exception:  # noqa: BLE001 - one broken recipe must not cost the rest of a long run; it is shown and counted
            traceback.print_exc()
            failed.append(entry.recipe.name)
    if config.json:
        _print_json(rows)
    if failed:
        note(f"{len(failed)} recipes failed: {', '.join(failed)}")
    return 1 if failed else 0


def _run_one(config: RunConfig, entry: Entry, seeds: int, out: Path | None) -> Finding:
    folder = out or RUNS / (entry.recipe.name + ("-quick" if config.quick else ""))
    finding = run_recipe(entry, range(config.seed, config.seed + seeds), folder, config.quick)
    if not config.json:
        _show_finding(finding)
    _record(config, entry, finding)
    return finding


def _record(config: RunConfig, entry: Entry, finding: Finding) -> None:
    """Into the ledger that is named; into the checkout's if the result is worth it."""
    ledger = config.ledger or checkout_ledger()
    if config.quick or ledger is None:
        return
    if config.ledger is None and len(finding.outcomes) < RECORDED_FROM:
        note(f"not recorded: fewer than {RECORDED_FROM} seeds; pass --ledger {ledger} to record it all the same")
        return
    record_run(ledger, entry, finding, finding.folder.parent)
    write_pages(ledger, lines(catalogue(), read_ledger(ledger), read_outcomes(ledger)))
    note(f"recorded in {ledger}")


def _ledger(config: LedgerConfig) -> int:
    ledger = config.ledger or checkout_ledger()
    if ledger is None:
        raise ValueError("there is no ledger here: run in a checkout of footfall, or pass --ledger FILE")
    if config.check and config.update:
        raise ValueError("--check writes nothing and --update does; give one of them")
    found = _checked(config, ledger)
    shown = lines(catalogue(), read_ledger(ledger), read_outcomes(ledger), found)
    if config.json:
        _print_json([_as_json(line) for line in shown])
    else:
        _show_ledger(shown)
    unchecked = {line.entry.recipe.name for line in shown if line.status == "unchecked"}
    if unchecked:
        names = ", ".join(sorted(unchecked))
        note(f"code changed since the last check of {names}; compare with: footfall lab ledger --check")
    if not config.check:
        write_pages(ledger, shown)
        return 0
    wrong = out_of_date(ledger, shown)
    for page in wrong:
        note(f"{page} is not what {ledger.name} gives; write it with: footfall lab ledger")
    stale = any(line.stale for line in shown)
    if stale:
        note("full seeds decide, and make stale rows anew: footfall lab ledger --update")
    return 1 if wrong or stale else 0


def _checked(config: LedgerConfig, ledger: Path) -> dict[str, Status]:
    """What a check or an update found, told recipe by recipe; empty if neither is asked for."""
    if not (config.check or config.update):
        return {}
    found: dict[str, Status] = {}
    for entry in catalogue():
        standing: Standing = (update if config.update else check)(ledger, entry, RUNS)
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
    return Console(markup=False, highlight=False, soft_wrap=True)


def _show_finding(finding: Finding) -> None:
    console = _console()
    for row in finding.rows:
        console.print(f"{row['name']}: {row['claim']}", style="bold")
        facts(console, {
            "metric": f"{row['metric']} ({row['direction']} is better)",
            row["baseline"]: f"{finding.means[row['baseline']]:.4f}",
            row["method"]: f"{finding.means[row['method']]:.4f}",
            "effect": f"{effect_text(row)}, {row['seeds']} seeds",
            "verdict": row["verdict"],
        })  # fmt: skip
        console.print()
    facts(console, {"cost": spent(finding.cost, finding.cost.seconds), "run": finding.folder})


def _show_ledger(shown: Sequence[Line]) -> None:
    console = Console(markup=False, highlight=False)
    (_show_table if console.width >= _WIDE else _show_stacked)(console, shown)


def _show_table(console: Console, shown: Sequence[Line]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("recipe", "claim", "effect [95% interval]", "verdict"):
        table.add_column(name, no_wrap=name != "claim", overflow="fold")
    for line in shown:
        table.add_row(line.entry.recipe.name, line.claim.claim, *_result(line), style=_STYLES[line.verdict])
    console.print(table)


def _show_stacked(console: Console, shown: Sequence[Line]) -> None:
    """For terminals too narrow for claims in a column."""
    for line in shown:
        effect, verdict = _result(line)
        console.print(f"{line.entry.recipe.name}: {verdict} {effect}".rstrip(), style=_STYLES[line.verdict])
        console.print(Padding(line.claim.claim, (0, 0, 0, 4)))


def _result(line: Line) -> tuple[str, str]:
    """The effect and the verdict in words."""
    return effect_text(line.row) if line.row else "", f"{line.verdict}{' STALE' if line.stale else ''}"
