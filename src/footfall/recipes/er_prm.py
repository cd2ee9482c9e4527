"""Entropy-Regularized Process Reward Model (Zhang et al., arXiv 2412.11006).

The value of a step under a KL penalty to the policy that completes it, from the success rate p of its rollouts:

    V = (1/η) ln(1 − p + p e^η),    η → 0: soft Monte Carlo, p;    η → ∞: hard Monte Carlo, 1[p > 0]

A PRM is trained on V by cross-entropy, a solution's score is the minimum over its steps, best-of-N takes the highest.

What differs: 8 rollouts instead of 16, by the world's scripted policy; η = 1, the default of the published script, where the
paper validates it for each dataset. All three PRMs see the same traces and the same rollouts, and choose among the same
solutions, 8 a problem.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import Said, best_of_n
from footfall.label.monte_carlo import EntropyRegularised
from footfall.types import Judged

RECIPE = Recipe(
    name="er-prm",
    paper="Entropy-Regularized Process Reward Model",
    arxiv="2412.11006",
    year=2024,
    stage="data",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters), each on 2,400 traces with 8 rollouts a step; a seed has 1,000 held-out "
    "problems with 8 solutions each.",
    claims=(
        Claim(
            "Entropy-regularised soft labels give better best-of-N than soft Monte Carlo labels.",
            metric="accuracy of best-of-8, min",
            direction="higher", baseline="soft Monte Carlo", method="entropy-regularised, η = 1",
        ),
        Claim(
            "Entropy-regularised soft labels give better best-of-N than hard Monte Carlo labels.",
            metric="accuracy of best-of-8, min",
            direction="higher", baseline="hard Monte Carlo", method="entropy-regularised, η = 1",
        ),
        Claim(
            "Entropy-regularised soft labels give better best-of-N than soft Monte Carlo labels, on GSM8K test.",
            metric="accuracy of best-of-16, min", direction="higher",
            baseline="soft Monte Carlo", method="entropy-regularised, η = 1", tier="real",
        ),
        Claim(
            "Entropy-regularised soft labels give better best-of-N than soft Monte Carlo labels, on MATH-500.",
            metric="accuracy of best-of-16, min", direction="higher",
            baseline="soft Monte Carlo", method="entropy-regularised, η = 1", tier="real",
        ),
    ),
)  # fmt: skip
ETA = 1.0


def measure(trial: Trial) -> Outcome:
    """Best-of-8 by PRMs trained on hard, soft and entropy-regularised labels."""
    trial = prms.large(trial)
    traces, rates, pool = prms.arm_traces(trial), prms.rolled_out(trial), prms.arm_pool(trial)
    regularised = EntropyRegularised(Said.of("monte-carlo", rates), ETA).judge(traces)
    trained = {
        "hard Monte Carlo": prms.arm(trial, list(map(Judged, traces, rates)), "bce", threshold=0.0),
        "soft Monte Carlo": prms.arm(trial, list(map(Judged, traces, rates)), "soft-bce"),
        "entropy-regularised, η = 1": prms.arm(trial, list(map(Judged, traces, regularised)), "soft-bce"),
    }
    arms = {name: best_of_n(pool, arm.said, "min") for name, arm in trained.items()}
    return Outcome(arms, prms.spent_on(trial, rates, trained.values()))
