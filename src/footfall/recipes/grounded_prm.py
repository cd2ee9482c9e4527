"""GroundedPRM: Tree-Guided and Fidelity-Aware Process Reward Modeling (Zhang et al., arXiv 2510.14942).

Rollouts are verified step by step by a tool (v = ±1) and graded by their answer (F = ±1), and both are one reward:

    R = (1/N) Σ_j v_j (N − j)/N + F/N,      value(i) = Σ 0.9^d R over the rollouts from i and from d steps below it

The sign of the value is the label; a step that the tool refutes although its value is positive is dropped.

What differs: the tool checks the equations of a step by exact arithmetic and no language model reads its output, so a true
equation that should not have been written passes. The tree is that of the given traces, every node with the same number of
rollouts, and both methods get the same ones. Labels are compared with the truth on the steps up to the first error; the
last step is left out. A dropped step counts as called wrong, for it is one that the tool refutes: what the tool found is part
of the method. The steps that are kept are compared by themselves too, for both methods.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.label.grounded import Grounded
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="grounded-prm",
    paper="GroundedPRM: Tree-Guided and Fidelity-Aware Process Reward Modeling for Step-Level Reasoning",
    arxiv="2510.14942",
    year=2025,
    stage="data",
    world="arithmetic",
    scale="600 traces a seed by the scripted policy, which is also the completer; 8 rollouts a step.",
    claims=(
        Claim(
            "Verdicts of a tool fused with outcomes give better labels than outcomes of the same rollouts alone.",
            metric="share of steps labelled as the truth has it, 8 rollouts a step",
            direction="higher", baseline="Monte Carlo", method="grounded",
            stand_in="The paper's figure is ProcessBench F1 of a PRM trained on the labels; here the labels are "
            "compared with the truth.",
        ),
        Claim(
            "The first error is called wrong more often.",
            metric="share of first errors labelled wrong, 8 rollouts a step",
            direction="higher", baseline="Monte Carlo, first errors", method="grounded, first errors",
        ),
        Claim(
            "The labels that are kept for training are better too.",
            metric="share of kept steps labelled as the truth has it, 8 rollouts a step",
            direction="higher", baseline="Monte Carlo, kept", method="grounded, kept",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Labels that agree with the truth, fused with tools or by outcome alone, on all steps and on first errors."""
    world, policy = ArithmeticWorld(), ArithmeticPolicy(recover=0.3)
    params = SamplingParams(seed=trial.seed)
    traces = [trace for _, trace in world.traces(policy, trial.size(600, 8), trial.seed)]
    fused = Grounded(policy, rollouts=8, params=params).judge(traces)
    plain = MonteCarlo(policy, rollouts=8, params=params).judge(traces)
    arms: dict[str, list[float]] = {name: [] for claim in RECIPE.claims for name in (claim.baseline, claim.method)}
    for trace, own, other in zip(traces, fused, plain, strict=True):
        error = world.first_error(trace)
        for k in range(min(error + 1, len(trace.steps) - 1) if error >= 0 else len(trace.steps) - 1):
            label, estimate = own.values[k], other.values[k]
            if estimate is None:
                continue
            hit = {
                "grounded": float(bool(label) == (k != error)),
                "Monte Carlo": float((estimate >= 0.5) == (k != error)),
            }
            for name, figure in hit.items():
                parts = ("", ", first errors") if k == error else ("",)
                for part in parts if label is None else (*parts, ", kept"):
                    arms[f"{name}{part}"].append(figure)
    return Outcome(arms, Cost.total(said.cost for said in (*fused, *plain)))
