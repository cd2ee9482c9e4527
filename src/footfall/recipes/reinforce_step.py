"""Let's Reinforce Step by Step (arXiv 2311.05821).

How step scores become one reward decides what is learnt: sum, mean, minimum or product. It is given at the end; shared out,
each step of S has r_k / S, and the return from a step on grows with the steps that still follow.

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. Easy problems have three operations, hard ones eight. An outcome model
says how good the last step is.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import Sizes, outcome_of, train_all, way

RECIPE = Recipe(
    name="reinforce-step",
    paper="Let's Reinforce Step by Step",
    arxiv="2311.05821", year=2023, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: problems of 3 and of 8 operations, 32 kinds of operations, 40 "
    "updates of 4 groups of 8 rollouts, accuracy exact on 16 held-out problems.",
    claims=(
        Claim("On easy problems the mean of the step scores ends higher than an outcome model.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcome model", method="mean of the steps",
            beside=("minimum of the steps", "product of the steps",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("On hard problems it ends lower than an outcome model.",
            metric="accuracy after the last update", direction="higher",
            baseline="mean of the steps, hard", method="outcome model, hard",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("The mean ends higher than the sum.",
            metric="accuracy after the last update", direction="higher",
            baseline="sum of the steps", method="mean of the steps",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("The mean at the end ends higher than the mean shared out to the steps.",
            metric="accuracy after the last update", direction="higher",
            baseline="mean, shared out", method="mean of the steps",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy under every aggregate on easy problems, and under two on hard ones."""
    words = {"sum": "sum of the steps", "mean": "mean of the steps", "min": "minimum of the steps",
             "prod": "product of the steps"}  # fmt: skip
    ways = {name: way("reinforce-step", how=how) for how, name in words.items()}
    ways |= {
        "mean, shared out": way("reinforce-step", how="mean", placement="steps"),
        "outcome model": way("reinforce-step", how="last"),
    }
    hard = {f"{name}, hard": ways[name] for name in ("mean of the steps", "outcome model")}
    easy = train_all(trial, ways, Sizes(depth=3, horizon=12))
    return outcome_of(easy | train_all(trial, hard, Sizes(depth=8, horizon=17)))
