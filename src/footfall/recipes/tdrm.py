"""TDRM: Smooth Reward Models with Temporal Difference (Zhang et al., arXiv 2509.15110).

A PRM is a value function, fitted to what it says itself n steps ahead, without a gradient through that:

    y_t = clamp(Σ_{k<n} γ^k r_{t+k} + γ^n V(s_{t+n}), 0, 1);   the last step has its label

so that neighbouring values agree. The reward r falls along a right trace by a cosine.

What differs: all prefixes of a trace are read in one pass, so the target is of the very weights that are trained (in the
released code too). Near the end fewer steps are looked ahead; the released code leaves the value out there. The endpoints of
the cosine are not published: right steps earn 0.2 falling to 0.1, wrong ones nothing, by their Monte Carlo label. γ is 0.8 and
n is 2. A solution is worth its last value, for both PRMs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.types import Judgement

RECIPE = Recipe(
    name="tdrm",
    paper="TDRM: Smooth Reward Models with Temporal Difference for LLM RL and Inference",
    arxiv="2509.15110",
    year=2025,
    stage="train",
    world="arithmetic",
    scale="PRMs of 9.5M parameters on Monte Carlo labels of 2,400 traces; 8,000 solutions of 1,000 held-out problems a seed.",
    claims=(
        Claim(
            "A PRM trained by temporal differences gives better best-of-N than one on fixed step labels.",
            metric="accuracy, best of 8", direction="higher",
            baseline="step labels, best of 8", method="temporal differences, best of 8",
        ),
        Claim(
            "Its values are smoother: they change less from step to step.",
            metric="mean change of the value from a step to the next", direction="lower", smallest_effect=0.02,
            baseline="step labels, change", method="temporal differences, change",
        ),
        Claim(
            "It finds first errors no worse than the one on fixed labels.",
            metric="F1 of the first error", direction="higher", margin=-0.03,
            baseline="step labels", method="temporal differences", threshold="other data",
            stand_in="The paper measures best-of-N, tree search and RL.",
        ),
        Claim(
            "It finds first errors no worse than the one on fixed labels, on ProcessBench.",
            metric="F1 of the first error, mean of four splits", direction="higher", margin=-0.03,
            baseline="step labels", method="temporal differences", tier="real", threshold="other data",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Best-of-8, smoothness and first-error F1 with fixed and with bootstrapped targets."""
    trial = prms.large(trial)
    rows = prms.arm_rows(trial)
    trained = {"step labels": prms.arm(trial, rows, "soft-bce"), "temporal differences": prms.arm(trial, rows, "td")}
    arms = prms.figures(trial, trained, "last") | {f"{n}, change": _change(arm.said) for n, arm in trained.items()}
    return Outcome(arms, prms.spent_on(trial, prms.rolled_out(trial), trained.values()))


def _change(said: Sequence[Judgement]) -> float:
    """Mean |V(s_{t+1}) − V(s_t)|, at unit distances."""
    known = [[v for v in each.values if v is not None] for each in said]
    return fmean(abs(after - before) for values in known for before, after in pairwise(values))
