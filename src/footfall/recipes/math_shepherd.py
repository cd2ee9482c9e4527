"""Math-Shepherd: Verify and Reinforce LLMs Step-by-step without Human Annotations (Wang et al., arXiv 2312.08935).

A step is good if the answer can still be reached from it. Complete the prefix s_1..s_i N times, with answers a_j:

    soft estimate  SE_i = (1/N) Σ_j 1[a_j = a*]  →  v(s_1..s_i), with E|SE − v| falling as 1/√N
    hard estimate  HE_i = 1[SE_i > 0],  P(HE_i = 1) = 1 − (1 − v)^N

What differs: the paper can only compare labels with other labels. Here the completer is scripted, recovers from an error
three times in ten, and its exact value v of every prefix is known. So the labels themselves are measured, without
training on them. The last step of a trace is left out: its label is the outcome, and is exact.
"""

from __future__ import annotations

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge

RECIPE = Recipe(
    name="math-shepherd",
    paper="Math-Shepherd: Verify and Reinforce LLMs Step-by-step without Human Annotations",
    arxiv="2312.08935",
    year=2023,
    stage="data",
    world="arithmetic",
    scale="300 traces a seed by the scripted policy, which is also the completer; exact values by dynamic programming.",
    claims=(
        Claim(
            "Soft labels approach the exact value as rollouts grow.",
            metric="mean absolute error of soft labels against exact values",
            direction="lower", baseline="4 rollouts", method="16 rollouts", beside=("2 rollouts", "64 rollouts"),
            stand_in="The paper verifies and reinforces with a PRM on the labels; here the labels are compared with "
            "exact values.",
        ),
        Claim(
            "Hard labels call wrong steps good when they can be recovered from; soft labels cut at one half do so less.",
            metric="share of first errors labelled good, 8 rollouts",
            direction="lower", baseline="hard labels", method="soft labels", beside=("hard labels in theory",),
        ),
        Claim(
            "A PRM on soft labels finds first errors better than one on hard labels of the same rollouts, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher",
            baseline="PRM on hard labels", method="PRM on soft labels", tier="real", threshold="other data",
        ),
        Claim(
            "A PRM on soft labels chooses better of 16 solutions than one on hard labels of the same rollouts, on GSM8K test.",
            metric="accuracy of best-of-16, min", direction="higher",
            baseline="PRM on hard labels", method="PRM on soft labels", tier="real",
        ),
        Claim(
            "A PRM on soft labels chooses better of 16 solutions than one on hard labels of the same rollouts, on MATH-500.",
            metric="accuracy of best-of-16, min", direction="higher",
            baseline="PRM on hard labels", method="PRM on soft labels", tier="real",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Error of soft labels by rollouts against exact values, and wrong steps that hard labels call good."""
    world, policy = ArithmeticWorld(), ArithmeticPolicy(recover=0.3)
    traces = [trace for _, trace in world.traces(policy, trial.size(300, 10), trial.seed)]
    exact = [np.array(judgement.values[:-1], float) for judgement in ExactValueJudge(policy).judge(traces)]
    judges = {n: MonteCarlo(policy, rollouts=n, params=SamplingParams(seed=trial.seed)) for n in (2, 4, 8, 16, 64)}
    judged = {n: judge.judge(traces) for n, judge in judges.items()}
    soft = {n: [np.array(judgement.values[:-1], float) for judgement in judged[n]] for n in judged}
    errors = {
        f"{n} rollouts": [float(abs(se - v).mean()) for se, v in zip(soft[n], exact, strict=True)] for n in soft
    }  # fmt: skip
    wrong = [(i, k) for i, k in enumerate(map(world.first_error, traces)) if 0 <= k < len(exact[i])]
    labelled_good = {
        "hard labels": [float(soft[8][i][k] > 0) for i, k in wrong],
        "soft labels": [float(soft[8][i][k] >= 0.5) for i, k in wrong],
        "hard labels in theory": [1 - (1 - float(exact[i][k])) ** 8 for i, k in wrong],
    }
    return Outcome({**errors, **labelled_good}, Cost.total(j.cost for row in judged.values() for j in row))
