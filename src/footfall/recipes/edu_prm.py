"""More Bang for the Buck: Process Reward Modeling with Entropy-Driven Uncertainty (Cao et al., arXiv 2503.22233): EDU-PRM.

Decode greedily, and branch into the two likeliest tokens where the next-token entropy is high:

    H = -Σ_v p_v ln p_v > τ,  earliest places first, until there are N solutions;   label = share of right leaves below

A PRM is trained on such trees, and chooses among N solutions. Branches share what stands before them, so N solutions cost fewer
tokens than N samples.

What differs: policy and PRM are the lab's model, N = 8. The paper's τ is 1 nat; this writer is unsure of its
decisions by a third of a nat, so that τ is 0.2 here, and 1 stands beside it. The PRM on trees is compared with one on
soft Monte Carlo labels (8 rollouts a line of 150 traces) for the same generated tokens and updates; a line has the value of
the fragment that it ends in. For the comparison of branching with sampling the PRM is the shared one on Monte Carlo labels in
all arms, so that only the exploration differs. Ordinary sampling has the paper's temperature 0.7.
"""

from __future__ import annotations

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.cases import best_of_n
from footfall.label.edu_prm import EntropyTrees, by_lines
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams, draw_traces
from footfall.policy.torch_policy import TorchPolicy
from footfall.search import aggregate, best
from footfall.types import Cost, Judged
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="edu-prm",
    paper="More Bang for the Buck: Process Reward Modeling with Entropy-Driven Uncertainty",
    arxiv="2503.22233",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="The lab's model (9.5M parameters) as policy and as PRM backbone; PRMs on trees or traces of equally many tokens, "
    "with 8,000 solutions of 1,000 held-out problems a seed; 300 of those for branching, 8 solutions each.",
    claims=(
        Claim(
            "At equal cost a PRM on entropy trees gives better best-of-N than one on Monte Carlo labels.",
            metric="accuracy of best-of-8",
            direction="higher", baseline="PRM on Monte Carlo", method="PRM on entropy trees", beside=("first solution",),
        ),
        Claim(
            "Branching at uncertain tokens finds better solutions than sampling as many.",
            metric="accuracy of the solution that the PRM likes best, of 8",
            direction="higher", baseline="sampling", method="entropy branching",
            beside=("entropy branching at 1 nat", "greedy", "any of 8 sampled", "any of 8 branched"),
        ),
        Claim(
            "Branching at uncertain tokens needs fewer tokens than sampling as many solutions.",
            metric="generated tokens a problem, for 8 solutions",
            direction="lower", baseline="sampled tokens", method="branched tokens",
        ),
    ),
)  # fmt: skip
N, UNSURE, LABELLED = 8, 0.2, 150


def measure(trial: Trial) -> Outcome:
    """Best-of-8 by PRMs on trees and on Monte Carlo labels; then of sampled and of branched solutions by one PRM."""
    trial = prms.large(trial)
    policy, world, prm = prms.policy(trial), ArithmeticWorld(), prms.judge(trial, "monte-carlo")
    problems = world.problems(trial.size(300, 1), trial.seed, split="test")
    n, params = trial.size(N, 3), SamplingParams(0.7, max_tokens=200, seed=trial.seed)
    sampled = draw_traces(policy, [world.prefix(problem) for problem in problems], n, params)
    grown = EntropyTrees(policy, n, UNSURE).grow(problems)
    branched = [list(each.solutions) for each in grown]
    published = [list(each.solutions) for each in EntropyTrees(policy, n).grow(problems)]
    arms = {
        "greedy": [float(bool(row[0].correct)) for row in branched],
        "any of 8 sampled": [float(any(t.correct for t in row)) for row in sampled],
        "any of 8 branched": [float(any(t.correct for t in row)) for row in branched],
        "sampled tokens": [float(sum(t.cost.generated_tokens for t in row)) for row in sampled],
        "branched tokens": [float(each.cost.generated_tokens) for each in grown],
    }
    costs = [t.cost for row in sampled for t in row] + [each.cost for each in grown]
    rows_of = {"sampling": sampled, "entropy branching": branched, "entropy branching at 1 nat": published}
    for name, rows in rows_of.items():
        said = prm.judge([t for row in rows for t in row])
        scores = iter([aggregate(each.values, "min") for each in said])
        chosen = [best([next(scores) for _ in row]) for row in rows]
        arms[name] = [float(k is not None and bool(row[k].correct)) for k, row in zip(chosen, rows, strict=True)]
        costs += [each.cost for each in said]
    of_data, spent = _on_data(trial, policy)
    return Outcome(arms | of_data, prms.spent(trial, "monte-carlo", used_pool="no") + Cost.total(costs) + spent)


def _on_data(trial: Trial, policy: TorchPolicy) -> tuple[dict[str, list[float]], Cost]:
    """Best-of-8 by a PRM on trees and by one on Monte Carlo labels of as many generated tokens; what they cost."""
    traces = prms.training_traces(trial)[:: trial.size(4, 2)][: trial.size(LABELLED, 3)]
    labels = MonteCarlo(policy, trial.size(8, 2), params=prms.params(trial)).judge(traces)
    budget = Cost.total([*(t.cost for t in traces), *(label.cost for label in labels)])
    trees, rows, written = EntropyTrees(policy, N, UNSURE), list[Judged](), Cost()
    problems = ArithmeticWorld().problems(trial.size(2000, 12), trial.seed)
    for each in (tree for at in range(0, len(problems), 200) for tree in trees.grow(problems[at : at + 200])):
        written += each.cost
        if written.generated_tokens > budget.generated_tokens and prms.differ(rows):
            break
        rows += [by_lines(row, trees.writer.in_lines(row.trajectory)) for row in each.rows(trees.name)]
    order = np.random.default_rng(trial.seed).permutation(len(rows))
    shuffled = [rows[i] for i in order]
    pool = prms.arm_pool(trial)
    trained = {
        "PRM on Monte Carlo": prms.arm(trial, list(map(Judged, traces, labels))),
        "PRM on entropy trees": prms.arm(trial, prms.first_rows(shuffled, trial.size(2400, 8))),
    }
    arms = {name: best_of_n(pool, arm.said, "last") for name, arm in trained.items()}
    arms["first solution"] = [float(bool(trace.correct)) for trace in pool[:: prms.POOL]]
    return arms, budget + written + Cost.total([*(t.cost for t in pool), *(arm.cost for arm in trained.values())])
