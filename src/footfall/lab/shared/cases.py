"""Benchmark cases from world traces, figures of a benchmark's own `measure`, and what a PRM or labels are worth on a pool.

On a pool of solutions a PRM is a chooser (`best_of_n`) and a finder of first errors (`first_error_f1`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from footfall.benchmarks import processbench
from footfall.benchmarks.runner import Benchmark, Figures, Tuned, content_revision, measured
from footfall.label.scan import label_noise
from footfall.metrics.cases import Case, Measure
from footfall.metrics.preferences import Credit, compare, response_score, tie_credit
from footfall.types import Cost, Judge, Judged, Judgement, Trajectory, content_key
from footfall.worlds import ArithmeticWorld, TruthJudge


@dataclass(frozen=True)
class Said:
    """A judge that repeats what was said before, by the trace's id."""

    name: str
    judgements: Mapping[str, Judgement]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The judgements that were given, found by the trace's id."""
        return [self.judgements[t.id] for t in trajectories]

    @classmethod
    def of(cls, name: str, judgements: Sequence[Judgement]) -> Said:
        """A judge that repeats these judgements."""
        return cls(name, {judgement.trajectory_id: judgement for judgement in judgements})


@dataclass(frozen=True)
class NoisyTruth:
    """Says the true class of a step, or with probability `error` the other one: (class + u) / 2 with u uniform.

    Of a right and a wrong step it puts the right one higher with probability 1 − `error`.
    """

    error: float
    seed: int = 0

    @property
    def name(self) -> str:
        """Its error rate and seed."""
        return f"noisy-truth(error={self.error:g},seed={self.seed})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The truth of each step, flipped at the error rate by a draw of its own."""
        truths = TruthJudge().judge(trajectories)
        return [self._judgement(t, truth) for t, truth in zip(trajectories, truths, strict=True)]

    def _judgement(self, trajectory: Trajectory, truth: Judgement) -> Judgement:
        rng = np.random.default_rng(int(content_key(self.name, trajectory.key), 16))
        right = np.asarray(truth.values, dtype=np.float64)
        said = np.abs(right - (rng.random(len(right)) < self.error))
        return Judgement(trajectory.id, tuple(((said + rng.random(len(right))) / 2).tolist()), self.name)


def step_cases(traces: Sequence[Trajectory], split: Callable[[Trajectory], str] = lambda trace: "world") -> list[Case]:
    """Traces with the truth of each step; a step that is built on an error counts as wrong."""
    return [Case(split(t), t, truth) for t, truth in zip(traces, TruthJudge().judge(traces), strict=True)]


def response_cases(traces: Sequence[Trajectory], split: str = "world") -> list[Case]:
    """Solutions with the truth of their answers; those of one problem are compared with each other."""
    truths = [Judgement(t.id, (None,) * len(t.steps), "reference", float(bool(t.correct))) for t in traces]
    return [Case(split, t, truth, t.problem.id) for t, truth in zip(traces, truths, strict=True)]


def judged_once(judge: Judge, cases: Sequence[Case]) -> tuple[list[Judgement], Cost]:
    """A judgement a case, and what they cost; a trace that is a case of several splits is read once."""
    said = Said.of(judge.name, judge.judge(list({case.trajectory.id: case.trajectory for case in cases}.values())))
    cost = Cost.total(judgement.cost for judgement in said.judgements.values())
    return said.judge([case.trajectory for case in cases]), cost


def benchmark_of(name: str, cases: Sequence[Case], measure: Callable[..., Figures], objective: str) -> Benchmark:
    """A benchmark of the package on cases from the world."""
    return Benchmark(name, cases, measure, f"that of {name}", objective, content_revision(cases))


def figures(
    measure: Callable[..., Figures] | Measure, cases: Sequence[Case], said: Sequence[Judgement], threshold: float = 0.5
) -> dict[str, dict[str, float]]:
    """row -> figure, as the benchmark's `measure` gives them."""
    rows = measure(cases, said, threshold, np.ones((1, len(cases))))
    return {row: {name: float(values[0]) for name, values in found.items()} for row, found in rows.items()}


def credits(
    cases: Sequence[Case], said: Sequence[Judgement], how: str = "min", credit: Credit = tie_credit
) -> list[float]:
    """The credit of each comparison, by the step values folded by `how`; of a whole pool it is best-of-N's accuracy."""
    compared = compare(cases, said, lambda judgement: response_score(judgement, how), credit)
    return [float(each) for each in compared.credits]


def best_of_n(pool: Sequence[Trajectory], said: Sequence[Judgement], how: str = "min") -> list[float]:
    """For each problem whether the solution valued highest is right; among equals, the share of right ones."""
    return credits(response_cases(pool), said, how)


def first_error_f1(pool: Sequence[Trajectory], said: Sequence[Judgement], threshold: float | None = None) -> float:
    """ProcessBench's F1 at a threshold; None: each half of the problems at the one that is best on the other half."""
    if threshold is not None:
        return figures(processbench.measure, step_cases(pool), said, threshold)["world"]["f1"]
    half = _halves(pool)
    benchmark = benchmark_of("processbench", step_cases(pool, lambda trace: half[trace.id]), processbench.measure, "f1")
    judge = Said.of("PRM", said)
    folds = {"even": "odd", "odd": "even"}
    return fmean(
        float(measured(benchmark, judge, Tuned(tuning), resamples=1).figures[test]["f1"][0])
        for tuning, test in folds.items()
    )


def both_f1(pool: Sequence[Trajectory], name: str, said: Sequence[Judgement]) -> dict[str, float]:
    """Both by name: at a threshold from other problems, and `at 0.5`."""
    return {name: first_error_f1(pool, said), f"{name} at 0.5": first_error_f1(pool, said, 0.5)}


def _halves(pool: Sequence[Trajectory]) -> dict[str, str]:
    """The half of each trace: by problems in turn.

    In the few problems of a smoke test a half may be without errors, or without right solutions, and no threshold can be
    chosen on it; solutions of each kind go to the halves in turn then.
    """
    sides = ("even", "odd")
    problem = {name: i % 2 for i, name in enumerate(dict.fromkeys(trace.problem.id for trace in pool))}
    flawless = {case.trajectory.id: case.truth.first_below(0.5) == -1 for case in step_cases(pool)}
    half = {trace.id: problem[trace.problem.id] for trace in pool}
    kinds = {(half[name], kind) for name, kind in flawless.items()}
    if len(kinds) < 4:
        turn: Counter[bool] = Counter()
        for name, kind in flawless.items():
            half[name] = turn[kind] % 2
            turn[kind] += 1
    return {name: sides[side] for name, side in half.items()}


def with_first_error(traces: Sequence[Trajectory], said: Sequence[Judgement]) -> list[Judged]:
    """The traces whose labels name a first error, or say that there is none."""
    return [Judged(t, j) for t, j in zip(traces, said, strict=True) if j.first_below(0.5) is not None]


def misplaced(traces: Sequence[Trajectory], said: Sequence[Judgement], threshold: float = 0.5) -> float:
    """Of the traces whose labels name a first error, or none, the share in which that is not the truth."""
    pairs = zip(traces, said, strict=True)
    found = [(j.first_below(threshold), ArithmeticWorld().first_error(t)) for t, j in pairs]
    named = [(error, truth) for error, truth in found if error is not None]
    return label_noise([error for error, _ in named], [truth for _, truth in named]).rate
