"""Scaling LLM Test-Time Compute Optimally can be More Effective than Scaling Model Parameters (Snell et al., arXiv 2408.03314).

How to spend test-time compute depends on how hard a problem is. The difficulty is estimated by the mean PRM score of a few
samples; for each bin the method that was best on other problems is taken:

    θ*(q) = argmax_θ accuracy(θ | bin of q),   bin by  d = mean score of the pilot's solutions

What differs: four pilot samples instead of 2,048, three bins instead of five, and the pilot's tokens count as spent. The
policy is scripted arithmetic that errs one step in three; the PRM knows its exact values, blurred by a normal error on the
scale of logits. The bins' methods are chosen on 400 other problems among nothing more, weighted votes and beam search.
Best-of-N and the weighted vote have as many samples on every problem as cost what the chooser spends on average.
"""

from __future__ import annotations

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.search import BestOf, ComputeOptimal, best_by_difficulty, curve
from footfall.search.compute_optimal import method_of
from footfall.simulate import Blurred
from footfall.types import Cost, SearchResult
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="compute-optimal",
    paper="Scaling LLM Test-Time Compute Optimally can be More Effective than Scaling Model Parameters",
    arxiv="2408.03314",
    year=2024,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that gets a step wrong one time in three; blurred exact values; bins fitted on 400 problems, 400 "
    "others a seed.",
    claims=(
        Claim(
            "At equal tokens a method by difficulty beats best-of-N.",
            metric="accuracy", direction="higher", baseline="best-of-N", method="compute-optimal",
            beside=("weighted vote", "single sample"),
            stand_in="The paper's judge is a trained PRM and its measure the compute for equal accuracy; here "
            "blurred exact values, and the accuracy at equal tokens.",
        ),
        Claim(
            "It is as accurate as the best fixed method (at most two points less).",
            metric="accuracy", direction="higher", baseline="best fixed", method="compute-optimal", margin=-0.02,
        ),
        Claim(
            "It needs fewer tokens than the best fixed method.",
            metric="tokens a problem, as a share of the best fixed method's on average", direction="lower",
            baseline="best fixed, tokens", method="compute-optimal, tokens",
        ),
    ),
)  # fmt: skip
PILOT, CUTS = 4, (0.2, 0.6)
FIXED = ("weighted-vote:n=8", "weighted-vote:n=16", "beam-search:n=8,expansions=4", "beam-search:n=16,expansions=4")


def measure(trial: Trial) -> Outcome:
    """The method chosen by difficulty against the best fixed one and against samples of equal tokens."""
    judge = Blurred(searches.WRITER, 2.0, seed=trial.seed)
    others = ArithmeticWorld().problems(trial.size(400, 6), trial.seed + 1000, split="test")
    given = searches.problems(trial, trial.size(400, 6))
    pilot = searches.searched(trial, BestOf(PILOT, "weighted", "last"), judge, others)
    tried = {name: searches.searched(trial, method_of(name), judge, others) for name in FIXED}
    known = {"": searches.right(pilot)} | {name: searches.right(found) for name, found in tried.items()}
    chooser: ComputeOptimal = best_by_difficulty(list(map(_ease, pilot)), known, CUTS, pilot=PILOT)
    best = max(FIXED, key=lambda name: sum(known[name]))
    chosen, fixed = (searches.searched(trial, method, judge, given) for method in (chooser, method_of(best)))
    paid, whole = searches.tokens(chosen), searches.tokens(fixed)
    samples = searches.searched(trial, BestOf(64, "best", "last"), judge, given)
    equal = min(64, round(64 * sum(paid) / sum(searches.tokens(samples))) or 1)
    even = curve(samples, [equal], ("single", "best", "weighted"), aggregation="last").correct
    arms = {
        "compute-optimal": searches.right(chosen),
        "best fixed": searches.right(fixed),
        "best-of-N": even["best"][0].tolist(),
        "weighted vote": even["weighted"][0].tolist(),
        "single sample": even["single"][0].tolist(),
        "compute-optimal, tokens": [t / float(np.mean(whole)) for t in paid],
        "best fixed, tokens": [t / float(np.mean(whole)) for t in whole],
    }
    spent = [pilot, chosen, fixed, samples, *tried.values()]
    return Outcome(arms, Cost.total(r.cost for found in spent for r in found))


def _ease(result: SearchResult) -> float:
    """What the chooser estimates from a pilot: the mean score of its solutions."""
    scores = [score for score in result.scores if score is not None]
    return sum(scores) / len(scores) if scores else 0.0
