"""UHead: Reasoning with Confidence, step verification by uncertainty heads (Ni et al., arXiv 2511.06209).

A small encoder on a frozen policy reads its attentions to recent tokens and its highest next-token probabilities while it
writes, and says how likely each step is wrong:

    u_j = σ(classifier(mean over the step's tokens of encoder(features + marks of the step)));   a step is worth 1 − u_j

What differs: labels are the world's truth, for the head and for the PRMs beside it, instead of a large model's verdicts. The
policy has 1.1M parameters, the head is of size 64 (window 3, top 4, weight 3 on wrong steps) with ReLU in the place of GELU in
its encoder, and reads of a token what its own pass shows, not the one before that drew it. PRMs train all weights, or a linear
layer on the same frozen policy, in 2 passes. The head begins at random and has 40.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import best_of_n, first_error_f1
from footfall.metrics.steps import average_precision
from footfall.train.config import TrainConfig
from footfall.types import Json, Judged, Judgement, Trajectory
from footfall.worlds import TruthJudge

RECIPE = Recipe(
    name="uhead",
    paper="Reasoning with Confidence: Efficient Verification of LLM Reasoning Steps via Uncertainty Heads",
    arxiv="2511.06209",
    year=2025,
    stage="model",
    world="arithmetic",
    scale="A head on the frozen policy of 1.1M parameters, on the truth of 240 traces, in 40 passes; PRMs "
    "have 2. A seed has 800 solutions.",
    claims=(
        Claim(
            "A head on the frozen policy's attentions and probabilities tells wrong steps no worse than a PRM of all weights.",
            metric="average precision of wrong steps", direction="higher", margin=-0.02,
            baseline="all weights", method="uncertainty head",
            beside=("linear layer on the frozen policy", "uncertainty head, 2 passes"),
        ),
        Claim(
            "It tells them better than a linear layer on the frozen policy's last state.",
            metric="average precision of wrong steps", direction="higher", smallest_effect=0.02,
            baseline="linear layer on the frozen policy", method="uncertainty head",
        ),
        Claim(
            "Its best-of-N is no worse than that of the PRM of all weights.",
            metric="accuracy, best of 8", direction="higher", margin=-0.02,
            baseline="all weights, best of 8", method="uncertainty head, best of 8",
        ),
        Claim(
            "It finds first errors no worse than a step head with LoRA, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher", margin=-0.03,
            baseline="LoRA", method="uncertainty head", tier="real", threshold="other data",
        ),
    ),
)  # fmt: skip
HEAD: dict[str, Json] = {"size": 64, "heads": 4, "window": 3, "top": 4, "activation": "relu"}


def measure(trial: Trial) -> Outcome:
    """How well wrong steps are told by a head on the frozen policy, and by PRMs."""
    traces, pool = prms.arm_traces(trial), prms.arm_pool(trial)
    rows = list(map(Judged, traces, TruthJudge().judge(traces)))
    weighted = {"wrong_weight": 3.0}
    head = TrainConfig("soft-bce", weighted, lr=1e-3, head="uncertainty", head_options=HEAD)
    trained = {
        "all weights": prms.arm_with(trial, rows, TrainConfig("soft-bce", weighted, lr=3e-4)),
        "uncertainty head": prms.arm_with(trial, rows, head, passes=40),
        "uncertainty head, 2 passes": prms.arm_with(trial, rows, head),
        "linear layer on the frozen policy": prms.arm_with(
            trial, rows, TrainConfig("soft-bce", weighted, lr=1e-2, head="frozen-linear")
        ),
    }
    arms: dict[str, float | list[float]] = {name: _precision(pool, arm.said) for name, arm in trained.items()}
    for name, arm in trained.items():
        arms[f"{name}, best of 8"] = best_of_n(pool, arm.said, "min")
        arms[f"{name}, F1"] = first_error_f1(pool, arm.said)
    return Outcome(arms, prms.spent_on(trial, (), trained.values()))


def _precision(pool: Sequence[Trajectory], said: Sequence[Judgement]) -> float:
    truths = TruthJudge().judge(pool)
    steps = [(v, t) for j, truth in zip(said, truths, strict=True) for v, t in zip(j.values, truth.values, strict=True)]
    known = [(1 - v, t == 0) for v, t in steps if v is not None and t is not None]
    return float(average_precision([wrong for wrong, _ in known], [is_wrong for _, is_wrong in known]))
