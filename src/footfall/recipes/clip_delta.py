"""On Designing Effective RL Reward at Training Time for LLM Reasoning (arXiv 2410.15115).

Step rewards beside the outcome are farmed by repeating right but needless steps. Two forms bound them:

    Clip   min(r_k − η, 0)         Delta   r_k − r_{k+1}, so that the return from step k on is r_k however many steps follow

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. Step rewards have half the weight of the outcome in all ways; at a tenth
the sum was not hacked in tries. The judge finds needless steps right. η = 0.7.
"""

from __future__ import annotations

from typing import Any

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import outcome_of, train_all, way

RECIPE = Recipe(
    name="clip-delta",
    paper="On Designing Effective RL Reward at Training Time for LLM Reasoning",
    arxiv="2410.15115", year=2024, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Clip and Delta end at a higher accuracy than the step rewards as they are.",
            metric="accuracy after the last update", direction="higher",
            baseline="step rewards as they are", method="Clip and Delta",
            beside=("Clip", "Delta",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Step rewards as they are end lower than outcomes alone.",
            metric="accuracy after the last update", direction="higher",
            baseline="step rewards as they are", method="outcomes",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Clip and Delta end higher than outcomes alone.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcomes", method="Clip and Delta",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Clip and Delta write fewer needless steps than the step rewards as they are.",
            metric="needless steps of a trace", direction="lower",
            baseline="needless as they are", method="needless with Clip and Delta",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy with each form beside the outcome, and the needless steps that are left."""
    forms: dict[str, dict[str, Any]] = {"Clip and Delta": {}, "Clip": {"difference": False}, "Delta": {"clip": False},
             "step rewards as they are": {"clip": False, "difference": False}}  # fmt: skip
    ways = {name: way("clip-delta", eta=0.7, alpha=0.5, **form) for name, form in forms.items()}
    trained = train_all(trial, {"outcomes": way("rloo"), **ways})
    needless = {"needless as they are": "step rewards as they are", "needless with Clip and Delta": "Clip and Delta"}
    return outcome_of(trained, **{arm: [each.wasted for each in trained[name]] for arm, name in needless.items()})
