"""FreePRM: Training Process Reward Models Without Ground Truth Process Labels (Sun et al., arXiv 2506.03570).

Every step is given the outcome ŷ of its solution, and a third class, the buffer, absorbs the noise of that:

    g_t = p_r + β_t p_b if ŷ = 1,  p_w + β_t p_b if ŷ = 0;   loss −ln g_t;   β_t = 1 with probability p_b, else 0

At the last step the label is true, and p_r is trained on it without a buffer. A step's value is p_r.

What differs: the mean over the draw of β is taken (the same expected gradient). There it shows that no pseudo label ever
feeds the buffer: its gradient at the buffer's logit is p_b p / (p + p_b) ≥ 0, and the loss tends to the plain one as the buffer
drains. Both PRMs see the same traces and the same labels; each has the threshold that is best on other problems.
"""

from __future__ import annotations

from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import best_of_n, first_error_f1
from footfall.label.freeprm import OutcomeLabels
from footfall.types import Judged

RECIPE = Recipe(
    name="freeprm",
    paper="FreePRM: Training Process Reward Models Without Ground Truth Process Labels",
    arxiv="2506.03570",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters), each on 2,400 traces; a seed has 8,000 solutions of 1,000 held-out "
    "problems.",
    claims=(
        Claim(
            "A PRM on outcome labels with a buffer finds first errors better than one on Monte Carlo step labels.",
            metric="F1 of the first error",
            direction="higher", baseline="Monte Carlo step labels", method="buffer loss",
            threshold="other data",
        ),
        Claim(
            "It finds them better than one on soft Monte Carlo labels too.",
            metric="F1 of the first error",
            direction="higher", baseline="soft Monte Carlo labels", method="buffer loss", threshold="other data",
        ),
        Claim(
            "On outcome labels alone, a PRM with a buffer class finds first errors better than a plain one.",
            metric="F1 of the first error",
            direction="higher", baseline="plain loss", method="buffer loss",
            beside=("plain loss at 0.5", "buffer loss at 0.5"),
            threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """First-error F1 of PRMs on outcome labels, with and without the buffer, beside Monte Carlo labels."""
    trial = prms.large(trial)
    traces, rates, pool = prms.arm_traces(trial), prms.rolled_out(trial), prms.arm_pool(trial)
    rows = list(map(Judged, traces, OutcomeLabels().judge(traces)))
    trained = {
        "plain loss": prms.arm(trial, rows, "bce", threshold=0.5),
        "buffer loss": prms.arm(trial, rows, "buffer"),
        "Monte Carlo step labels": prms.arm(trial, list(map(Judged, traces, rates)), "bce", threshold=0.0),
        "soft Monte Carlo labels": prms.arm(trial, list(map(Judged, traces, rates)), "soft-bce"),
    }
    arms: dict[str, float] = {name: first_error_f1(pool, arm.said) for name, arm in trained.items()}
    for name, arm in trained.items():
        arms[f"{name} at 0.5"] = first_error_f1(pool, arm.said, 0.5)
        arms[f"{name}, best-of-8"] = fmean(best_of_n(pool, arm.said, "last"))
    return Outcome(arms, prms.spent_on(trial, rates, trained.values()))
