"""GRPO is Secretly a Process Reward Model (arXiv 2509.21154).

Completions that begin alike are a tree, in which GRPO counts a token as often as completions begin with it. λ-GRPO divides:

    A_it = (R_i − mean R) / std R,     loss_it / |{j : y_j begins as y_i up to t}|

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. A token is a step, one of four, so completions share more of their
beginnings than text does.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="lambda-grpo",
    paper="GRPO is Secretly a Process Reward Model",
    arxiv="2509.21154", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("At equal updates it ends at a higher accuracy than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="λ-GRPO",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("It learns faster than GRPO.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="λ-GRPO, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {"GRPO": way("grpo"), "λ-GRPO": way("lambda-grpo")})
