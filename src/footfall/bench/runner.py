"""One runner for all benchmarks: cases with truth, a judge (or its scores in a file), figures with intervals.

A benchmark is its cases and one function from judgements to figures. The runner asks the judge, resamples the cases
within their splits, and writes down what every number must name: threshold and its policy, data revision, judge, cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from footfall.bench.figures import Report, SplitFigures
from footfall.bench.intervals import RESAMPLES, Floats, Interval, case_weights, from_resamples
from footfall.bench.scores import Scores
from footfall.types import Cost, Judge, Judged, Judgement, Trajectory, content_key

__all__ = ["Benchmark", "Case", "Figures", "Tuned", "cases_from", "content_revision", "run"]

Figures = Mapping[str, Mapping[str, Floats]]
"""split -> figure -> one value a row of weights."""


class Case(NamedTuple):
    """A trajectory whose truth is known, and the split or category that it is counted in."""

    split: str
    trajectory: Trajectory
    truth: Judgement
    """Step truth in `values` (None: not known), outcome truth in `value` (1.0: the right or chosen one)."""
    group: str = ""
    """Cases of one split and group (the candidates of one problem) are compared with each other and resampled together;
    without a group a case stands alone."""


@dataclass(frozen=True)
class Benchmark:
    """What is measured (`cases`) and how (`measure`)."""

    name: str
    cases: Sequence[Case]
    measure: Callable[[Sequence[Case], Sequence[Judgement], float, Floats], Figures]
    """cases, their judgements, threshold and case weights -> figures of each split; may add rows such as "mean"."""
    protocol: str
    """One line: how step values become a prediction."""
    objective: str
    """The figure that a threshold is tuned for."""
    revision: str
    """Content hash of the data."""
    threshold: float = 0.5
    """The benchmark's own."""
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Figures of others to stand beside the measured ones: model -> row -> `objective` in percent."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the data: rows left out or mended, and how many."""


class Tuned(NamedTuple):
    """The threshold with the best figure on `split`; that split is then left out of the report."""

    split: str


def content_revision(cases: Sequence[Case]) -> str:
    """Names cases that came from no file by what they hold."""
    return "rows:" + content_key([[c.split, c.trajectory.id, c.trajectory.key, list(c.truth.values)] for c in cases])


def run(
    benchmark: Benchmark,
    judge: Judge | Scores,
    threshold: float | Tuned | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Report:
    """Measure a judge. `threshold=None` takes the judge's own (`judge.threshold`) or else the benchmark's."""
    cases, judgements = _judged(benchmark, judge)
    own: float | None = getattr(judge, "threshold", None)
    if threshold is None and own is not None:
        value, policy, tuned_on = own, "the judge's own", None
    else:
        value, policy, tuned_on = _threshold(benchmark, cases, judgements, threshold)
    kept = [i for i, case in enumerate(cases) if case.split != tuned_on]
    if not kept:
        raise ValueError(f"{benchmark.name}: every case is in the split {tuned_on!r} that the threshold was tuned on")
    shown, said = [cases[i] for i in kept], [judgements[i] for i in kept]
    groups = [case.group or f"case {i}" for i, case in enumerate(shown)]
    weights_RN = case_weights([case.split for case in shown], seed, resamples, groups)
    figures = benchmark.measure(shown, said, value, weights_RN)
    sizes = {name: sum(case.split == name for case in shown) for name in figures}
    return Report(
        benchmark=benchmark.name,
        judge=judge.name,
        revision=benchmark.revision,
        protocol=benchmark.protocol,
        threshold=value,
        threshold_policy=policy,
        splits=tuple(SplitFigures(name, sizes[name] or None, _intervals(row)) for name, row in figures.items()),
        used=len(shown),
        left_out=len(benchmark.cases) - len(cases),
        tuned_away=len(cases) - len(shown),
        unjudged_steps=sum(value is None for judgement in said for value in judgement.values),
        resamples=resamples,
        seed=seed,
        notes=benchmark.notes,
        cost=Cost.total(judgement.cost for judgement in judgements),
    )


def _judged(benchmark: Benchmark, judge: Judge | Scores) -> tuple[list[Case], list[Judgement]]:
    cases = list(benchmark.cases)
    if isinstance(judge, Scores):
        cases = [case for case in cases if judge.has(case.split, case.trajectory)]
        if not cases:
            raise ValueError(f"{judge.name}: none of its {len(judge)} ids is a case of {benchmark.name}")
        judgements = [judge.judgement(case.split, case.trajectory) for case in cases]
    else:
        judgements = judge.judge([case.trajectory for case in cases])
    if len(judgements) != len(cases):
        raise ValueError(f"judge {judge.name!r} gave {len(judgements)} judgements for {len(cases)} trajectories")
    return cases, [j.check(case.trajectory) for case, j in zip(cases, judgements, strict=True)]


def _threshold(
    benchmark: Benchmark, cases: list[Case], judgements: list[Judgement], wanted: float | Tuned | None
) -> tuple[float, str, str | None]:
    """The value, where it comes from, and the split that it must not be reported on."""
    if wanted is None:
        return benchmark.threshold, "the benchmark's own", None
    if not isinstance(wanted, Tuned):
        return wanted, "fixed", None
    there = [i for i, case in enumerate(cases) if case.split == wanted.split]
    if not there:
        known = ", ".join(dict.fromkeys(case.split for case in cases))
        raise ValueError(f"{benchmark.name} has no split {wanted.split!r} to tune a threshold on; there are {known}")
    best = _tune(benchmark, [cases[i] for i in there], [judgements[i] for i in there], wanted.split)
    return best, f"tuned for {benchmark.objective} on {wanted.split}, which is not reported", wanted.split


def _tune(benchmark: Benchmark, cases: list[Case], judgements: list[Judgement], split: str) -> float:
    """Tries the midpoints between neighbouring values, at most 200 of them; the lowest of equals."""
    values = np.unique([v for j in judgements for v in j.values if v is not None])
    if len(values) < 2:
        return benchmark.threshold
    middles = (values[1:] + values[:-1]) / 2
    tried = middles[np.linspace(0, len(middles) - 1, min(200, len(middles))).astype(int)]
    one = np.ones((1, len(cases)))
    reached = [float(benchmark.measure(cases, judgements, float(t), one)[split][benchmark.objective][0]) for t in tried]
    return float(tried[int(np.nanargmax(reached))])


def _intervals(row: Mapping[str, Floats]) -> dict[str, Interval]:
    return {name: from_resamples(figures_R) for name, figures_R in row.items()}


def cases_from(rows: Sequence[Judged], split: str, source: str) -> list[Case]:
    """Rows of process data as cases of one split; a row without truth is an error."""
    cases = []
    for row in rows:
        if row.judgement is None:
            raise ValueError(f"{source}: row {row.trajectory.id!r} has no step labels to measure a judge against")
        cases.append(Case(split, row.trajectory, row.judgement))
    return cases
