"""What Are Step-Level Reward Models Rewarding? (Ma et al., arXiv 2412.15904).

The same PRM is trained on views of the same traces: everything (full context), the mathematics of all steps, that of the step
alone, and the step before its mathematics is written. What it says then shows what it goes by.

    V((T, E)_≤i),   V(E_≤i),   V(E_i),   Q((T, E)_<i, T_i)

What differs: labels are soft Monte Carlo estimates and the loss is cross-entropy, where the paper has pairs of siblings from
MCTS and a pairwise loss. Thought and mathematics are told apart by a rule, since one writer wrote both. A PRM on words alone
stands beside: in this world words say which operation was read, never whether the sum is right.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.reward.config import View
from footfall.train.config import TrainConfig

RECIPE = Recipe(
    name="srm-findings",
    paper="What Are Step-Level Reward Models Rewarding? Counterintuitive Findings from MCTS-Boosted Mathematical Reasoning",
    arxiv="2412.15904",
    year=2024,
    stage="model",
    world="arithmetic",
    scale="PRMs of 9.5M parameters on Monte Carlo labels of 2,400 traces; 8,000 solutions of 1,000 held-out problems a seed.",
    claims=(
        Claim(
            "A PRM that is shown mathematics only chooses no worse than one that is shown everything.",
            metric="accuracy, best of 8", direction="higher", margin=-0.02,
            baseline="everything, best of 8", method="mathematics, best of 8",
            stand_in="The paper guides greedy search with it; here it chooses among the same 8 solutions.",
        ),
        Claim(
            "Shown the step before its mathematics it chooses worse than one that is shown mathematics only.",
            metric="accuracy, best of 8", direction="higher",
            baseline="next thought, best of 8", method="mathematics, best of 8", beside=("words, best of 8",),
            stand_in="The paper guides greedy search with it; here it chooses among the same 8 solutions.",
        ),
        Claim(
            "The mathematics of all steps is worth more than that of the step alone.",
            metric="accuracy, best of 8", direction="higher",
            baseline="mathematics of the step, best of 8", method="mathematics, best of 8",
            stand_in="The paper guides greedy search with it; here it chooses among the same 8 solutions.",
        ),
        Claim(
            "Shown mathematics only it finds first errors no worse than shown everything.",
            metric="F1 of the first error", direction="higher", margin=-0.03,
            baseline="everything", method="mathematics", beside=("next thought", "words", "mathematics of the step"),
            threshold="other data", stand_in="The paper measures search and the accuracy on pairs of siblings.",
        ),
    ),
)  # fmt: skip
VIEWS: dict[str, View] = {
    "everything": "all", "mathematics": "math", "mathematics of the step": "last-math", "next thought": "next-thought",
    "words": "words",
}  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8 and first-error F1 of PRMs that differ in what they are shown alone."""
    trial = prms.large(trial)
    rows = prms.arm_rows(trial)
    trained = {name: prms.arm_with(trial, rows, TrainConfig(lr=3e-4, view=view)) for name, view in VIEWS.items()}
    return Outcome(prms.figures(trial, trained), prms.spent_on(trial, prms.rolled_out(trial), trained.values()))
