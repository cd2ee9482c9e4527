"""CAPO: Towards Enhancing LLM Reasoning through Generative Credit Assignment (arXiv 2508.02298).

Critiques name the wrong steps, and their tokens pay a penalty below the weight of the outcome:

    R_it = 2 R_i − 1[t in a step that is voted wrong],     A = (R_it − mean) / std over all tokens of the group

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. A critique is wrong about one step in five; four of them vote.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way

RECIPE = Recipe(
    name="capo",
    paper="CAPO: Towards Enhancing LLM Reasoning through Generative Credit Assignment",
    arxiv="2508.02298", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Penalties on steps that are voted wrong end at a higher accuracy than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="CAPO, four critiques",
            beside=("CAPO, one critique",),
            stand_in="The paper trains language models and has a large one as critic; here the policy is a table, so "
            "that accuracy is exact, and a critique is wrong about one step in five.",
        ),
        Claim("They learn faster than GRPO.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="CAPO, four critiques, along",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Four critiques that vote end higher than one.",
            metric="accuracy after the last update", direction="higher",
            baseline="CAPO, one critique", method="CAPO, four critiques",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {
        "GRPO": way("grpo"), "CAPO, four critiques": way("capo", "critics"),
        "CAPO, one critique": way("capo", "critic"),
    })  # fmt: skip
