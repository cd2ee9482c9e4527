"""Process Reinforcement through Implicit Rewards (arXiv 2502.01456).

A language model π_φ that is trained on outcomes beside the policy gives every token a reward:

    r_t = log π_φ(y_t) − log π_ref(y_t),   loss of π_φ: CE(σ(β Σ_t r_t), outcome),   both rewards by leave-one-out, then added

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. π_φ is a table that begins as the policy; β = 1, for a trace has ten
tokens and not a thousand. The frozen one learns in the first five updates only.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="prime",
    paper="Process Reinforcement through Implicit Rewards",
    arxiv="2502.01456", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: problems of 5 and of 16 operations of 32 kinds, 40 updates of 4 groups of "
    "8 rollouts, accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Implicit step rewards beside the outcome learn faster than the outcome alone, at equal rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="outcomes, along", method="PRIME, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Where one problem in ten is solved at first, it learns faster than the outcome alone.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="outcomes, hard, along", method="PRIME, hard, along",
            beside=("outcomes, hard", "PRIME, hard",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("It ends at a higher accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcomes", method="PRIME",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("A reward model that is updated online ends higher than one that is frozen.",
            metric="accuracy after the last update", direction="higher",
            baseline="frozen reward model", method="PRIME",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {
        "outcomes": way("rloo"), "PRIME": way("prime"), "frozen reward model": replace(way("prime"), learns=5),
    }, hard=("outcomes", "PRIME"))  # fmt: skip
