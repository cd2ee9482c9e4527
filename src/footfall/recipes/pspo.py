"""PSPO*: An Effective Process-supervised Policy Optimization for Reasoning Alignment (arXiv 2411.11681).

A chain is worth the geometric mean of its step scores times a shape of the number of steps:

    reward = g · h(S),   g = (Π r_k)^(1/S),   h a Weibull density (k 1.5, λ 8) or the released code's exponential

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. The shapes are as published, with their best number of steps at four. So
the main claim is tried on problems that take four; the other one, and arms beside, on problems that take six. No outcome is
used.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import Sizes, outcome_of, train_all, way

RECIPE = Recipe(
    name="pspo",
    paper="PSPO*: An Effective Process-supervised Policy Optimization for Reasoning Alignment",
    arxiv="2411.11681", year=2024, stage="rl", world="tables",
    scale="Policies that are tables, 64 a seed for the first claim and six for the second: 32 kinds of operations, 40 updates "
    "of 4 groups of 8 rollouts, accuracy exact on 16 held-out problems, of four steps for the first claim and of six for the "
    "second.",
    claims=(
        Claim("Training on the shaped geometric mean raises accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="before, four steps", method="PSPO, as released, four steps",
            beside=("PSPO, Weibull, four steps", "before", "PSPO, as released", "PSPO, Weibull"),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("A shape over the number of steps ends higher than the mean of the step scores.",
            metric="accuracy after the last update", direction="higher",
            baseline="mean of the step scores", method="PSPO, as released",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems of each length."""
    released, weibull, short = way("pspo"), way("pspo", shape="weibull"), Sizes(depth=3, horizon=12)
    ways = {
        "PSPO, as released": released,
        "PSPO, Weibull": weibull,
        "mean of the step scores": way("reinforce-step", how="mean"),
    }
    # Runs end either high or near 0: only many of them tell the mean. The policies are none that a design was tried on.
    many = train_all(trial, {"released": released}, short, policies=64, first=100)["released"]
    few = train_all(trial, {"weibull": weibull}, short, first=100)["weibull"]
    return outcome_of(
        train_all(trial, ways), [*many, *few], **{
            "before, four steps": [each.before for each in many], "PSPO, as released, four steps": [each.end for each in many],
            "PSPO, Weibull, four steps": [each.end for each in few],
        }
    )  # fmt: skip
