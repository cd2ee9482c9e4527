"""ToolPRMBench: Evaluating Process Reward Models for Tool-using Agents (arXiv 2601.12294).

A case is a history with a right and a wrong next step; a judge passes if it values the right one higher:

    offline   golden history, and what the policy writes there if that is wrong
    online    the policy's own history up to its first error, and the correction of it

The paper finds that accuracy on the cases predicts the gain of best-of-8, with a break-even at one half: 48.8 and 51.5 percent.

What differs: steps are equations instead of tool calls, and right and wrong are known without LLM judges. The judges are the
truth with a share of steps told wrongly, and three trained models; best-of-8 takes the mean of step values.
"""

from __future__ import annotations

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import NoisyTruth, credits, figures, response_cases
from footfall.lab.shared.flaws import offline_pairs, online_pairs
from footfall.lab.shared.prms import POOL, Labels, judge, judged_pool, pool, spent
from footfall.metrics.preferences import last_step_score, measure_by
from footfall.types import Judge

RECIPE = Recipe(
    name="toolprmbench",
    paper="ToolPRMBench: Evaluating Process Reward Models for Tool-using Agents",
    arxiv="2601.12294",
    year=2026,
    stage="eval",
    world="arithmetic",
    scale="A seed has 800 solutions of 100 held-out problems by the embedded model of 1.1M parameters, and some 150 pairs.",
    claims=(
        Claim(
            "Accuracy on the pairs predicts the gain of best-of-8.",
            metric="correlation over eight judges",
            direction="higher", baseline="no relation", method="all pairs", beside=("offline pairs", "online pairs"),
            stand_in="The paper's cases are tool calls judged by published models; here steps of arithmetic, and "
            "judges of known error rates.",
        ),
        Claim(
            "A judge that is right on more than half of the pairs helps best-of-8.",
            metric="accuracy of answers",
            direction="higher", baseline="single sample", method="judge right on 65%", beside=("judge right on 50%",),
        ),
        Claim(
            "A judge that is right on less than half of the pairs hurts best-of-8.",
            metric="accuracy of answers",
            direction="lower", baseline="single sample", method="judge right on 35%", beside=("judge right on 50%",),
        ),
    ),
)  # fmt: skip


LABELS: tuple[Labels, ...] = ("monte-carlo", "truth", "outcome")


def measure(trial: Trial) -> Outcome:
    """How accuracy on pairs goes with best-of-8 over judges of many qualities."""
    solutions, pairs = response_cases(pool(trial)), offline_pairs(trial) + online_pairs(trial)
    judges: dict[str, Judge] = {
        f"judge right on {100 - wrong}%": NoisyTruth(wrong / 100, trial.seed) for wrong in (20, 35, 50, 65, 80)
    }
    said = {name: each.judge([case.trajectory for case in solutions]) for name, each in judges.items()}
    judges |= {labels: judge(trial, labels) for labels in LABELS}
    said |= {labels: judged_pool(trial, labels) for labels in LABELS}
    right = {name: credits(solutions, said[name], "mean") for name in judges}
    rows = [
        figures(measure_by(last_step_score), pairs, each.judge([case.trajectory for case in pairs]))
        for each in judges.values()
    ]
    reached = [float(np.mean(each)) for each in right.values()]
    found = {split: np.array([row[split]["accuracy"] for row in rows]) for split in ("offline", "online")}
    found["all"] = (found["offline"] + found["online"]) / 2
    relation = {f"{split} pairs": float(np.corrcoef(accuracy, reached)[0, 1]) for split, accuracy in found.items()}
    single = np.reshape([float(case.truth.value or 0.0) for case in solutions], (-1, POOL)).mean(axis=1).tolist()
    return Outcome({**right, **relation, "single sample": single, "no relation": 0.0}, spent(trial, *LABELS))
