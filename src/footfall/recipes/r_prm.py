"""R-PRM: Reasoning-Driven Process Reward Modeling (She et al., arXiv 2503.21295).

K critiques of a step are written, each ends in p(Yes), and their mean is the value:

    v = (1/K) Σ_k p_k(Yes),   the first step with v < 0.5 is the first error

What differs: critiques are simulated. Each is the truth on the scale of logits, moved by an error that all critiques of the
step share and by one of its own, of equal size; a model's critiques share more or less than that. The paper's training (SFT on
the analyses of a stronger model, then DPO between right and wrong ones of its own) is not measured.
"""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import hits, known
from footfall.simulate import blurred_value, normal
from footfall.types import Cost, Judgement, Trajectory

RECIPE = Recipe(
    name="r-prm",
    paper="R-PRM: Reasoning-Driven Process Reward Modeling",
    arxiv="2503.21295", year=2025, stage="model", world="arithmetic, algebra, logic",
    scale="200 traces of each world a seed, right and wrong ones, ten simulated critiques of each step.",
    claims=(
        Claim("Ten critiques whose p(Yes) is averaged name the first error more often than one.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="1 critique", method="mean of 10",
            beside=("mean of 10, arithmetic", "mean of 10, algebra", "mean of 10, logic"),
            stand_in="The paper's main figure is ProcessBench F1 of a trained judge beside other PRMs; here critiques are "
            "simulated, so that their error is known.",
        ),
        Claim("Four do so more often than two.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="mean of 2", method="mean of 4",
            stand_in="Critiques are simulated, so that their error is known.",
        ),
        Claim("The mean of p(Yes) does so more often than the majority of the verdicts.",
            metric="first-error accuracy, right traces included", direction="higher",
            baseline="majority of 10", method="mean of 10",
            stand_in="Critiques are simulated; the paper takes the mean and does not compare.",
        ),
    ),
)  # fmt: skip
CRITIQUES, SIGMA, FLOOR, PRICE = 10, 2.5, 0.1, 64


def critiques(trace: Trajectory, k: int, true: float, seed: int) -> list[float]:
    """p(Yes) of each critique of step k: half of the error's variance is common to all."""
    key = trace.prefix(k + 1).key
    common, *own = (normal(seed, key, j) for j in range(CRITIQUES + 1))
    return [blurred_value(true, SIGMA * (common + each) / sqrt(2), FLOOR) for each in own]


def measure(trial: Trial) -> Outcome:
    """How often each way to put the same critiques together names the first error."""
    arms, cost = defaultdict[str, list[float]](list), Cost()
    ways = {"1 critique": 1, "mean of 2": 2, "mean of 4": 4, "mean of 10": CRITIQUES}
    for world in ("arithmetic", "algebra", "logic"):
        given = known(trial, world, trial.size(200, 5))
        rows = [
            [None if v is None else critiques(t, k, v, trial.seed) for k, v in enumerate(truth.values)]
            for t, truth in zip(given.traces, given.truth.judge(given.traces), strict=True)
        ]
        votes = [[None if p is None else fmean(x > 0.5 for x in p) for p in row] for row in rows]
        values = {way: [[None if p is None else fmean(p[:n]) for p in row] for row in rows] for way, n in ways.items()}
        for way, found in {**values, "majority of 10": votes}.items():
            said = [Judgement(t.id, tuple(row), way) for t, row in zip(given.traces, found, strict=True)]
            arms[f"{way}, {world}"] = hits(said, given.first_errors)
            arms[way] += arms[f"{way}, {world}"]
        cost += Cost(generated_tokens=PRICE * CRITIQUES * sum(map(len, rows)))
    return Outcome(dict(arms), cost)
