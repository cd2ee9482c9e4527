"""PQM: Process Reward Model with Q-Value Rankings (Li and Li, arXiv 2410.11287).

Steps of a trace are ranked instead of classified: Q(w_k) … Q(w_1) ≪ 0 < Q(c_1) < … < Q(c_m), by

    l_t = −log e^{Q_t} / (e^{Q_t} + 1 + Σ_{right q<t} e^{Q_q} + N),   N = Σ_wrong e^{Q_w + ζ}

and −log 1 / (1 + N) once for a trace with a wrong step. A solution is worth its lowest Q.

What differs: ζ is 4, the paper's, not tuned here. Labels are hard Monte Carlo estimates by a scripted completer; all PRMs see
the same traces, as often. A Q is read through a sigmoid, which leaves orders and the lowest one as they are.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms

RECIPE = Recipe(
    name="pqm",
    paper="Process Reward Model with Q-Value Rankings",
    arxiv="2410.11287",
    year=2024,
    stage="train",
    world="arithmetic",
    scale="PRMs of 9.5M parameters on Monte Carlo labels of 2,400 traces; 8,000 solutions of 1,000 held-out problems a seed.",
    claims=(
        Claim(
            "Ranking Q values gives better best-of-N than classifying steps.",
            metric="accuracy, best of 8", direction="higher",
            baseline="cross-entropy, best of 8", method="Q ranking, best of 8",
            beside=("soft labels, best of 8", "squared error, best of 8"),
        ),
        Claim(
            "It gives better best-of-N than squared errors.",
            metric="accuracy, best of 8", direction="higher",
            baseline="squared error, best of 8", method="Q ranking, best of 8",
        ),
        Claim(
            "The margin between right and wrong steps is what it takes: without it best-of-N is worse.",
            metric="accuracy, best of 8", direction="higher",
            baseline="Q ranking without a margin, best of 8", method="Q ranking, best of 8",
        ),
        Claim(
            "Ranking finds first errors better than classifying steps.",
            metric="F1 of the first error", direction="higher", baseline="cross-entropy", method="Q ranking",
            beside=("soft labels", "squared error"), threshold="other data",
            stand_in="The paper measures best-of-N only.",
        ),
        Claim(
            "Ranking finds first errors better than classifying steps, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher",
            baseline="cross-entropy", method="Q ranking", tier="real", threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and first-error F1 of PRMs that differ in their loss alone."""
    trial = prms.large(trial)
    rows = prms.arm_rows(trial)
    trained = {
        "cross-entropy": prms.arm(trial, rows, "bce", threshold=0.0),
        "soft labels": prms.arm(trial, rows, "soft-bce"),
        "squared error": prms.arm(trial, rows, "mse"),
        "Q ranking": prms.arm(trial, rows, "q-ranking"),
        "Q ranking without a margin": prms.arm(trial, rows, "q-ranking", margin=0.0),
    }
    return Outcome(prms.figures(trial, trained), prms.spent_on(trial, prms.rolled_out(trial), trained.values()))
