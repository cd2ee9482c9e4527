"""Good Learners Think Their Thinking: Generative PRM Makes Large Reasoning Model More Efficient Math Learner (arXiv
2507.23317).

A judge says which thoughts are wrong. With a the standardised outcome and r_c = α · share of right rollouts:

    right completion   right thought a, wrong thought a − r_c         wrong completion   wrong thought a, any other 0

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. The judge knows which steps are wrong, in the place of a language model
that reads reflections; every step is a thought.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="tp-grpo",
    paper="Good Learners Think Their Thinking: Generative PRM Makes Large Reasoning Model More Efficient Math "
    "Learner",
    arxiv="2507.23317", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Thought-level rewards learn faster than GRPO, at equal rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="TP-GRPO, along",
            stand_in="The paper trains language models and has one that reads reflections as judge; here the policy is a"
            " table, so that accuracy is exact, and the judge knows which steps are wrong.",
        ),
        Claim("They end at a higher accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="TP-GRPO",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {"GRPO": way("grpo"), "TP-GRPO": way("tp-grpo", "truth")})
