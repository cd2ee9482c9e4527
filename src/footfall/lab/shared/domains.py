"""Traces of several domains for training and judging PRMs across them: by scripted policies, with the truth of each step.

A PRM is measured on held-out problems, on the steps up to the first error: what comes after it is right or wrong by
convention only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from footfall.bench.metrics import auc
from footfall.lab.recipe import Trial
from footfall.policy.protocol import Policy
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judge, Judged, Judgement, Trajectory
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    LogicPolicy,
    LogicWorld,
)  # fmt: skip

__all__ = ["DOMAINS", "first_error_rows", "first_errors", "step_auc", "traces", "trained", "untrained"]

DOMAINS: Mapping[str, tuple[Any, Policy]] = {
    "arithmetic": (ArithmeticWorld(), ArithmeticPolicy()),
    "logic": (LogicWorld(max_depth=3, two_premises=0.0, min_distractors=1, max_distractors=2), LogicPolicy()),
    "algebra": (AlgebraWorld(), AlgebraPolicy()),
    "code": (CodeWorld(families=("fold", "extreme"), tests=3, shown=0), CodePolicy()),
}
"""Worlds with short problems: the backbone reads text that it was not made for letter by letter."""


def traces(trial: Trial, domain: str, n: int, split: Literal["train", "test"] = "train") -> list[Trajectory]:
    """`n` problems of a domain, each with one graded trace by its scripted policy."""
    world, policy = DOMAINS[domain]
    return [trace for _, trace in world.traces(policy, n, trial.seed, split)]


def first_errors(domain: str, given: Sequence[Trajectory]) -> list[int]:
    """The true first error of each trace, -1 if there is none. Scripted traces can always be read."""
    return [DOMAINS[domain][0].first_error(trace) for trace in given]


def first_error_rows(judge: str, given: Sequence[Trajectory], errors: Sequence[int]) -> list[Judged]:
    """Training rows in the manner of a critic: 1 before the error, 0 at it, no label after it."""
    rows = []
    for trace, error in zip(given, errors, strict=True):
        n = len(trace.steps)
        good = n if error < 0 else error
        values = tuple(1.0 if k < good else 0.0 if k == good else None for k in range(n))
        why = tuple("after the first error" if value is None else None for value in values)
        rows.append(Judged(trace, Judgement(trace.id, values, judge, failures=why if any(why) else ())))
    return rows


def trained(
    trial: Trial, name: str, rows: Sequence[Judged], init: Path | None = None, lr: float = 1e-3
) -> tuple[Judge, Cost]:
    """A PRM on these rows, of the embedded backbone or from the PRM `init` on; and what training it cost."""
    from footfall.policy.embedded import EMBEDDED
    from footfall.reward.judge import step_head
    from footfall.train.prm import train_prm

    config = TrainConfig(lr=lr, epochs=trial.size(2, 1), seed=trial.seed, device="cpu", eval_share=0.0)
    result = train_prm(rows, init or EMBEDDED, config, trial.folder / name)
    return step_head(result.folder, device="cpu"), result.cost


def untrained(trial: Trial) -> Judge:
    """The embedded backbone with a fresh head."""
    from footfall.policy.embedded import EMBEDDED
    from footfall.reward.judge import StepHeadJudge
    from footfall.reward.step_head import StepHeadModel

    return StepHeadJudge(StepHeadModel.from_backbone(EMBEDDED, seed=trial.seed))


def step_auc(said: Sequence[Judgement], errors: Sequence[int]) -> float:
    """The chance that a right step is valued above a first error, over the steps up to each trace's first error."""
    scores: list[float] = []
    right: list[bool] = []
    for judgement, error in zip(said, errors, strict=True):
        for k, value in enumerate(judgement.values[: error + 1] if error >= 0 else judgement.values):
            if value is not None:
                scores.append(value)
                right.append(k != error)
    if len(set(right)) < 2:  # a smoke test may hold no error
        return 0.5
    return float(auc(scores, np.array(right, float)))
