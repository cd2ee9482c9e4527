"""DreamPRM: Domain-Reweighted Process Reward Model for Multimodal Reasoning (Cao et al., arXiv 2505.20241).

Training data of several domains is of uneven quality. One weight a domain is learned with the PRM, by what a step of the PRM
along the weighted losses does for a small meta set of graded solutions:

    φ' = φ − η ∇_φ Σ_k w_k ℓ_k(φ),   z ← z − η_z dL_meta(φ') / dz,   w_k = softplus(z_k) / mean_j softplus(z_j)

A solution of the meta set is valued by the mean log-odds of its steps, as the paper does at inference too.

What differs: text alone, and domains that differ in their labels only, on the same kind of problem: Monte Carlo estimates of 8
rollouts, the outcome on every step, estimates turned over, and chance. The meta set is what is left of the traces. PRMs have
one value layer on the decoder, not on its logits, and see the same rows in the same order with weights and without. Best-of-N
goes by the mean of the values, not by that of their log-odds (`--aggregate log-odds`), and the weights do not decay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.freeprm import OutcomeLabels
from footfall.types import Judged

RECIPE = Recipe(
    name="dreamprm",
    paper="DreamPRM: Domain-Reweighted Process Reward Model for Multimodal Reasoning",
    arxiv="2505.20241",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="PRMs of 1.1M parameters on 240 traces in four domains, and a meta set of 360; a seed has 800 solutions.",
    claims=(
        Claim(
            "Weights of domains that a meta set decides give better best-of-N than equal weights.",
            metric="accuracy, best of 8", direction="higher",
            baseline="equal weights, best of 8", method="learned weights, best of 8",
            stand_in="The paper's domains are multimodal datasets; here they differ in the quality of their labels.",
        ),
        Claim(
            "The domain with labels turned over ends with less weight than the one with honest labels.",
            metric="weight of the domain", direction="lower", smallest_effect=0.1,
            baseline="rollouts, weight", method="turned over, weight", beside=("outcomes, weight", "chance, weight"),
            stand_in="The paper shows the weights of its datasets.",
        ),
        Claim(
            "Learned weights find first errors better.",
            metric="F1 of the first error", direction="higher", baseline="equal weights", method="learned weights",
            threshold="other data", stand_in="The paper measures best-of-N.",
        ),
    ),
)  # fmt: skip
DOMAINS = ("rollouts", "outcomes", "turned over", "chance")


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and first-error F1 with weights and without, and the weights."""
    rng = np.random.default_rng(trial.seed)
    rows, domains = prms.arm_rows(trial), [DOMAINS[k % 4] for k in range(len(prms.arm_rows(trial)))]
    given = [_labelled(row, domain, rng) for row, domain in zip(rows, domains, strict=True)]
    plain, _ = prms.reweighted_arm(trial, given, domains, "domain", 0.0)
    learned, weights = prms.reweighted_arm(trial, given, domains, "domain", 0.05)
    trained = {"equal weights": plain, "learned weights": learned}
    arms = prms.figures(trial, trained, "mean") | {f"{name}, weight": weights[name] for name in DOMAINS}
    return Outcome(arms, prms.spent_on(trial, prms.rolled_out(trial), trained.values()))


def _labelled(row: Judged, domain: str, rng: np.random.Generator) -> Judged:
    """The row with the labels of its domain."""
    trace, rates = row
    assert rates is not None
    drawn = rng.integers(0, 2, len(trace.steps))
    if domain == "outcomes":
        return Judged(
            trace, OutcomeLabels().judge([trace])[0] if trace.answer is not None else prms.outcome_label(trace)
        )
    turned = tuple(None if v is None else 1 - v for v in rates.values)
    values = {"turned over": turned, "chance": tuple(float(v) for v in drawn)}
    return Judged(trace, replace(rates, values=values.get(domain, rates.values)))
