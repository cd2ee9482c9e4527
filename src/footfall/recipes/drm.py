"""From <Answer> to <Think>: a dimension-level reward model (DRM).

Whole solutions are scored along three dimensions, each normalised over the samples of a problem, and the sum chooses:

    DRM_i = Σ_d w_d z_d,i,   d of confidence (log-probabilities), relevance, coherence;   pair = (highest, lowest)

What differs: dimensions are simulated. Each is right about a solution on the scale of logits up to an error of its own, of a
stated size; their errors are independent. Weights are equal, each dimension is brought from 0 to 1 over 8 samples. Training on
the pairs, or on the sum as an advantage, is not measured.
"""

from __future__ import annotations

from math import log
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import searches
from footfall.reward.generative.drm import Dimensions, drm_scores, extremes
from footfall.search import choose
from footfall.simulate import blurred_value, normal
from footfall.types import Cost, Trajectory

RECIPE = Recipe(
    name="drm",
    paper="From <Answer> to <Think>: Multidimensional Supervision of Reasoning Process for LLM Optimization",
    arxiv=None, year=2025, stage="data", world="arithmetic",
    scale="8 samples of each of 250 problems a seed, by a scripted policy; three simulated dimensions of each.",
    claims=(
        Claim("Pairs by the sum are a right solution above a wrong one more often than pairs by how many samples agree.",
            metric="share of pairs, of problems with right and wrong samples", direction="higher",
            baseline="pairs, agreement", method="pairs, DRM",
            beside=("pairs, confidence", "pairs, relevance", "pairs, coherence"),
            stand_in="The paper trains on such pairs and compares models with RLVR; here the pairs are compared with the "
            "truth, and the dimensions are simulated.",
        ),
        Claim("They are so more often than pairs by the best of its dimensions.",
            metric="share of pairs, of problems with right and wrong samples", direction="higher",
            baseline="pairs, coherence", method="pairs, DRM",
            stand_in="The dimensions are simulated and the pairs compared with the truth; no model is trained on them.",
        ),
        Claim("The sample with the highest sum is right more often than the majority's.",
            metric="accuracy, 8 samples", direction="higher",
            baseline="majority", method="best of 8, DRM", beside=("single sample", "best of 8, coherence"),
            stand_in="The dimensions are simulated; the paper chooses by trained models.",
        ),
    ),
)  # fmt: skip
SAMPLES, PRICE = 8, 4
ERRORS = {"confidence": 5.0, "relevance": 4.0, "coherence": 3.0}
"""Of each dimension, on the scale of logits on which a right and a wrong solution lie 4.4 apart."""


def dimensions(trace: Trajectory, index: int, seed: int) -> Dimensions:
    """What the three say of a sample."""
    said = {}
    for name, sigma in ERRORS.items():
        shift = sigma * normal(seed, trace.key, index, name)
        value = blurred_value(float(bool(trace.correct)), shift, 0.1)
        said[name] = log(value) if name == "confidence" else value
    return Dimensions(**said)


def measure(trial: Trial) -> Outcome:
    """How often the pair, and the best, of each score are what they should be."""
    samples = searches.drawn(trial, SAMPLES, searches.problems(trial, trial.size(250, 6)))
    arms: dict[str, list[float]] = {"majority": searches.right(samples), "single sample": searches.single(samples)}
    true: dict[str, list[bool]] = {}
    for result in samples:
        traces = [trace for trace, _ in result.candidates]
        answers = [trace.answer for trace in traces]
        rows = [dimensions(trace, i, trial.seed) for i, trace in enumerate(traces)]
        scores = {name: [getattr(row, name) for row in rows] for name in ERRORS}
        scores |= {"DRM": drm_scores(rows), "agreement": [float(answers.count(each)) for each in answers]}
        mixed = len({bool(trace.correct) for trace in traces}) == 2
        pairs = {name: extremes(row) for name, row in scores.items()}
        for name, pair in pairs.items():
            if mixed and pair is not None:
                right, wrong = (bool(traces[i].correct) for i in pair)
                true.setdefault(f"pairs, {name}", []).append(right and not wrong)
        for name, row in scores.items():
            best = choose(traces, row, "best")
            arms.setdefault(f"best of 8, {name}", []).append(float(bool(best and best.correct)))
    calls = len(samples) * SAMPLES * PRICE
    shares = {name: fmean(pairs) for name, pairs in true.items()}
    return Outcome({**arms, **shares}, Cost.total(r.cost for r in samples) + Cost(scored_tokens=calls, calls=calls))
