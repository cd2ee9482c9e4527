"""Process Supervision of Confidence Margin for Calibrated LLM Reasoning (arXiv 2604.23333).

A probe learns how often completions that are forced from a prefix are right. A trace is rewarded for its answer and for a wide
gap between the probe's confidence where all of them are right and where none is:

    R + 0.1 (mean{c : Y = 1} − mean{c : Y = 0}), standardised;     Brier: R − mean (c − Y)²

What differs: The policy is a table over kinds of operations (`footfall.lab.shared.tables`), the optimizer Adam at one learning
rate for all ways. The probe reads what the policy knows of itself (`footfall.lab.shared.readers`), after every step but the
last; four completions are forced there, and they go on as the policy does. As errors can be corrected, prefixes of a problem
differ less in value than those of a text. Calibration is that of a new probe for all ways, taught on the training problems.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.readers import Probe, prefix_calibration
from footfall.lab.shared.tables import outcome_of, train_all, way

RECIPE = Recipe(
    name="rlcm",
    paper="Process Supervision of Confidence Margin for Calibrated LLM Reasoning",
    arxiv="2604.23333", year=2026, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems; calibration at prefixes of 8 rollouts of each.",
    claims=(
        Claim("The margin of confidence beside the outcome ends with better calibrated confidences than GRPO.",
            metric="calibration error at prefixes", direction="lower",
            baseline="calibration, GRPO", method="calibration, RLCM",
            beside=("calibration, Brier",),
            stand_in="The paper trains language models and probes their hidden states; here policy and probe are tables.",
        ),
        Claim("It ends at no lower accuracy than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="RLCM", margin=-0.02,
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("It ends at a higher accuracy than a Brier reward of every confidence.",
            metric="accuracy after the last update", direction="higher",
            baseline="Brier", method="RLCM",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy and the calibration of confidences, with each reward."""
    trained = train_all(trial, {
        "GRPO": way("grpo"), "RLCM": replace(way("rlcm"), reader=Probe),
        "Brier": replace(way("grpo"), reader=partial(Probe, brier=True)),
    })  # fmt: skip
    errors = {f"calibration, {name}": [prefix_calibration(each, trial.seed) for each in runs]
              for name, runs in trained.items()}  # fmt: skip
    return outcome_of(trained, **errors)
