"""More Bang for the Buck: Process Reward Modeling with Entropy-Driven Uncertainty (Cao et al., arXiv 2503.22233): EDU-PRM.

Decode greedily, and branch into the two likeliest tokens where the next-token entropy is high:

    H = -Σ_v p_v ln p_v > τ = 1 nat,  earliest places first, until there are N solutions

A PRM then chooses among them (best-of-N). Branches share what stands before them, so N solutions cost fewer tokens than N
samples.

What differs: policy and PRM are the embedded model, N = 8; the PRM is the shared one on Monte Carlo labels for both arms, so
that only the exploration is compared. This writer's entropy lies almost wholly in its wording (about 2 nats at the beginning
of a line); where it slips in a calculation the entropy is a few tenths. Ordinary sampling has the paper's temperature 0.7.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.label.edu_prm import EntropyTrees
from footfall.policy.embedded import embedded
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.search import aggregate, best
from footfall.types import Cost, Trajectory
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="edu-prm",
    paper="More Bang for the Buck: Process Reward Modeling with Entropy-Driven Uncertainty",
    arxiv="2503.22233",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="Embedded Llama of 1.1M parameters as policy and as PRM backbone; 40 held-out problems a seed, 8 solutions each.",
    claims=(
        Claim(
            "Branching at uncertain tokens finds better solutions than sampling as many.",
            metric="accuracy of the solution that the PRM likes best, of 8",
            direction="higher", baseline="sampling", method="entropy branching",
            beside=("greedy", "any of 8 sampled", "any of 8 branched"),
            caveat="At the threshold of 1 nat the operators, where the model is unsure by 0.6 to 0.7 nats, never "
            "branch.",
            stand_in="The paper trains a PRM on its trees and takes best-of-N; here branching is compared with "
            "sampling under one PRM.",
        ),
        Claim(
            "Branching at uncertain tokens needs fewer tokens than sampling as many solutions.",
            metric="generated tokens a problem, for 8 solutions",
            direction="lower", baseline="sampled tokens", method="branched tokens",
        ),
    ),
)  # fmt: skip
N = 8


def measure(trial: Trial) -> Outcome:
    """Best-of-8 of sampled and of branched solutions by one PRM, and the tokens of both."""
    policy, world, prm = embedded(), ArithmeticWorld(), prms.judge(trial, "monte-carlo")
    problems = world.problems(trial.size(40, 1), trial.seed, split="test")
    n, params = trial.size(N, 3), SamplingParams(0.7, max_tokens=200, seed=trial.seed)
    sampled = draw_traces(policy, [world.prefix(problem) for problem in problems], n, params)
    grown = EntropyTrees(policy, leaves=n).grow(problems)
    branched = [list(each.solutions) for each in grown]
    judged = {name: prm.judge([t for row in rows for t in row]) for name, rows in
              (("sampling", sampled), ("entropy branching", branched))}  # fmt: skip
    scores = {name: iter([aggregate(said.values, "min") for said in all_said]) for name, all_said in judged.items()}

    def chosen(row: list[Trajectory], name: str) -> float:
        found = best([next(scores[name]) for _ in row])
        return float(found is not None and bool(row[found].correct))

    arms = {
        "sampling": [chosen(row, "sampling") for row in sampled],
        "entropy branching": [chosen(row, "entropy branching") for row in branched],
        "greedy": [float(bool(row[0].correct)) for row in branched],
        "any of 8 sampled": [float(any(t.correct for t in row)) for row in sampled],
        "any of 8 branched": [float(any(t.correct for t in row)) for row in branched],
        "sampled tokens": [float(sum(t.cost.generated_tokens for t in row)) for row in sampled],
        "branched tokens": [float(each.cost.generated_tokens) for each in grown],
    }
    own = [t.cost for row in sampled for t in row] + [each.cost for each in grown]
    said = [each.cost for all_said in judged.values() for each in all_said]
    return Outcome(arms, prms.spent(trial, "monte-carlo", used_pool="no") + Cost.total([*own, *said]))
