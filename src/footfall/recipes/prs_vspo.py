"""Enhancing Agentic RL with Progressive Reward Shaping and Value-based Sampling Policy Optimization (arXiv 2512.07478).

PRS is a ladder: 0 for what cannot be parsed, then a rung, then quality. VSPO replaces groups without spread by others of the
batch, drawn by 4p(1−p) · std, and damps what is used often.

What differs: The policy is a table over kinds of operations, the judge a table too (`footfall.lab.shared.tables`), the
optimizer Adam at one learning rate for all ways. A trace that is cut before an answer counts as not parsed, any answer as
well-formed with the quality 1 or 0. VSPO's constants are a reading of the abstract.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.tables import compared, way
from footfall.rl.bounded import ladder
from footfall.rl.exact import STOP, Chain, Trace
from footfall.rl.groups import Rollout

RECIPE = Recipe(
    name="prs-vspo",
    paper="Enhancing Agentic RL with Progressive Reward Shaping and Value-based Sampling Policy Optimization",
    arxiv="2512.07478", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, 40 updates of 4 groups of 8 rollouts, "
    "accuracy exact on 16 held-out problems.",
    claims=(
        Claim("Replacing groups without spread learns faster than GRPO, at equal rollouts.",
            metric="accuracy, mean over the updates", direction="higher",
            baseline="GRPO, along", method="VSPO, along",
            stand_in="The paper trains agents that use tools; here the policy is a table, so that accuracy is exact, and"
            " constants are a reading of the abstract.",
        ),
        Claim("It ends at a higher accuracy than GRPO.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="VSPO",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("The ladder of rewards ends higher than the binary one.",
            metric="accuracy after the last update", direction="higher",
            baseline="GRPO", method="PRS",
            stand_in="The paper trains language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def _rung(trace: Trace, made: Rollout, chain: Chain) -> float:
    return ladder(bool(trace.actions[-1] == STOP), True, float(trace.solved(chain)))


def measure(trial: Trial) -> Outcome:
    """Accuracy under each way of training, on the same policies and problems."""
    return compared(trial, {"GRPO": way("grpo"), "VSPO": way("grpo", keep="vspo"), "PRS": way("grpo", worth=_rung)})
