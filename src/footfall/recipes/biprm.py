"""BiPRM: The Bidirectional Process Reward Model (Zhang et al., arXiv 2508.01682).

The same PRM reads the steps in order and in reverse, so that later steps inform earlier ones; a gate weighs both values,

    s_t = g_t a_t + (1 − g_t) b_t,   g_t = σ(MLP([h_t^→; h_t^←]))

or, without new weights, their mean does. Whole solutions are scored, not prefixes in a search.

What differs: soft Monte Carlo labels and cross-entropy, for all PRMs; the same traces, as often, so that a reader of both ways
sees twice the tokens. Solutions of one step are kept.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.train.config import TrainConfig

RECIPE = Recipe(
    name="biprm",
    paper="The Bidirectional Process Reward Model",
    arxiv="2508.01682",
    year=2025,
    stage="model",
    world="arithmetic",
    scale="PRMs of 9.5M parameters on Monte Carlo labels of 2,400 traces; 8,000 solutions of 1,000 held-out problems a seed.",
    claims=(
        Claim(
            "Reading the steps both ways, with a gate, gives better best-of-N than reading them in order.",
            metric="accuracy, best of 8", direction="higher",
            baseline="in order, best of 8", method="both ways, best of 8", beside=("both ways, mean, best of 8",),
        ),
        Claim(
            "It finds first errors better.",
            metric="F1 of the first error", direction="higher", baseline="in order", method="both ways",
            beside=("both ways, mean",), threshold="other data",
        ),
        Claim(
            "The mean of both values, which needs no new weights, finds first errors better than reading in order.",
            metric="F1 of the first error", direction="higher", baseline="in order", method="both ways, mean",
            threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and first-error F1 of PRMs that read in one and in both orders."""
    trial = prms.large(trial)
    rows = prms.arm_rows(trial)
    heads = {"in order": None, "both ways": "gate", "both ways, mean": "mean"}
    trained = {
        name: prms.arm_with(trial, rows, TrainConfig(
            lr=3e-4, head=fusion and "both-ways", head_options={"fusion": fusion} if fusion else {}
        ))
        for name, fusion in heads.items()
    }  # fmt: skip
    return Outcome(prms.figures(trial, trained), prms.spent_on(trial, prms.rolled_out(trial), trained.values()))
