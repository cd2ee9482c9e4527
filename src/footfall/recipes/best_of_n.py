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

from footfall.answers import grade
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.embedded import EMBEDDED, embedded
from footfall.policy.protocol import SamplingParams
from footfall.reward.judge import step_head
from footfall.search import BestOfN, curve
from footfall.train import TrainConfig, train_prm
from footfall.types import Cost, Judged
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

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
    ),
)  # fmt: skip
N = 16


def measure(trial: Trial) -> Outcome:
    world, policy, params = ArithmeticWorld(), embedded(), SamplingParams(max_tokens=200, seed=trial.seed)
    prefixes = [world.prefix(p) for p in world.problems(trial.size(150, 20), trial.seed)]
    sampled = policy.sample(prefixes, trial.size(4, 1), params)
    traces = [grade(c.after(prefix, policy.name)) for prefix, row in zip(prefixes, sampled, strict=True) for c in row]
    labels = MonteCarlo(ArithmeticPolicy(), rollouts=8, params=params).judge(traces)
    held_out = world.problems(trial.size(150, 3), trial.seed, split="test")
    config = TrainConfig(lr=3e-4, epochs=trial.size(2, 1), seed=trial.seed, device="cpu")
    prm = train_prm(list(map(Judged, traces, labels)), EMBEDDED, config, trial.folder, against=held_out)
    search = BestOfN(policy, step_head(prm.folder, device="cpu"), N, "weighted", "min", params, "\n")
    results = search.solve(held_out)
    names = {"single": "single sample", "majority": "majority vote", "best": "best-of-N", "weighted": "weighted vote"}
    arms = {names.get(rule, rule): right[0].tolist() for rule, right in curve(results, [N]).correct.items()}
    costs = [t.cost for t in traces] + [j.cost for j in labels] + [prm.cost] + [r.cost for r in results]
    return Outcome(arms, Cost.total(costs))
