"""One runner for all benchmarks: cases with truth, a judge (or its scores in a file), figures with intervals.

A benchmark is its cases and one function from judgements to figures. The runner asks the judge, resamples the cases
within their splits, and writes down what every number must name: threshold and its policy, data revision, judge, cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from footfall import notebook
from footfall.benchmarks.scores import Scores
from footfall.judging import traits
from footfall.metrics.cases import KNOW_NOTHING, Case
from footfall.metrics.intervals import RESAMPLES, Floats, Interval, case_weights, from_resamples
from footfall.types import Cost, Json, Judge, Judged, Judgement, content_key

Figures = Mapping[str, Mapping[str, Floats]]
"""split -> figure -> one value a row of weights."""
_CONTROL_RESAMPLES = 200
NAMED = 5
"""Ids of left out or unknown cases that a report names."""


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
    truth_threshold: float = 0.5
    """A step is truly right if its truth is at least this; diagnostics and pages go by it too."""
    aside: frozenset[str] = frozenset()
    """Splits whose step truth does not say whether a step is right: diagnostics and shown traces leave them out."""
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Figures of others to stand beside the measured ones: model -> row -> `objective` in percent."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the data: rows left out or mended, and how many."""
    of: int | None = None
    """All cases of the data, where `cases` are only some of them."""


