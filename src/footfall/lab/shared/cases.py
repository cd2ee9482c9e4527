"""Benchmark cases from world traces, judges whose error rate is known, and figures of a benchmark's own `measure`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from footfall.benchmarks.runner import Benchmark, Figures, content_revision
from footfall.metrics.cases import Case
from footfall.metrics.preferences import Credit, Measure, compare, response_score, tie_credit
from footfall.types import Cost, Judge, Judgement, Trajectory, content_key
from footfall.worlds import TruthJudge

__all__ = [
    "NoisyTruth", "Said", "benchmark_of", "credits", "figures", "judged_once", "response_cases", "step_cases",
]  # fmt: skip


@dataclass(frozen=True)
class Said:
    """A judge that repeats what was said before, by the trace's id."""

    name: str
    judgements: Mapping[str, Judgement]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self.judgements[t.id] for t in trajectories]

    @classmethod
    def of(cls, name: str, judgements: Sequence[Judgement]) -> Said:
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
        return f"noisy-truth(error={self.error:g},seed={self.seed})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
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
