"""Know What You Don't Know: uncertainty calibration of process reward models (Park et al., arXiv 2506.09338).

An off-the-shelf PRM over-estimates how likely *this* policy is to finish correctly. Quantile regression on Monte Carlo success
rates of the policy gives a calibrated median and a low quantile p; instance-adaptive scaling (IAS) draws

    N(p) = ⌈ ln(1-C) / ln(1-p) ⌉   samples, at most N_max,   C = 0.99

What differs: the PRM knows the exact values of another policy, blurred by a normal error on the scale of logits: one that
errs far less and takes back three errors in ten at each step, as an off-the-shelf PRM that was trained on a strong
completer's rollouts would. It over-estimates the policy that writes, which errs more and mends little, by 0.24 in the mean.
Its values are calibrated by a wrapper, not by training its head (the objective `quantile` does that). It has no word on a
bare problem: p is the mean over four first steps. The "even" arm spends on every problem alike as many samples as cost what
IAS spends on average. In beam search (16 candidates, 4 of each of 4 beams, instead of 64, 8 and 8) IAS-of-K keeps fewer beams
and IAS-of-M samples less of each, after every step instead of every fifth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.reward.calibrated import fit
from footfall.search import AdaptiveBeam, AdaptiveBestOf, BeamSearch, BestOf, Method, Searcher, curve
from footfall.simulate import Blurred
from footfall.types import Cost, Judge, Judged, SearchResult
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge, OpRates

RECIPE = Recipe(
    name="calibration-ias",
    paper="Know What You Don't Know: Uncertainty Calibration of Process Reward Models",
    arxiv="2506.09338",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="60 calibration traces, 80 held-out traces and 200 problems a seed by the scripted policy; the PRM "
    "is an exact value judge of a stronger policy, blurred; N_max = 64, in beam search 16.",
    claims=(
        Claim(
            "Quantile regression brings a PRM's values closer to the policy's success rates.",
            metric="Brier score against exact values, mean over a held-out trace", direction="lower",
            baseline="uncalibrated", method="quantile regression", beside=("temperature", "isotonic"),
            stand_in="The paper's PRM is a trained one; here it is the exact value for a much stronger policy, blurred, which "
            "over-estimates as theirs do.",
        ),
        Claim(
            "IAS keeps the accuracy of best-of-N (at most two points less).",
            metric="accuracy", direction="higher", baseline="best-of-64", method="IAS", margin=-0.02,
            beside=("IAS, uncalibrated", "single sample"),
        ),
        Claim(
            "IAS needs less than two thirds of best-of-N's tokens.",
            metric="generated tokens, as a share of best-of-64's on the same problem", direction="lower",
            baseline="best-of-64, tokens", method="IAS, tokens", margin=0.33, beside=("IAS, uncalibrated, tokens",),
        ),
        Claim(
            "At equal tokens IAS beats the same number of samples for every problem.",
            metric="accuracy", direction="higher", baseline="even", method="IAS",
        ),
        Claim(
            "IAS in beam search keeps its accuracy (IAS-of-K, at most two points less).",
            metric="accuracy, beam search", direction="higher", baseline="beam search", method="IAS-of-K", margin=-0.02,
            beside=("IAS-of-M",),
        ),
        Claim(
            "IAS in beam search needs fewer tokens (IAS-of-K).",
            metric="generated tokens, as a share of beam search's on the same problem", direction="lower",
            baseline="beam search, tokens", method="IAS-of-K, tokens", beside=("IAS-of-M, tokens",),
        ),
        Claim(
            "Quantile regression brings a PRM's values closer to the policy's success rates, on GSM8K test.",
            metric="Brier score of a problem's value against its success rate", direction="lower",
            baseline="uncalibrated", method="quantile regression", tier="real",
        ),
        Claim(
            "Quantile regression brings a PRM's values closer to the policy's success rates, on MATH-500.",
            metric="Brier score of a problem's value against its success rate", direction="lower",
            baseline="uncalibrated", method="quantile regression", tier="real",
        ),
    ),
)  # fmt: skip
N, BEAM, EACH = 64, 16, 4
UNSEEN = 10_000
"""Problems of other seeds than those that the settings were chosen by."""
_WRITER = ArithmeticPolicy(OpRates(0.12, 0.12, 0.3, 0.3))
_STRONG = ArithmeticPolicy(
    OpRates(0.01, 0.01, 0.05, 0.04), OpRates(0, 0, 0.01, 0.01), OpRates(0.2, 0.2, 0.2, 0.2), recover=0.3
)


def measure(trial: Trial) -> Outcome:
    """Brier scores before and after calibration, then accuracy and tokens of searches that go by the values."""
    world, policy = ArithmeticWorld(), _WRITER
    params = SamplingParams(seed=trial.seed, max_tokens=256)
    prm = Blurred(_STRONG, sigma=1.0, seed=trial.seed)
    traces = [
        trace for _, trace in world.traces(policy, trial.size(60, 6), trial.seed + 1000 + UNSEEN * (not trial.quick))
    ]
    labels = MonteCarlo(policy, 8, params=params).judge(traces)
    rows = [Judged(t, label) for t, label in zip(traces, labels, strict=True)]
    quantile = fit(prm, rows, "quantile")
    judges: dict[str, Judge] = {"uncalibrated": prm, "quantile regression": quantile}
    judges |= {"temperature": fit(prm, rows, "temperature"), "isotonic": fit(prm, rows, "isotonic")}
    arms = {name: _brier(judge, trial) for name, judge in judges.items()}
    problems = world.problems(trial.size(200, 3), trial.seed + UNSEEN * (not trial.quick))

    def solve(judge: Judge, method: Method) -> list[SearchResult]:
        return Searcher(policy, judge, method, params=params, separator="\n").solve(problems)

    full, beams = solve(quantile, BestOf(N, "best", "last")), solve(quantile, BeamSearch(BEAM, EACH))
    adaptive, trusting = solve(quantile, AdaptiveBestOf(N)), solve(prm, AdaptiveBestOf(N))
    sparing = {"IAS": (adaptive, full), "IAS, uncalibrated": (trusting, full), "best-of-64": (full, full)}
    sparing |= {"beam search": (beams, beams), "IAS-of-K": (solve(quantile, AdaptiveBeam(BEAM, EACH, "beams")), beams)}
    sparing |= {"IAS-of-M": (solve(quantile, AdaptiveBeam(BEAM, EACH, "expansions")), beams)}
    for name, (found, whole) in sparing.items():
        arms[name] = [float(r.chosen is not None and bool(r.chosen.correct)) for r in found]
        arms[f"{name}, tokens"] = [_tokens([r]) / _tokens([w]) for r, w in zip(found, whole, strict=True)]
    equal = max(1, round(N * _tokens(adaptive) / _tokens(full)))
    of_n = curve(full, [equal], ("best", "single"), aggregation="last").correct
    arms |= {"even": of_n["best"][0].tolist(), "single sample": of_n["single"][0].tolist()}
    spent = [r.cost for found, _ in sparing.values() for r in found]
    return Outcome(arms, Cost.total([*(label.cost for label in labels), *spent]))


def _brier(judge: Judge, trial: Trial) -> list[float]:
    """Mean squared distance from the exact value, one figure a held-out trace."""
    traces = [
        trace
        for _, trace in ArithmeticWorld().traces(
            _WRITER, trial.size(80, 6), trial.seed + 2000 + UNSEEN * (not trial.quick)
        )
    ]
    pairs = zip(judge.judge(traces), ExactValueJudge(_WRITER).judge(traces), strict=True)
    return [float(np.mean((np.array(s.values, float) - np.array(e.values, float)) ** 2)) for s, e in pairs]


def _tokens(results: Sequence[SearchResult]) -> int:
    return sum(result.policy_cost.generated_tokens for result in results)
