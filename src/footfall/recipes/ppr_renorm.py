"""Hybrid Reward Normalization for Process-supervised Non-verifiable Agentic Tasks (arXiv 2509.25598).

Step rewards and the outcome are centred and added, so that a good step of a failed episode is never rewarded:

    r_k = (r_p,k − ½) + (R − ½),     the last step: R

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. The judge stands for a generative model that scores the turns of a search
agent by principles.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="ppr-renorm",
    paper="Hybrid Reward Normalization for Process-supervised Non-verifiable Agentic Tasks",
    arxiv="2509.25598", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Step rewards with ReNorm end at a higher accuracy than the outcome alone.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcomes", method="ReNorm",
            stand_in="The paper trains search agents whose turns are judged by principles; here the policy is a table, "
            "so that accuracy is exact, and the judge finds needless steps right.",
        ),
        Claim("They end higher than step rewards and outcome added as they are.",
            metric="accuracy after the last update", direction="higher",
            baseline="added as they are", method="ReNorm",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {
        "outcomes": way("rloo"), "ReNorm": way("renorm"),
        "added as they are": way("clip-delta", alpha=1.0, clip=False, difference=False),
    })  # fmt: skip
