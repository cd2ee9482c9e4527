"""SPARK: Stepwise Process-Aware Rewards for Reference-Free Reinforcement Learning.

N verifications of one solution, without a reference answer, become one label a step:

    step-level     v_k = what most verifications say of step k; a tie is incorrect
    outcome-level  y = what most say of the whole, and the steps of the first verification that says so

What differs: the paper trains judges on verifications that agree with the consensus; here the consensus itself is compared
with the truth. A verification is the truth with one verdict in five flipped, independently of the others (a 32B model's errors
are not); N = 16 as in the paper. RL with the judge's verdicts is not measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import known, spent
from footfall.reward.generative.spark import outcome_consensus, step_consensus
from footfall.simulate import Noisy
from footfall.types import Cost

RECIPE = Recipe(
    name="spark",
    paper="SPARK: Stepwise Process-Aware Rewards for Reference-Free Reinforcement Learning",
    arxiv=None,
    year=2025,
    stage="data",
    world="arithmetic, algebra, logic",
    scale="200 traces of each world a seed, right and wrong ones, 16 simulated verifications of each.",
    claims=(
        Claim(
            "Step-level consistency names the first error more often than outcome-level consistency.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="outcome consistency", method="step consistency",
            beside=("step consistency, arithmetic", "step consistency, algebra", "step consistency, logic"),
            stand_in="The paper's figure is ProcessBench F1 of judges trained on each; here the labels are compared with "
            "the truth, and verifications are simulated.",
        ),
        Claim(
            "Sixteen verifications that vote on steps name the first error more often than one.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="one verification", method="step consistency",
            stand_in="Verifications are simulated, and the labels are compared with the truth.",
        ),
    ),
)  # fmt: skip
VERIFICATIONS, FLIPPED, PRICE = 16, 0.2, 64


def measure(trial: Trial) -> Outcome:
    """How often each way to put the same verifications together names the first error."""
    arms, cost = defaultdict[str, list[float]](list), Cost()
    for world in ("arithmetic", "algebra", "logic"):
        given = known(trial, world, trial.size(200, 5))
        noise = [
            Noisy(given.truth, FLIPPED, FLIPPED, seed=1000 * trial.seed + k, price=PRICE) for k in range(VERIFICATIONS)
        ]
        said = [judge.judge(given.traces) for judge in noise]
        for rows, first in zip(zip(*said, strict=True), given.first_errors, strict=True):
            verdicts = [tuple(value is None or value >= 0.5 for value in each.values) for each in rows]
            whole = outcome_consensus(verdicts)
            found = {
                "one verification": verdicts[0],
                "outcome consistency": next(row for row in verdicts if all(row) == whole),
                "step consistency": step_consensus(verdicts),
            }
            for way, labels in found.items():
                for arm in (way, f"{way}, {world}"):
                    arms[arm].append(float(_first(labels) == first))
        cost += spent(*said)
    return Outcome(dict(arms), cost)


def _first(labels: Sequence[bool]) -> int:
    return list(labels).index(False) if False in labels else -1
