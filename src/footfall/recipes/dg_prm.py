"""Dynamic and Generalizable Process Reward Modeling (DG-PRM).

Candidates for one step are rated by several criteria, and pairs for training come from Pareto dominance:

    a dominates b  iff  r_a ≥ r_b in every criterion and > in one;   pairs: one of the front, and one that it dominates

What differs: ratings are simulated: 7 for a right step and 4 for a wrong one, with a normal error of 2.5 a criterion, rounded
to 0..10, independently. Candidates are samples of a scripted policy after right prefixes of its own traces.
How a model mines criteria, chooses those that matter and rates by them, and step-wise DPO, are not measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from footfall.drive.rollouts import write
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import known
from footfall.policy.protocol import SamplingParams
from footfall.reward.generative.dg_prm import front, pareto_pairs
from footfall.simulate import normal
from footfall.types import Cost, Trajectory

RECIPE = Recipe(
    name="dg-prm",
    paper="Dynamic and Generalizable Process Reward Modeling",
    arxiv=None, year=2025, stage="data", world="arithmetic, algebra",
    scale="8 candidates after one prefix of each of 200 traces of each world a seed, five simulated criteria.",
    claims=(
        Claim("Pairs by Pareto dominance are a right step above a wrong one more often than pairs by the mean rating.",
            metric="share of pairs, steps with right and wrong candidates", direction="higher",
            baseline="by the mean", method="by dominance",
            beside=(
                "by the extremes of the mean", "pairs a step, by the mean", "pairs a step, by dominance",
                "front, 2 criteria", "front, 5 criteria", "front, 10 criteria",
            ),
            stand_in="The paper's figure is PRMBench with o1-mini as the judge; here pairs are compared with the truth, and "
            "ratings are simulated.",
        ),
        Claim("They are so more often than the highest mean above the lowest.",
            metric="share of pairs, steps with right and wrong candidates", direction="higher",
            baseline="by the extremes of the mean", method="by dominance",
            stand_in="Ratings are simulated and pairs compared with the truth; the extremes are one pair a step.",
        ),
    ),
)  # fmt: skip
CANDIDATES, CRITERIA, MOST = 8, 5, 10
GOOD, BAD, ERROR, PRICE = 7.0, 4.0, 2.5, 64


def ratings(right: bool, *drawn: object) -> list[float]:
    """0 to 10 by each of ten criteria."""
    errors = (normal(*drawn, c) for c in range(MOST))
    return [float(min(10, max(0, round((GOOD if right else BAD) + ERROR * z)))) for z in errors]


def by_mean(scores: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Every pair of a candidate with the highest mean and one with a lower mean."""
    means = [fmean(row) for row in scores]
    best = max(means)
    return [(i, j) for i, a in enumerate(means) if a == best for j, b in enumerate(means) if b < a]


def extremes(scores: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """The highest mean and the lowest, if they differ."""
    means = [fmean(row) for row in scores]
    return [(means.index(max(means)), means.index(min(means)))] if max(means) > min(means) else []


def measure(trial: Trial) -> Outcome:
    """How many pairs of each kind are true, how many there are, and how large the front is."""
    arms, true, cost = defaultdict[str, list[float]](list), defaultdict[str, list[bool]](list), Cost()
    kinds = {"by dominance": pareto_pairs, "by the mean": by_mean, "by the extremes of the mean": extremes}
    for world in ("arithmetic", "algebra"):
        given = known(trial, world, trial.size(200, 8))
        prefixes = [
            t.prefix(first if first >= 0 else len(t.steps) // 2)
            for t, first in zip(given.traces, given.first_errors, strict=True)
        ]
        drawn = write(given.policy, prefixes, CANDIDATES, SamplingParams(seed=trial.seed))
        for prefix, row in zip(prefixes, drawn, strict=True):
            cost += Cost.total(each.cost for each in row)
            nexts: list[Trajectory] = [
                each.after(prefix, given.policy.name).prefix(len(prefix.steps) + 1) for each in row
            ]
            right = [given.world.first_error(each) == -1 for each in nexts]
            if len(set(right)) < 2:
                continue
            scores = [ratings(good, trial.seed, prefix.key, i) for i, good in enumerate(right)]
            cost += Cost(generated_tokens=PRICE * CANDIDATES)
            for name, paired in kinds.items():
                pairs = paired([each[:CRITERIA] for each in scores])
                arms[f"pairs a step, {name}"].append(float(len(pairs)))
                true[name] += [right[i] and not right[j] for i, j in pairs]
            for n in (2, CRITERIA, MOST):
                arms[f"front, {n} criteria"].append(len(front([each[:n] for each in scores])) / CANDIDATES)
    return Outcome({**arms, **{name: fmean(pairs) if pairs else 0.0 for name, pairs in true.items()}}, cost)
