"""Implicit PRM: Free Process Rewards without Process Labels (Yuan et al., arXiv 2412.01981).

An outcome reward that is a log-ratio of the model and its own beginning is a sum over tokens, so that every step has its share:

    r(y) = β Σ_t [log π(y_t) − log π_ref(y_t)],   q_k the sum up to the end of step k,   r_k = q_k − q_{k−1}

It is trained on outcomes alone, here by cross-entropy and by DPO. A solution is worth its lowest r_k.

What differs: model and reference are the policy that wrote the traces. Pairs of DPO are a right and a wrong trace of one
problem, which not all have, and come around until as many traces were seen. Beside it stand step heads on the same traces: one
on Monte Carlo labels, as Math-Shepherd, one on the outcomes.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.train.config import TrainConfig
from footfall.types import Judged, Judgement

RECIPE = Recipe(
    name="implicit-prm",
    paper="Free Process Rewards without Process Labels",
    arxiv="2412.01981",
    year=2024,
    stage="train",
    world="arithmetic",
    scale="PRMs of 9.5M parameters on 2,400 traces; 8,000 solutions of 1,000 held-out problems a seed.",
    claims=(
        Claim(
            "An implicit PRM trained by DPO on outcomes gives better best-of-N than a step head on Monte Carlo labels.",
            metric="accuracy, best of 8", direction="higher",
            baseline="Monte Carlo labels, best of 8", method="DPO, best of 8",
            beside=("soft Monte Carlo labels, best of 8", "cross-entropy, best of 8"),
        ),
        Claim(
            "Trained by cross-entropy it gives better best-of-N than the step head too.",
            metric="accuracy, best of 8", direction="higher",
            baseline="Monte Carlo labels, best of 8", method="cross-entropy, best of 8",
        ),
        Claim(
            "DPO gives better best-of-N than cross-entropy.",
            metric="accuracy, best of 8", direction="higher",
            baseline="cross-entropy, best of 8", method="DPO, best of 8",
        ),
        Claim(
            "On the same outcome labels an implicit PRM finds first errors better than a step head.",
            metric="F1 of the first error", direction="higher",
            baseline="outcome labels", method="cross-entropy", beside=("DPO", "Monte Carlo labels"),
            threshold="other data", stand_in="The paper measures best-of-N; EurusPRM is measured on ProcessBench.",
        ),
        Claim(
            "On the same outcome labels an implicit PRM finds first errors better than a step head, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher",
            baseline="outcome labels", method="cross-entropy", tier="real", threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and first-error F1 of implicit PRMs and of step heads on the same traces."""
    trial = prms.large(trial)
    soft = prms.arm_rows(trial)
    outcomes = [Judged(trace, prms.outcome_label(trace)) for trace in prms.arm_traces(trial)]
    pairs = [
        Judged(trace, prms.outcome_label(trace))
        for both in prms.right_and_wrong(prms.arm_traces(trial))
        for pair in zip(*both, strict=False) for trace in pair
    ]  # fmt: skip
    trained = {
        "Monte Carlo labels": prms.arm(trial, soft, "bce", threshold=0.0),
        "soft Monte Carlo labels": prms.arm(trial, soft, "soft-bce"),
        "outcome labels": prms.arm(trial, outcomes, "bce", threshold=0.5),
        "cross-entropy": prms.arm_with(trial, outcomes, _implicit("cross-entropy")),
        "DPO": prms.arm_with(trial, pairs, _implicit("dpo")),
    }
    arms = prms.figures(trial, trained, ranked=_rewards)
    return Outcome(arms, prms.spent_on(trial, prms.rolled_out(trial), trained.values()))


def _implicit(form: str) -> TrainConfig:
    return TrainConfig("log-ratio", {"form": form}, "implicit", lr=3e-4)


def _rewards(said: Judgement) -> Judgement:
    """Of an implicit PRM the rewards r_k in place of the values σ(q_k)."""
    return replace(said, values=said.aspects.get("reward", said.values))
