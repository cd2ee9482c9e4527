"""DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models (arXiv 2402.03300).

The completions of one prompt are each other's baseline, with outcomes or with step rewards:

    A_i = (R_i − mean R) / std R,      process: A_it = Σ over steps that end at or after t of (r − mean) / std over all steps

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. Step rewards are the chance of the untrained policy to solve the problem
from there on, blurred.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="grpo",
    paper="DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
    arxiv="2402.03300", year=2024, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Training by group-relative advantages of outcomes raises accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="before", method="GRPO",
            beside=("RLOO", "REINFORCE++",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("The group as baseline learns faster than no baseline, at equal rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="no baseline, along", method="GRPO, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Step rewards learn faster than outcomes alone, at equal rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="GRPO with step rewards, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {
        "GRPO": way("grpo"), "no baseline": way("clip-delta", alpha=0.0, baseline="none"), "RLOO": way("rloo"),
        "REINFORCE++": way("reinforce++"), "GRPO with step rewards": way("grpo-process", "values"),
    })  # fmt: skip
