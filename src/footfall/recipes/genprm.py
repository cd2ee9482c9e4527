"""GenPRM: Scaling Test-Time Compute of Process Reward Models via Generative Reasoning (Zhao et al., arXiv 2504.00891).

Its labels are relative progress. With MC(s_1) the success rate of the problem and MC(s_t, a_t) that after step t:

    P_t = MC(s_t, a_t) / MC(s_t),   a step is right if P_t ≥ 0.8; once an MC is 0, all later ones count as 0

A solution is kept for training only if these labels agree with those of a judge that reads it (consensus filter).

What differs: the paper compares PRMs trained on each kind of label; here the labels themselves are compared with the
truth, in three worlds. All rules read the same 32 rollouts a prefix (paper: 32 to 128), a problem never solved in 32 counts as
missed by all. The judge of the filter is the truth with one verdict in ten flipped, in place of a 32B model. The
generative verifier itself, which needs an LLM that writes code, is `footfall.reward.generative`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import hits, known, spent
from footfall.label.relative_progress import RelativeProgress
from footfall.policy.protocol import SamplingParams
from footfall.simulate import Noisy
from footfall.types import Cost

RECIPE = Recipe(
    name="genprm",
    paper="GenPRM: Scaling Test-Time Compute of Process Reward Models via Generative Reasoning",
    arxiv="2504.00891",
    year=2025,
    stage="data",
    world="arithmetic, algebra, code",
    scale="200 traces of each world a seed, right and wrong ones, by scripted policies that are also the completers.",
    claims=(
        Claim(
            "Relative progress finds first errors more often than hard labels, MC > 0.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="MC > 0", method="ratio >= 0.8",
            beside=("ratio >= 0.8, arithmetic", "ratio >= 0.8, algebra", "ratio >= 0.8, code"),
            stand_in="The paper's figure is ProcessBench F1 of a generative PRM; here its labels by relative "
            "progress are compared with the truth.",
        ),
        Claim(
            "Relative progress finds first errors more often than an absolute cut of the same rollouts.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="MC >= 0.5", method="ratio >= 0.8",
            beside=("MC >= 0.5, arithmetic", "MC >= 0.5, algebra", "MC >= 0.5, code"),
        ),
        Claim(
            "The ratio finds first errors more often than the difference of success rates.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="difference >= -0.5", method="ratio >= 0.8",
        ),
        Claim(
            "A ratio of 0.8 finds first errors more often than one of 1.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="ratio >= 1", method="ratio >= 0.8",
        ),
        Claim(
            "Where relative progress and a judge agree, its labels are right more often.",
            metric="first-error accuracy of relative progress", direction="higher",
            baseline="all solutions", method="kept by consensus",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """How often each rule on success rates finds the first error, and what agreement with a critic keeps."""
    arms, cost, drawn = defaultdict[str, list[float]](list), Cost(), SamplingParams(seed=trial.seed)
    for world in ("arithmetic", "algebra", "code"):
        given = known(trial, world, trial.size(200, 5))
        ratio = RelativeProgress(given.policy, 32, estimate="soft", params=drawn).judge(given.traces)
        rates = [replace(judgement, values=judgement.aspects["success_rate"]) for judgement in ratio]
        difference = RelativeProgress(given.policy, 32, epsilon=-0.5, compare="difference", params=drawn)
        rules = {
            "MC > 0": (rates, 1e-9), "MC >= 0.5": (rates, 0.5), "ratio >= 0.8": (ratio, 0.8), "ratio >= 1": (ratio, 1.0),
            "difference >= -0.5": (difference.judge(given.traces), 0.5),
        }  # fmt: skip
        for rule, (said, below) in rules.items():
            arms[f"{rule}, {world}"] = hits(said, given.first_errors, below)
            arms[rule] += arms[f"{rule}, {world}"]
        critic = Noisy(given.truth, seed=trial.seed).judge(given.traces)
        agree = [a.first_below(0.8) == b.first_below(0.5) for a, b in zip(ratio, critic, strict=True)]
        arms["kept"] += [hit for hit, kept in zip(arms[f"ratio >= 0.8, {world}"], agree, strict=True) if kept]
        cost += spent(ratio, rules["difference >= -0.5"][0])
    kept = arms.pop("kept")
    consensus = {"all solutions": fmean(arms["ratio >= 0.8"]), "kept by consensus": fmean(kept)}
    return Outcome({**arms, **consensus, "share kept": len(kept) / len(arms["MC > 0"])}, cost)
