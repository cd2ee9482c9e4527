"""Agentic Reinforcement Learning with Implicit Step Rewards (arXiv 2509.19199).

A reward model learns from pairs of right and wrong trajectories of one task; its log-ratio to the old policy rewards steps:

    r_k = β Σ_{t in k} (log π_φ − log π_old),     A_k = standardised R + r_k standardised over all steps of the group

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. π_φ is a table that begins as the policy, β = 1; problems are no agent's
tasks.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="oprl",
    paper="Agentic Reinforcement Learning with Implicit Step Rewards",
    arxiv="2509.19199", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Implicit step rewards learn faster than GRPO, at equal rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="OPRL, along",
            stand_in="The paper trains agents of many turns; here the policy is a table, so that accuracy is exact, and "
            "steps stand for turns.",
        ),
        Claim("They end at a higher accuracy than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="OPRL",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("They end higher than PRIME's rewards by token.",
            metric="accuracy after the last update", direction="higher",
            baseline="PRIME", method="OPRL",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {"GRPO": way("grpo"), "OPRL": way("oprl", beta=1.0), "PRIME": way("prime")})
