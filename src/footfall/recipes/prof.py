"""Beyond Correctness: Harmonizing Process and Outcome Rewards through RL Training (arXiv 2509.03403).

Step scores choose which rollouts are trained on, outcomes alone train: of each group the right ones with the worst steps and
the wrong ones with the best steps are removed, so that both are left in equal numbers (4 of 8). A blend has the reward
R + 0.8 · mean r.

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way
from footfall.rl.exact import Chain, Trace
from footfall.rl.groups import Rollout

RECIPE = Recipe(
    name="prof",
    paper="Beyond Correctness: Harmonizing Process and Outcome Rewards through RL Training",
    arxiv="2509.03403", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Filtering by consistency ends at a higher accuracy than blending step scores into the reward.",
            metric="accuracy after the last update", direction="higher",
            baseline="blend", method="PROF",
            beside=("GRPO",),
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("Filtering by consistency ends at a higher accuracy than GRPO on all rollouts.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="PROF",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("A blend ends lower than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="blend", method="GRPO",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def _blended(trace: Trace, made: Rollout, chain: Chain) -> float:
    return float(trace.solved(chain)) + 0.8 * float(made.known("rewards").mean())


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {
        "GRPO": way("grpo"), "PROF": way("grpo", keep="prof"), "blend": way("grpo", worth=_blended),
    })  # fmt: skip
