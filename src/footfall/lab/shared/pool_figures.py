"""What a PRM is worth on a pool of solutions, as a chooser and as a finder of first errors; and how right labels are."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from footfall.benchmarks import processbench
from footfall.benchmarks.runner import Tuned, measured
from footfall.lab.shared.cases import Said, benchmark_of, credits, figures, response_cases, step_cases
from footfall.label.scan import label_noise
from footfall.types import Judged, Judgement, Trajectory
from footfall.worlds import ArithmeticWorld

__all__ = ["best_of_n", "first_error_f1", "misplaced", "with_first_error"]


def best_of_n(pool: Sequence[Trajectory], said: Sequence[Judgement], how: str = "min") -> list[float]:
    """For each problem whether the solution valued highest is right; among equals, the share of right ones."""
    return credits(response_cases(pool), said, how)


def first_error_f1(pool: Sequence[Trajectory], said: Sequence[Judgement], threshold: float | None = None) -> float:
    """ProcessBench's F1 at a threshold; None: each half of the problems at the one that is best on the other half."""
    if threshold is not None:
        return figures(processbench.measure, step_cases(pool), said, threshold)["world"]["f1"]
    names = list(dict.fromkeys(trace.problem.id for trace in pool))
    half = {name: ("even", "odd")[i % 2] for i, name in enumerate(names)}
    benchmark = benchmark_of(
        "processbench", step_cases(pool, lambda trace: half[trace.problem.id]), processbench.measure, "f1"
    )
    judge = Said.of("PRM", said)
    folds = {"even": "odd", "odd": "even"}
    return fmean(
        float(measured(benchmark, judge, Tuned(tuning), resamples=1).figures[test]["f1"][0])
        for tuning, test in folds.items()
    )


def with_first_error(traces: Sequence[Trajectory], said: Sequence[Judgement]) -> list[Judged]:
    """The traces whose labels name a first error, or say that there is none."""
    return [Judged(t, j) for t, j in zip(traces, said, strict=True) if j.first_below(0.5) is not None]


def misplaced(traces: Sequence[Trajectory], said: Sequence[Judgement], threshold: float = 0.5) -> float:
    """Of the traces whose labels name a first error, or none, the share in which that is not the truth."""
    pairs = zip(traces, said, strict=True)
    found = [(j.first_below(threshold), ArithmeticWorld().first_error(t)) for t, j in pairs]
    named = [(error, truth) for error, truth in found if error is not None]
    return label_noise([error for error, _ in named], [truth for _, truth in named]).rate
