"""Rewarding Progress: Scaling Automated Process Verifiers for LLM Reasoning (arXiv 2410.08146).

The outcome at the end, and at every step α times its progress under a prover, Best-of-K of the policy:

    reward_k = α (Q_k − Q_{k−1}) + 1[k = S] R,     Q = 1 − (1 − V)^K

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. V is the chance of the untrained policy to solve the problem from there
on, blurred; α = 3, K = 4. The recipe `pav` has the claims on labels and search.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="pav-rl",
    paper="Rewarding Progress: Scaling Automated Process Verifiers for LLM Reasoning",
    arxiv="2410.08146", year=2024, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: problems of 5 and of 16 operations of 32 kinds, 40 updates of 4 groups of "
    "8 rollouts, accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Progress under Best-of-4 beside the outcome learns faster than the outcome alone, at equal "
            "rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="outcomes, along", method="PAV, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Where one problem in ten is solved at first, it learns faster than the outcome alone.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="outcomes, hard, along", method="PAV, hard, along",
            beside=("outcomes, hard", "PAV, hard",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact, and the "
            "values of such problems are smaller than the judge's blur of 0.15.",
        ),
        Claim("It ends at a higher accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcomes", method="PAV",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Best-of-4 as prover learns faster than the policy itself.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="prover: the policy, along", method="PAV, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {
        "outcomes": way("rloo"), "PAV": way("pav", "values"), "prover: the policy": way("pav", "values", k=1),
    }, hard=("outcomes", "PAV"))  # fmt: skip
