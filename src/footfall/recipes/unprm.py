"""UnPRM: Uncertainty-Based Methods for Automated Process Reward Data Construction and Output Aggregation in Mathematical
Reasoning (Han et al., arXiv 2508.01773).

The writer's own log-probabilities l say where to look for the error of a wrong solution:

    q = softmax(l / 5) over a step's tokens,  U = −Σ q ln q;   steps are probed by falling jump U_i − U_(i−1)

The first probed step whose prefix has a smaller value than the problem itself, v < v0, is taken for the first error.

What differs: solutions are by the embedded model of a million parameters; the completer is the world's scripted policy, which
the model was trained to imitate. It has no log-probabilities, so rollouts weigh alike. All orders, binary and sequential
search too, use the same rule v < v0 and the same number of rollouts a prefix: what it takes to see ten right ones, at least
16. The choice of solutions and the two votes are not measured.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.known import hits, spent
from footfall.label.unprm import Order, Uncertain
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="unprm",
    paper="Uncertainty-Based Methods for Automated Process Reward Data Construction and Output Aggregation",
    arxiv="2508.01773",
    year=2025,
    stage="data",
    world="arithmetic",
    scale="The wrong ones of 240 solutions by the embedded Llama of 1.1M parameters; rollouts by the scripted policy. "
    "Problems that the completer rarely solves are left out, as in the paper.",
    claims=(
        Claim(
            "Probing the most uncertain step first finds an error with fewer rollouts than going step by step.",
            metric="probes a wrong solution", direction="lower",
            baseline="probes, sequential", method="probes, jumps of uncertainty", beside=("probes, uncertainty",),
        ),
        Claim(
            "Probing the most uncertain step first finds an error with fewer rollouts than binary search.",
            metric="probes a wrong solution", direction="lower",
            baseline="probes, binary", method="probes, jumps of uncertainty",
        ),
        Claim(
            "The error it finds is the first one as often as with sequential search.",
            metric="first-error accuracy on wrong solutions", direction="higher", margin=-0.03,
            baseline="sequential", method="jumps of uncertainty", beside=("uncertainty",),
        ),
        Claim(
            "The error it finds is the first one more often than with binary search.",
            metric="first-error accuracy on wrong solutions", direction="higher",
            baseline="binary", method="jumps of uncertainty",
        ),
    ),
)  # fmt: skip
ORDERS: dict[str, Order] = {
    "sequential": "sequential", "binary": "binary", "uncertainty": "uncertainty", "jumps of uncertainty": "delta",
}  # fmt: skip


def measure(trial: Trial) -> Outcome:
    solutions = prms.training_traces(trial)[: trial.size(240, 24)]
    wrong = [trace for trace in solutions if not trace.correct and trace.answer is not None]
    cost, arms = Cost.total(trace.cost for trace in solutions), dict[str, list[float]]()
    for name, order in ORDERS.items():
        labeller = Uncertain(ArithmeticPolicy(), order, weighted=False, params=SamplingParams(seed=trial.seed))
        said = labeller.judge(wrong)
        labelled = [
            (j, ArithmeticWorld().first_error(t)) for j, t in zip(said, wrong, strict=True) if "probes" in j.aspects
        ]
        arms[name] = hits([judgement for judgement, _ in labelled], [first for _, first in labelled])
        arms[f"probes, {name}"] = [judgement.aspects["probes"][0] or 0.0 for judgement, _ in labelled]
        cost += spent(said)
    return Outcome(arms, cost)
