"""Judges side by side on the same cases: paired bootstrap differences from the figures that runs keep.

    d_r = figure of the judge − figure of the baseline on resample r, the same cases drawn for both
    p = min(1, 2 · min(#{d_r ≤ 0} + 1, #{d_r ≥ 0} + 1) / (R + 1))

Row 0 of the kept figures is the data itself. Each case is its own control, so the interval of the difference is usually
much narrower than the two intervals side by side suggest.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from footfall.benchmarks.runner import Measured
from footfall.formats import atomic_write
from footfall.metrics.cases import Case
from footfall.metrics.intervals import Floats, Interval, from_resamples, paired_resamples
from footfall.types import Json, content_key

RESAMPLES_FILE = "resamples.npz"
_SAME = ("benchmark", "revision", "cases", "seed", "resamples", "objective")
"""What two runs must agree in; anything else (judge, threshold) may be what is compared."""
_FACTS = ("judge", *_SAME, "protocol", "threshold_policy")


@dataclass(frozen=True, slots=True)
class Kept:
    """The figures of one run: the objective of each row, on the data and on every resample."""

    folder: str
    judge: str
    benchmark: str
    revision: str
    cases: str
    """Hash of the cases reported on, in order."""
    seed: int
    resamples: int
    objective: str
    protocol: str
    threshold: float
    threshold_policy: str
    figures: dict[tuple[str, str], Floats]
    """By row and figure."""
    given: str = ""
    """The judge as the user typed it; runs of earlier versions did not keep it."""
    data: str = ""
    """The data likewise."""
    count: int = 0
    """Of the cases; 0 in runs of earlier versions."""


class Difference(NamedTuple):
    """A judge against the baseline on one row."""

    row: str
    judge: Interval
    baseline: Interval
    difference: Interval
    p: float

    def to_dict(self) -> dict[str, Json]:
        intervals = {"judge": self.judge, "baseline": self.baseline, "difference": self.difference}
        return {**{name: interval.to_dict() for name, interval in intervals.items()}, "p": self.p}


class Comparison(NamedTuple):
    """All runs against the first."""

    names: tuple[str, ...]
    """One a run, all different."""
    runs: tuple[Kept, ...]
    differences: tuple[tuple[Difference, ...], ...]
    """One tuple of rows for each run but the first."""

    def to_dict(self) -> dict[str, Json]:
        first = self.runs[0]
        given: dict[str, Json] = {name: getattr(first, name) for name in _SAME}
        runs: list[dict[str, Json]] = [
            {"name": name, "folder": run.folder, "judge": run.judge, "threshold": run.threshold,
             "threshold_policy": run.threshold_policy}
            for name, run in zip(self.names, self.runs, strict=True)
        ]  # fmt: skip
        against = {
            name: {d.row: d.to_dict() for d in rows}
            for name, rows in zip(self.names[1:], self.differences, strict=True)
        }
        return {**given, "runs": runs, "baseline": self.names[0], "differences": against}


def case_hash(cases: Sequence[Case]) -> str:
    """Names the cases of a run by split, id and group, in their order: the resamples are drawn over just these."""
    return content_key([[case.split, case.trajectory.id, case.group] for case in cases])[:16]


def write_kept(path: Path, measured: Measured, given: str = "", data: str = "") -> None:
    """All figures of a run on all resamples, as numpy arrays without pickle; `given` and `data` are as they were typed."""
    report = measured.report
    names = [(row, figure) for row, figures in measured.figures.items() for figure in figures]
    facts = {name: getattr(report, name) for name in _FACTS if name != "cases"}
    facts |= {
        "threshold": report.threshold,
        "cases": case_hash(measured.cases),
        "count": len(measured.cases),
        "names": names,
        "given": given,
        "data": data,
    }
    values = np.stack([np.asarray(measured.figures[row][figure], dtype=np.float64) for row, figure in names])
    with atomic_write(path) as stream:
        np.savez_compressed(stream, facts=np.asarray(json.dumps(facts)), values=values)


def read_kept(folder: Path) -> Kept:
    """What `footfall bench` kept in a run's folder."""
    path = folder / RESAMPLES_FILE
    if not path.is_file():
        inner = sorted(str(found.parent) for found in folder.glob(f"*/{RESAMPLES_FILE}"))
        hint = f"there are {', '.join(inner)}" if inner else "measure the judge there again with `footfall bench`"
        raise ValueError(f"{folder} is no finished run of a benchmark, it has no {RESAMPLES_FILE}; {hint}")
    try:
        with np.load(path, allow_pickle=False) as held:
            facts, values = json.loads(str(held["facts"])), np.asarray(held["values"], dtype=np.float64)
        figures = {(row, figure): values[k] for k, (row, figure) in enumerate(facts.pop("names"))}
        return Kept(folder=str(folder), figures=figures, **facts)
    except (KeyError, IndexError, TypeError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged or not of this program ({error}); measure the judge again") from error


def compare(runs: Sequence[Kept]) -> Comparison:
    """Each run against the first, on every row that has the objective figure. Runs that do not match are refused."""
    if len(runs) < 2:
        raise ValueError("a comparison needs two runs or more: footfall bench compare RUN RUN…")
    first = runs[0]
    folders = [run.folder for run in runs]
    if len(set(folders)) < len(folders):
        raise ValueError(f"the same run is named twice: {', '.join(folders)}")
    for other in runs[1:]:
        for name in _SAME:
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                raise ValueError(
                    f"{first.folder} and {other.folder} cannot be paired, their {_WORDS[name]} differ: {ours} and {theirs}"
                )
    return Comparison(_names(runs), tuple(runs), tuple(tuple(_against(first, other)) for other in runs[1:]))


_WORDS = {
    "benchmark": "benchmarks", "revision": "data revisions", "cases": "cases (scores left out, or a split tuned on)",
    "seed": "seeds", "resamples": "numbers of resamples", "objective": "objectives",
}  # fmt: skip


def _against(baseline: Kept, judge: Kept) -> list[Difference]:
    rows = [row for row, figure in baseline.figures if figure == baseline.objective]
    found = []
    for row in rows:
        place = (row, baseline.objective)
        if place in judge.figures:
            ours, theirs = judge.figures[place], baseline.figures[place]
            found.append(Difference(row, from_resamples(ours), from_resamples(theirs), *paired_resamples(ours, theirs)))
    return found


def _names(runs: Sequence[Kept]) -> tuple[str, ...]:
    """The judges as they were typed; with the run's folder where two runs have the same one."""
    judges = [run.given or run.judge for run in runs]
    return tuple(
        judge if judges.count(judge) == 1 else f"{judge} ({run.folder}, {run.threshold:.4g})"
        for judge, run in zip(judges, runs, strict=True)
    )
