"""Symbolically-guided Monte Carlo process supervision (Tan et al., arXiv 2505.20415): picking logical trajectories.

Steps of symbolic reasoning are labelled by n = 5 continuations; several trajectories of a problem are scored, and chosen:

    score = Π_i p_i      preference pair (a, b) if score_a − score_b > 0.25      SFT: all p_i > 0.5 and the answer right

What differs: the logic world writes sentences of fixed forms in place of formulas. The scores p_i are the labels
themselves, not those of a PRM trained on them; no model is trained on what was chosen. The truth of each step is known, so
what is chosen can be looked at: how many steps of it are wrong.
"""

from __future__ import annotations

from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import WORLDS
from footfall.label.monte_carlo import fit_for_sft, preference_pairs, symbolic_mc, trajectory_score
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.types import Cost, Judged
from footfall.worlds import StepTruth

RECIPE = Recipe(
    name="symbolic-mc",
    paper="Enhancing Logical Reasoning in Language Models via Symbolically-Guided Monte Carlo Process Supervision",
    arxiv="2505.20415",
    year=2025,
    stage="data",
    world="logic",
    scale="80 problems a seed, 5 trajectories each by the scripted policy, which is also the completer.",
    claims=(
        Claim(
            "Trajectories kept for SFT by their steps have fewer wrong steps than those kept by their answer alone.",
            metric="wrong steps a trajectory kept",
            direction="lower", baseline="right answer", method="right answer and every step above one half",
            stand_in="The paper trains models on the trajectories that are kept; here the wrong steps in what is "
            "kept are counted.",
        ),
        Claim(
            "Of a preference pair by score, the preferred trajectory has fewer wrong steps.",
            metric="wrong steps a trajectory",
            direction="lower", baseline="dispreferred", method="preferred",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Wrong steps in trajectories that are kept or preferred by their labels, and in the others."""
    world, policy, _ = WORLDS["short logic"]
    params = SamplingParams(seed=trial.seed)
    prefixes = [world.prefix(problem) for problem in world.problems(trial.size(80, 8), trial.seed)]
    drawn = [[world.graded(trace) for trace in row] for row in draw_traces(policy, prefixes, 5, params)]
    labels = iter(symbolic_mc(policy, params=params).judge([trace for row in drawn for trace in row]))
    arms: dict[str, list[float]] = {
        claim_arm: [] for claim in RECIPE.claims for claim_arm in (claim.baseline, claim.method)
    }
    spent = Cost()
    for traces in drawn:
        rows = [Judged(trace, next(labels)) for trace in traces]
        spent += Cost.total(row.judgement.cost for row in rows if row.judgement)
        wrong = [float(sum(step is StepTruth.WRONG for step in world.check(trace))) for trace in traces]
        kept = [count for row, count in zip(rows, wrong, strict=True) if fit_for_sft(row)]
        if kept:
            arms["right answer"].append(fmean(count for t, count in zip(traces, wrong, strict=True) if t.correct))
            arms["right answer and every step above one half"].append(fmean(kept))
        scores = [trajectory_score([value or 0.0 for value in row.judgement.values]) for row in rows if row.judgement]
        for better, worse in preference_pairs(scores):
            arms["preferred"].append(wrong[better])
            arms["dispreferred"].append(wrong[worse])
    return Outcome(arms, spent)
