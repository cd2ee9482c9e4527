"""Best-of-N and weighted votes with a PRM (Snell et al., arXiv 2408.03314; the self-consistency of Wang et al., 2203.11171).

Draw N solutions y_i with answers a_i, fold the step values of the PRM into a score S_i, and choose:

    majority vote   argmax_a |{i : a_i = a}|
    best-of-N       a_i of argmax_i S_i
    weighted vote   argmax_a Σ_{i: a_i = a} S_i

What differs: policy and PRM backbone are the same model of a million parameters instead of two LLMs. The PRM's labels are soft
Monte Carlo estimates whose completer is the world's scripted policy, which the model was trained to imitate: nearly as
good as its own rollouts, and nearly free. N = 16, temperature 1. All rules choose among the same samples.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.policy.embedded import embedded
from footfall.search import BestOfN, curve
from footfall.types import Cost
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="best-of-n",
    paper="Scaling LLM Test-Time Compute Optimally can be More Effective than Scaling Model Parameters",
    arxiv="2408.03314",
    year=2024,
    stage="search",
    world="arithmetic",
    scale="Embedded Llama of 1.1M parameters as policy and as PRM backbone; a seed has 600 training traces and 150 "
    "held-out problems; N = 16.",
    claims=(
        Claim(
            "A PRM-weighted vote beats the majority vote.",
            metric="accuracy at N = 16",
            direction="higher", baseline="majority vote", method="weighted vote", beside=("single sample", "oracle"),
        ),
        Claim(
            "A PRM-weighted vote beats best-of-N with the same PRM.",
            metric="accuracy at N = 16",
            direction="higher", baseline="best-of-N", method="weighted vote",
        ),
        Claim(
            "A PRM-weighted vote beats the majority vote, on GSM8K test.",
            metric="accuracy at N = 16",
            direction="higher", baseline="majority vote", method="weighted vote", tier="real",
        ),
        Claim(
            "A PRM-weighted vote beats the majority vote, on MATH-500.",
            metric="accuracy at N = 16",
            direction="higher", baseline="majority vote", method="weighted vote", tier="real",
        ),
        Claim(
            "A PRM-weighted vote beats best-of-N with the same PRM, on GSM8K test.",
            metric="accuracy at N = 16",
            direction="higher", baseline="best-of-N", method="weighted vote", tier="real",
        ),
        Claim(
            "A PRM-weighted vote beats best-of-N with the same PRM, on MATH-500.",
            metric="accuracy at N = 16",
            direction="higher", baseline="best-of-N", method="weighted vote", tier="real",
        ),
    ),
)  # fmt: skip
N = 16


def measure(trial: Trial) -> Outcome:
    """Accuracy of one sample, votes and best-of-N on the same N samples."""
    prm = prms.judge(trial, "monte-carlo")
    search = BestOfN(embedded(), prm, N, "weighted", "min", prms.params(trial), "\n")
    results = search.solve(ArithmeticWorld().problems(trial.size(150, 1), trial.seed, split="test"))
    names = {"single": "single sample", "majority": "majority vote", "best": "best-of-N", "weighted": "weighted vote"}
    arms = {names.get(rule, rule): right[0].tolist() for rule, right in curve(results, [N]).correct.items()}
    return Outcome(arms, prms.spent(trial, "monte-carlo", used_pool="no") + Cost.total(r.cost for r in results))