def limited(benchmark: Benchmark, limit: int) -> Benchmark:
    """About `limit` cases, evenly spaced over all so that every split has its share; groups that are compared stay whole."""
    cases = benchmark.cases
    units: dict[str | int, list[int]] = {}
    for i, case in enumerate(cases):
        units.setdefault(case.group or i, []).append(i)
    count = max(1, limit * len(units) // len(cases)) if cases else 0
    if limit >= len(cases):
        return benchmark
    grouped = list(units.values())
    taken = sorted(i for k in range(count) for i in grouped[k * len(grouped) // count])
    return replace(benchmark, cases=[cases[i] for i in taken], of=len(cases))


class Tuned(NamedTuple):
    """The threshold with the best figure on `split`; that split is then left out of the report."""

    split: str


Threshold = float | Tuned | Literal["own"] | None
"""A number, one to be tuned, the judge's own or an error, or the judge's own where it has one and else the benchmark's."""


def content_revision(cases: Sequence[Case]) -> str:
    """Names cases that came from no file by what they hold."""
    return "rows:" + content_key([[c.split, c.trajectory.id, c.trajectory.key, list(c.truth.values)] for c in cases])


class Measured(NamedTuple):
    """A report with what it was made from."""

    report: Report
    cases: Sequence[Case]
    """Those that are reported on."""
    judgements: Sequence[Judgement]
    figures: Figures
    """One value a resample; the first is that of the data itself."""


def run(
    benchmark: Benchmark,
    judge: Judge | Scores,
    threshold: Threshold = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Report:
    """Measure a judge. `threshold=None` takes the judge's own (`judge.threshold`) or else the benchmark's."""
    return measured(benchmark, judge, threshold, seed, resamples).report


def measured(
    benchmark: Benchmark,
    judge: Judge | Scores,
    threshold: Threshold = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Measured:
    """As `run`, with the cases, their judgements and all resampled figures beside the report."""
    if not benchmark.cases:
        raise ValueError(f"{benchmark.name}: the data has no case to measure a judge on")
    cases, judgements, notes = _judged(benchmark, judge)
    value, policy, tuned_on = _threshold(benchmark, judge, cases, judgements, threshold)
    kept = [i for i, case in enumerate(cases) if case.split != tuned_on]
    if not kept:
        raise ValueError(f"{benchmark.name}: every case is in the split {tuned_on!r} that the threshold was tuned on")
    shown, said = [cases[i] for i in kept], [judgements[i] for i in kept]
    groups = [case.group or f"case {i}" for i, case in enumerate(shown)]
    weights_RN = case_weights([case.split for case in shown], seed, resamples, groups)
    figures = benchmark.measure(shown, said, value, weights_RN)
    sizes = {
        name: len({group for case, group in zip(shown, groups, strict=True) if case.split == name}) for name in figures
    }
    there = {_place(case) for case in cases}
    missing = [f"{case.split}/{case.trajectory.id}" for case in benchmark.cases if _place(case) not in there]
    unknown = judge.unknown(map(_place, benchmark.cases)) if isinstance(judge, Scores) else []
    report = Report(
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
        notes=(*benchmark.notes, *notes),
        cost=Cost.total(judgement.cost for judgement in judgements),
        objective=benchmark.objective,
        left_out_ids=tuple(missing[:NAMED]),
        unknown=len(unknown),
        unknown_ids=tuple(unknown[:NAMED]),
        of=benchmark.of,
    )
    return Measured(report, shown, said, figures)


def know_nothing(benchmark: Benchmark, cases: Sequence[Case], seed: int) -> dict[str, Report]:
    """What judges that know nothing reach on these cases at the benchmark's threshold, on fewer resamples."""
    same = replace(benchmark, cases=cases)
    return {judge.name: run(same, judge, benchmark.threshold, seed, _CONTROL_RESAMPLES) for judge in KNOW_NOTHING}


def _place(case: Case) -> tuple[str, str]:
    return case.split, case.trajectory.id


def _judged(benchmark: Benchmark, judge: Judge | Scores) -> tuple[list[Case], list[Judgement], list[str]]:
    """The cases that the judge has a word on, what it says, and what a reader must know of the choice."""
    cases = list(benchmark.cases)
    notes: list[str] = []
    if isinstance(judge, Scores):
        cases, notes = _scored(benchmark, judge)
        judgements = [judge.judgement(case.split, case.trajectory) for case in cases]
        by_step = any(truth is not None for case in cases for truth in case.truth.values)
        if by_step and all(value is None for judgement in judgements for value in judgement.values):
            raise ValueError(f"{judge.name}: it has no score of a single step, and {benchmark.name} measures steps")
    else:
        judgements = judge.judge([case.trajectory for case in cases])
    if len(judgements) != len(cases):
        raise ValueError(f"judge {judge.name!r} gave {len(judgements)} judgements for {len(cases)} trajectories")
    return cases, [j.check(case.trajectory) for case, j in zip(cases, judgements, strict=True)], notes


def _scored(benchmark: Benchmark, scores: Scores) -> tuple[list[Case], list[str]]:
    """The cases with scores. Candidates are compared as a whole group, so one without scores takes its group along."""
    cases = [case for case in benchmark.cases if scores.has(case.split, case.trajectory)]
    if not len(scores):
        raise ValueError(f"{scores.name}: there is no row with scores in it")
    if not cases:
        known = ", ".join(repr(case.trajectory.id) for case in benchmark.cases[:NAMED])
        unknown = ", ".join(map(repr, scores.unknown(map(_place, benchmark.cases))[:NAMED]))
        raise ValueError(
            f"{scores.name}: none of its {len(scores)} ids ({unknown}, …) is a case of {benchmark.name}; "
            f"its ids are {known}, …"
        )
    broken = {
        (case.split, case.group)
        for case in benchmark.cases
        if case.group and _compared(case) and not scores.has(case.split, case.trajectory)
    }
    whole = [case for case in cases if (case.split, case.group) not in broken]
    if not whole:
        raise ValueError(f"{scores.name}: no group of {benchmark.name} has scores for all of its responses")
    if len(whole) == len(cases):
        return cases, []
    return whole, [f"{len(cases) - len(whole)} scored responses are left out: others of their group have no scores"]


def _compared(case: Case) -> bool:
    """Whether the case is held against others of its group; one whose steps have a truth is measured by itself."""
    return case.truth.value is not None and all(value is None for value in case.truth.values)


def _threshold(
    benchmark: Benchmark,
    judge: Judge | Scores,
    cases: list[Case],
    judgements: list[Judgement],
    wanted: Threshold,
) -> tuple[float, str, str | None]:
    """The value, where it comes from, and the split that it must not be reported on."""
    own = traits(judge).threshold
    if wanted == "own" and own is None:
        raise ValueError(f"{judge.name} declares no threshold of its own; name a number, or tune one on a split")
    if wanted is None or wanted == "own":
        return (benchmark.threshold, "the benchmark's own", None) if own is None else (own, "the judge's own", None)
    if not isinstance(wanted, Tuned):
        return wanted, "fixed", None
    if all(map(_compared, benchmark.cases)):
        raise ValueError(f"{benchmark.name} compares responses by their scores: it has no threshold to tune")
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
        raise ValueError(f"{benchmark.name}: all steps of {split!r} have one value, there is no threshold to choose")
    middles = (values[1:] + values[:-1]) / 2
    tried = middles[np.linspace(0, len(middles) - 1, min(200, len(middles))).astype(int)]
    one = np.ones((1, len(cases)))
    rows = [benchmark.measure(cases, judgements, float(t), one).get(split, {}) for t in tried]
    reached = [float(row[benchmark.objective][0]) if benchmark.objective in row else math.nan for row in rows]
    if np.isnan(reached).all():
        raise ValueError(f"{benchmark.name}: {benchmark.objective} has no value on {split!r}; tune on another split")
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


_TOGETHER = ("overall", "mean", "pooled", "all", "total")
"""What benchmarks call the row of all splits together."""


@dataclass(frozen=True, slots=True)
class SplitFigures:
    """The figures of one split, or of all together (`n` is then `None`)."""

    name: str
    n: int | None
    """Cases; groups of cases where they are compared within groups."""
    figures: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Report:
    """Figures by split with 95% bootstrap intervals."""

    benchmark: str
    judge: str
    revision: str
    """Content hash of the data."""
    protocol: str
    """How step values became predictions: aggregation and rule."""
    threshold: float
    threshold_policy: str
    splits: tuple[SplitFigures, ...]
    used: int
    left_out: int
    """Cases for which there are no scores."""
    tuned_away: int
    """Cases of the split that the threshold was tuned on."""
    unjudged_steps: int
    resamples: int
    seed: int
    cost: Cost
    notes: tuple[str, ...] = ()
    """What a reader must know of the data."""
    objective: str = ""
    """The figure that judges are compared by."""
    left_out_ids: tuple[str, ...] = ()
    """The first few of the cases left out."""
    unknown: int = 0
    """Ids in a scores file that are no case of the benchmark."""
    unknown_ids: tuple[str, ...] = ()
    """The first few of them."""
    of: int | None = None
    """All cases of the data, where only some were asked for."""

    @property
    def traces(self) -> str:
        """How many were measured, in words: `80 of 3,400`."""
        return f"{self.used:,}" if self.of is None else f"{self.used:,} of {self.of:,}"

    def value(self, split: str, figure: str) -> float:
        """One number, e.g. `report.value("gsm8k", "f1")`."""
        return self.figure(split, figure).value

    def figure(self, split: str, figure: str) -> Interval:
        """One number with its interval."""
        for row in self.splits:
            if row.name == split:
                return row.figures[figure]
        raise KeyError(f"{self.benchmark} has no split {split!r}; there are {', '.join(r.name for r in self.splits)}")

    def main_row(self) -> SplitFigures:
        """The row that sums the benchmark up: a mean or pooled one where there is one, else the first."""
        rows = [row for row in self.splits if self.objective in row.figures] or list(self.splits)
        together = [row for row in rows if row.n is None]
        named = [row for row in together if row.name in _TOGETHER]
        return (named or together[-1:] or rows)[0]

    def to_dict(self) -> dict[str, Json]:
        """JSON; a figure that has no value (an empty class) is null."""
        given: dict[str, Json] = {
            name: getattr(self, name)
            for name in (
                "benchmark", "judge", "revision", "protocol", "threshold", "threshold_policy", "used", "left_out",
                "tuned_away", "unjudged_steps", "resamples", "seed", "objective", "unknown",
            )
        }  # fmt: skip
        given["splits"] = {
            row.name: {"n": row.n, **{name: figure.to_dict() for name, figure in row.figures.items()}}
            for row in self.splits
        }
        listed = {name: list(getattr(self, name)) for name in ("notes", "left_out_ids", "unknown_ids")}
        some: dict[str, Json] = {} if self.of is None else {"limited": {"used": self.used, "of": self.of}}
        return {**given, **some, **listed, "cost": self.cost.to_dict()}

    def _repr_html_(self) -> str:
        header, *rows = self.table()
        title = f"{self.judge} on {self.benchmark}, {self.traces} traces, percent with 95% intervals"
        return notebook.table(f"{title}\nthreshold {self.threshold:.4g} ({self.threshold_policy})", header, rows)

    def table(self) -> list[list[str]]:
        """A header and one row a split, as text; figures in [0, 1] are shown in percent with their interval."""
        names = list(dict.fromkeys(name for row in self.splits for name in row.figures))
        rows = [["split", "n", *names]]
        for row in self.splits:
            cells = [percent(row.figures[name]) if name in row.figures else "" for name in names]
            rows.append([row.name, "" if row.n is None else str(row.n), *cells])
        return rows


def percent(figure: Interval) -> str:
    """`83.7 [80.1, 87.0]`; a dash where there is nothing to measure."""
    if not math.isfinite(figure.value):
        return "–"
    value, low, high = (100 * number for number in figure)
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"
