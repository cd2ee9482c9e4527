"""`footfall demo`: the whole loop on this machine, with a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from footfall.commands._options import RunOptions
from footfall.commands._output import emit, facts, figures, next_command, note
from footfall.commands._running import open_run
from footfall.demo import DemoSettings


@dataclass(frozen=True)
class DemoConfig:
    """Sample with the embedded model, label, train a PRM, and let it choose: no GPU, no network, a few minutes.

        footfall demo
        footfall demo --seed 1 --out runs/demo-1

    Writes report.html (one file, works offline) and report.json into the run directory, and leaves the PRM in prm/model,
    ready for `footfall score`.
    """  # fmt: skip

    settings: DemoSettings = field(default_factory=DemoSettings)
    run: RunOptions = field(default_factory=lambda: RunOptions(out=Path("runs/demo")))
    picture: Path | None = None
    """Also write the accuracy curves as an SVG picture here, and beside it a narrow one, NAME-narrow.svg."""


def main(config: DemoConfig) -> int:
    """Run the loop and report."""
    from footfall.demo.loop import Demo, curves, report_numbers, report_page, write_picture
    from footfall.reports.demo_page import write_report
    from footfall.store import write_json

    with open_run("demo", config, for_show=("picture",), beside=("prm",)) as run:
        findings = Demo(config.settings, config.run.seed, run, note).findings()
        accuracy = curves(findings)
        numbers = report_numbers(findings, accuracy)
        page = report_page(findings, accuracy, numbers)
        write_report(run.folder / "report.html", page)
        write_json(run.folder / "report.json", numbers)
        run.finish(numbers)
    if config.picture is not None:
        write_picture(config.picture, page)
    table = [["N", *(str(n) for n in accuracy.ns)]]
    table += [[name, *(f"{100 * a:.1f}" for a in accuracy.accuracy(rule))] for rule, name in _ROWS.items()]
    emit(numbers, config.run.json, lambda console: _show(console, table, numbers, run.folder))
    return 0


_ROWS = {"single": "single sample", "majority": "majority vote", "best": "best of N", "weighted": "PRM-weighted vote",
         "oracle": "oracle (any right)"}  # fmt: skip


def _show(console: Console, table: list[list[str]], numbers: dict[str, Any], folder: Path) -> None:
    console.print(f"Accuracy in percent on {numbers['problems']} held-out problems, against the number of samples N")
    figures(console, table)
    gain = numbers["weighted_vote_minus_majority"]
    low, high = gain["ci95"]
    facts(
        console,
        {
            "weighted vote - majority": f"{100 * gain['value']:+.1f} points, 95% interval [{100 * low:.1f}, {100 * high:.1f}]",
            "first-error F1": f"{numbers['first_error_f1']:.3f} at threshold {numbers['first_error']['threshold']}, "
            "tuned on the training traces",
            "label error": f"{numbers['label_mae']:.3f} mean absolute, soft labels against exact values",
            "report": folder / "report.html",
        },
    )
    next_command(console, "score", "--judge", folder / "prm" / "model", "YOUR.jsonl")
