"""Process Supervision-Guided Policy Optimization for Code Generation (arXiv 2410.17621).

Lines of a program earn λ (2p − 1) / M beside the verdict of the tests, λ 0.25 for programs that fail and 0.025 for others.

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. Steps stand for lines; the critic is not warm-started, for there is none.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="psgpo-code",
    paper="Process Supervision-Guided Policy Optimization for Code Generation",
    arxiv="2410.17621", year=2024, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Line rewards beside the tests' verdict end at a higher share of solved problems than the verdict "
            "alone.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcomes", method="line rewards",
            stand_in="The paper trains language models that write programs; here the policy is a table, steps stand for "
            "lines and the answer for the tests.",
        ),
        Claim("They learn faster.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="outcomes, along", method="line rewards, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {"outcomes": way("rloo"), "line rewards": way("psgpo")})
