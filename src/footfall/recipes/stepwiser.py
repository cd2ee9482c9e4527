"""StepWiser: Stepwise Generative Judges for Wiser Reasoning (Xiong et al., arXiv 2508.19229).

A chunk is labelled by what it changes, not only by whether success is still possible after it. With Q the success rate
after a chunk and μ = 1 − (1 − Q)^n that of the best of n:

    Abs-Q  Q_i > 0      Rel-Ratio  Q_i / Q_(i-1) ≥ 0.8      Rel-Effective  Q_i + α (μ_i − μ_(i-1)) > 0

What differs: the paper compares judges trained by RL on each kind of label; here the labels themselves are compared with the
truth. Steps stand for chunks, α = 0.8 and n = 4 are ours, and once a Q is 0 all later ones count as 0. All rules read the
same 16 rollouts a prefix; a problem that is never solved in 16 counts as missed by all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import hits, known, spent
from footfall.label.relative_progress import RelativeProgress
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost

RECIPE = Recipe(
    name="stepwiser",
    paper="StepWiser: Stepwise Generative Judges for Wiser Reasoning",
    arxiv="2508.19229",
    year=2025,
    stage="data",
    world="arithmetic, algebra, code",
    scale="200 traces of each world a seed, right and wrong ones, by scripted policies that are also the completers.",
    claims=(
        Claim(
            "Labels by effective progress find first errors more often than Q > 0.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="Abs-Q", method="Rel-Effective",
            beside=("Rel-Effective, arithmetic", "Rel-Effective, algebra", "Rel-Effective, code"),
            stand_in="The paper's figure is ProcessBench of judges trained on each kind of label; here the labels are "
            "compared with the truth.",
        ),
        Claim(
            "They find them more often than the ratio of success rates.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="Rel-Ratio", method="Rel-Effective",
            beside=("Rel-Ratio, arithmetic", "Rel-Ratio, algebra", "Rel-Ratio, code"),
            stand_in="The labels are compared with the truth; no judge is trained on them.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """How often each rule on the same success rates names the first error."""
    arms, cost, drawn = defaultdict[str, list[float]](list), Cost(), SamplingParams(seed=trial.seed)
    for world in ("arithmetic", "algebra", "code"):
        given = known(trial, world, trial.size(200, 5))
        effective = RelativeProgress(given.policy, 16, 16, compare="effective", params=drawn).judge(given.traces)
        ratio = RelativeProgress(given.policy, 16, 16, params=drawn).judge(given.traces)
        rates = [replace(said, values=said.aspects["success_rate"]) for said in effective]
        for rule, said, below in (("Abs-Q", rates, 1e-9), ("Rel-Ratio", ratio, 0.5), ("Rel-Effective", effective, 0.5)):
            arms[f"{rule}, {world}"] = hits(said, given.first_errors, below)
            arms[rule] += arms[f"{rule}, {world}"]
        cost += spent(effective)
    return Outcome(dict(arms), cost)
