"""Stop Summation: Min-Form Credit Assignment Is All Process Reward Model Needs for Reasoning (arXiv 2504.15275).

A sum of step rewards pays for more steps; the minimum does not. r* = softmax(−r / 0.1) · r, returns are sums of r*:

    G_k = Σ_{l≥k} r*_l ≈ min_{l} r_l up to the worst step, 0 after it;   the outcome beside it by RLOO, where it is known

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. It tells right steps from wrong ones, finds needless ones right, and an
answer that comes too early better than a wrong step, which is a way out for the minimum; the sum is the same rule without the
softmax. A run is hacked if its exact accuracy ends more than 10 points below its best look while the reward rose.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import outcome_of, train_all, way

RECIPE = Recipe(
    name="pure",
    paper="Stop Summation: Min-Form Credit Assignment Is All Process Reward Model Needs for Reasoning",
    arxiv="2504.15275", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed, 30 for the claim of hacked runs: 32 kinds of operations, 40 updates of 4 "
    "groups of 8 rollouts, accuracy exact on 16 held-out problems.",
    claims=(
        Claim("The minimum of the step rewards instead of their sum ends at a higher accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="sum", method="minimum",
            beside=("outcomes",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Trained on step rewards alone, sums are hacked (reward up, accuracy down) and minima are not.",
            metric="share of runs that are hacked", direction="lower",
            baseline="sum alone, hacked", method="minimum alone, hacked",
            beside=("sum alone, called by the rule", "minimum alone, called by the rule"),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Step rewards alone, in the minimum form, raise accuracy.",
            metric="accuracy after the last update", direction="higher",
            baseline="before", method="minimum alone",
            beside=("sum alone",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("The minimum with outcomes for a tenth of the problems ends higher than all outcomes without step "
            "rewards.",
            metric="accuracy after the last update", direction="higher",
            baseline="outcomes", method="minimum, a tenth of the outcomes",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy with sums and minima, beside outcomes, with a tenth of them and alone; and which runs were hacked."""
    least, total = replace(way("pure"), proxy="min"), replace(way("pure", form="sum"), proxy="sum")
    alone = {
        "minimum alone": replace(way("pure", coef=0.0), proxy="min"),
        "sum alone": replace(way("pure", form="sum", coef=0.0), proxy="sum"),
    }  # fmt: skip
    ways = {
        "outcomes": way("rloo"), "minimum": least, "sum": total,
        "minimum, a tenth of the outcomes": replace(least, answers=0.1), **alone,
    }  # fmt: skip
    # Most runs of either are hacked: many are needed to tell the shares apart. The policies are none of the other claims'.
    many = train_all(trial, alone, policies=30, first=100)
    signs = {f"{name}, hacked": [float(each.truly_hacked) for each in runs] for name, runs in many.items()}
    called = {f"{name}, called by the rule": [float(each.hacked) for each in runs] for name, runs in many.items()}
    others = [each for runs in many.values() for each in runs]
    return outcome_of(train_all(trial, ways), others, **signs, **called)
