"""RED: Unleashing Token-Level Rewards from Holistic Feedback via Reward Redistribution (arXiv 2411.08302).

A reward model of whole texts is read at every token; what a token adds is its reward:

    r̃_t = V_t − V_{t−1},     A_it = RLOO(V_T) + (r̃_t − mean_t r̃)

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. The reward model says the chance of the untrained policy to solve the
problem from there on, blurred; true outcomes are not used.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way
from footfall.rl.exact import Chain, Trace
from footfall.rl.groups import Rollout

RECIPE = Recipe(
    name="red",
    paper="RED: Unleashing Token-Level Rewards from Holistic Feedback via Reward Redistribution",
    arxiv="2411.08302", year=2024, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("A score that is shared out to the tokens learns faster than the same score at the end.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="score at the end, along", method="RED, along",
            stand_in="The paper trains language models on preferences and counts wins; here the policy is a table, and "
            "the reward model says the untrained policy's chance to solve the problem.",
        ),
        Claim("It ends at a higher accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="score at the end", method="RED",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def _last(trace: Trace, made: Rollout, chain: Chain) -> float:
    return float(made.known("token_scores")[-1])


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {"RED": way("red", "values"), "score at the end": way("rloo", "values", worth=_last)})
