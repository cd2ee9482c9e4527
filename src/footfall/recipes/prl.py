"""PRL: Process Reward Learning Improves LLMs' Reasoning Ability and Broadens the Reasoning Boundary (arXiv 2601.10201).

At the optimum of reward less KL/η every step has earned the outcome less the log-ratio that is still to come:

    A_k = standardised R − Σ_{t ≥ end of step k} (log π_old − log π_ref) / η

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. η = 20, for a trace has twenty tokens and not a thousand. Problems have 16
operations and the best of two samples is taken: of eight, one is right in nearly all problems whatever was trained.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import HARD, outcome_of, train_all, way

RECIPE = Recipe(
    name="prl",
    paper="PRL: Process Reward Learning Improves LLMs' Reasoning Ability and Broadens the Reasoning Boundary",
    arxiv="2601.10201", year=2026, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: problems of 16 operations of 32 kinds, 40 updates of 4 groups of 8 "
    "rollouts, accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Step values from the log-ratio end at a higher accuracy than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="PRL",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("They end with a higher chance that one of two samples is right.",
            metric="accuracy of the best of 2 samples", direction="higher",
            baseline="GRPO, best of 2", method="PRL, best of 2",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy of one sample and of the best of two."""
    trained = train_all(trial, {"GRPO": way("grpo"), "PRL": way("prl", eta=20.0)}, HARD)
    several = {f"{name}, best of 2": [each.best_of(2) for each in runs] for name, runs in trained.items()}
    return outcome_of(trained, **several)
