"""PRM800K: Let's Verify Step by Step (Lightman et al., arXiv 2305.20050).

A PRM scores a solution by the chance that all its steps are right, an ORM by the chance that its answer is:

    PRM  Π_k P(step k ok), or min_k;    ORM  P(answer right), read at the last step

Labels are bought for convincing wrong answers: of the picks from a problem's candidates, 80% are the wrong solutions that a
small PRM scores highest, the others the highest-scored of the rest.

What differs: people rated the steps; here the world knows them, and no step is neutral. N is 8 instead of 1860. For active
selection, 16 candidates for each of 480 problems come from the scripted policy that the model imitates, 5 are labelled up
to their first error, and the selecting PRM had one solution a problem; uniform picks are as many of the same candidates.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import best_of_n
from footfall.lab.shared.prms import POOL, judged_pool, large, params, pool, spent, train, training_traces
from footfall.label.selection import pick_by_problem
from footfall.policy.protocol import draw_traces
from footfall.reward.judge import step_head
from footfall.search import aggregate
from footfall.train import TrainConfig, TrainResult
from footfall.train.active import until_first_error
from footfall.types import Cost, Judged, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, TruthJudge

RECIPE = Recipe(
    name="prm800k",
    paper="Let's Verify Step by Step",
    arxiv="2305.20050",
    year=2023,
    stage="train",
    world="arithmetic",
    scale="The lab's model (9.5M parameters) on 2,400 traces; a seed has 8 solutions of each of 1,000 held-out problems. "
    "Selection: models on 2,400 of 7,680 traces.",
    claims=(
        Claim(
            "Process supervision beats outcome supervision at choosing a solution.",
            metric="accuracy of best-of-8",
            direction="higher", baseline="ORM", method="PRM, product", beside=("single sample",),
        ),
        Claim(
            "At equal labels, convincing wrong answers teach more than solutions drawn evenly.",
            metric="accuracy of best-of-8",
            direction="higher", baseline="uniform selection", method="active selection",
        ),
        Claim(
            "It matters little whether a solution is scored by the product or by the minimum: the product is no worse.",
            metric="accuracy of best-of-8",
            direction="higher", baseline="PRM, minimum", method="PRM, product", margin=-0.01,
        ),
        Claim(
            "Process supervision beats outcome supervision at choosing a solution, on GSM8K test.",
            metric="accuracy of best-of-16", direction="higher",
            baseline="ORM", method="PRM, product", tier="real",
            stand_in="The paper's models learn from one set of solutions; here the PRM has 750 traces of another model, "
            "labelled by people, and the ORM 4,000 of the policy itself.",
        ),
        Claim(
            "Process supervision beats outcome supervision at choosing a solution, on MATH-500.",
            metric="accuracy of best-of-16", direction="higher",
            baseline="ORM", method="PRM, product", tier="real",
            stand_in="The paper's models learn from one set of solutions; here the PRM has 750 traces of another model, "
            "labelled by people, and the ORM 4,000 of the policy itself.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """PRM against ORM on the same pool, and PRMs on labels of picked and of random solutions."""
    trial = large(trial)
    solutions, process, outcome = pool(trial), judged_pool(trial, "truth"), judged_pool(trial, "outcome")
    arms = {"PRM, product": best_of_n(solutions, process, "prod"), "PRM, minimum": best_of_n(solutions, process, "min")}
    arms["ORM"] = best_of_n(solutions, outcome, "last")
    arms["single sample"] = [float(bool(trace.correct)) for trace in solutions[::POOL]]
    each, k = trial.size(16, 3), trial.size(5, 2)
    prefixes = [ArithmeticWorld().prefix(p) for p in ArithmeticWorld().problems(trial.size(480, 2), trial.seed)]
    drawn = draw_traces(ArithmeticPolicy(), prefixes, each, params(trial))
    candidates = [trace for row in drawn for trace in row]
    small = _taught(trial, "selecting", training_traces(trial)[:: trial.size(4, 3)])
    read = step_head(small.folder, device=trial.device).judge(candidates)
    picks = {
        "uniform selection": [trace for row in drawn for trace in row[:k]],
        "active selection": pick_by_problem(candidates, [aggregate(said.values, "prod") for said in read], k),
    }
    costs = [spent(trial, "truth", "outcome", used_pool="no"), small.cost]
    costs += [trace.cost for trace in (*solutions, *candidates)]
    costs += [said.cost for said in (*process, *outcome, *read)]
    for arm, picked in picks.items():
        model = _taught(trial, arm.partition(" ")[0], picked)
        said = step_head(model.folder, device=trial.device).judge(solutions)
        arms[arm] = best_of_n(solutions, said, "prod")
        costs += [model.cost, *(judgement.cost for judgement in said)]
    return Outcome(arms, Cost.total(costs))


def _taught(trial: Trial, name: str, traces: list[Trajectory]) -> TrainResult:
    """A PRM on the truth of these traces up to their first error."""
    rows = [Judged(t, until_first_error(j)) for t, j in zip(traces, TruthJudge().judge(traces), strict=True)]
    config = TrainConfig(lr=3e-4, epochs=trial.size(2, 1), eval_share=0.0, seed=trial.seed, device=trial.device)
    return train(trial, f"prm800k-{name}", rows, config)
