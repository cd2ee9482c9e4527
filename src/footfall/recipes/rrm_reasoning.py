"""Reward Reasoning Model (Guo et al., arXiv 2505.14674).

A judge of pairs thinks about two responses and names the better one. Of N candidates a winner is found by a knockout (N − 1
matches) or by Elo ratings of a round-robin (N (N − 1) / 2), and more judgements of each pair vote:

    R_i += K (S_i − E_i),   E_i = 1 / (1 + 10^((R_j − R_i) / 400))

What differs: the judge is scripted. Of a right and a wrong response it prefers the right one with probability 0.7, drawn anew
for every judgement and order; of two right or two wrong ones, either. The candidates are samples of a scripted policy. The
paper's models are trained by RL and compared on RewardBench and MATH.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import choosers, searches
from footfall.registry import create
from footfall.types import Cost

RECIPE = Recipe(
    name="rrm-reasoning",
    paper="Reward Reasoning Model",
    arxiv="2505.14674",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="8 candidates of each of 60 problems a seed, by a scripted policy; a scripted judge of pairs, right in 7 of 10.",
    claims=(
        Claim(
            "Five judgements of a pair that vote choose a right solution more often than one.",
            metric="accuracy, best of 8", direction="higher",
            baseline="knockout, one judgement", method="knockout, voting@5", beside=("single sample", "oracle"),
            stand_in="The paper votes with trained models on RewardBench and PPE; here the judge is scripted, so that its "
            "error is known.",
        ),
        Claim(
            "Elo ratings of a round-robin choose a right solution more often than a knockout.",
            metric="accuracy, best of 8", direction="higher",
            baseline="knockout, one judgement", method="Elo, one judgement",
            stand_in="The judge is scripted, so that its error is known; Elo asks four times as often.",
        ),
        Claim(
            "At about equal judgements a voted knockout is no worse than Elo.",
            metric="accuracy, best of 8", direction="higher",
            baseline="Elo, one judgement", method="knockout, voting@5", margin=-0.05,
            stand_in="The paper does not compare them at equal cost.",
        ),
    ),
)  # fmt: skip
CANDIDATES, RIGHT = 8, 0.7


def measure(trial: Trial) -> Outcome:
    """How often the winner among eight is right."""
    samples = searches.drawn(trial, CANDIDATES, searches.problems(trial, trial.size(60, 4)))
    rows = [[trace for trace, _ in result.candidates] for result in samples]
    chooser = choosers.Chooser(choosers.by_text(rows), RIGHT, trial.seed)
    ways = {
        "knockout, one judgement": ("knockout", 1),
        "knockout, voting@5": ("knockout", 5),
        "Elo, one judgement": ("elo", 1),
    }
    arms: dict[str, list[float]] = {"single sample": searches.single(samples)}
    cost = Cost.total(result.cost for result in samples)
    for name, (how, votes) in ways.items():
        judge = create("reward", "rrm-reasoning", policy=chooser, how=how, n=votes, swap=False, seed=trial.seed)
        arms[name], paid = choosers.winners(judge, rows)
        cost += paid
    return Outcome({**arms, "oracle": [float(any(t.correct for t in row)) for row in rows]}, cost)
