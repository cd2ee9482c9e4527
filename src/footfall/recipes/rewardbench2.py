"""RewardBench 2: Advancing Reward Model Evaluation (Malik et al., arXiv 2506.01937).

One right response against three wrong ones; credit 1/k if the right one has the highest score and k share it, else 0. The
paper reports scores about 20 points below those on pairs, and that they go with the accuracy of best-of-N.

What differs: one subset of solutions by one policy, no Ties. Pairs are those of the right response with each of the same three
wrong ones, so only the number of rivals changes. Best-of-8 is measured on other problems than best-of-4. The judges
are the truth with a share of steps told wrongly, and two trained PRMs; responses are scored by the lowest step value. For the
correlations the same judges also score by the mean and by the last step, so that judges differ in more than how often they
err; any score that sinks with the errors goes with best-of-N, so it is held against that of pairs.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.cases import NoisyTruth, Said, credits, response_cases
from footfall.lab.shared.prms import POOL, judged_pool, large, pool, right_and_wrong, spent
from footfall.metrics.cases import Case
from footfall.metrics.preferences import strict_credit
from footfall.types import Trajectory

RECIPE = Recipe(
    name="rewardbench2",
    paper="RewardBench 2: Advancing Reward Model Evaluation",
    arxiv="2506.01937",
    year=2025,
    stage="eval",
    world="arithmetic",
    scale="PRMs of the lab's model (9.5M parameters) on 2,400 traces; a seed has 8 solutions of each of 1,000 held-out "
    "problems, and a prompt of each that has three wrong ones and a right one among them.",
    claims=(
        Claim(
            "Best-of-four accuracy lies more than ten points below the same judge's accuracy on pairs.",
            metric="accuracy of the PRM on Monte Carlo labels",
            direction="lower", baseline="pairs", method="best of four", margin=0.1,
            stand_in="The paper compares two published benchmarks over many models; here pairs and fours of the same "
            "arithmetic solutions, for one PRM.",
        ),
        Claim(
            "Best-of-four accuracy goes with best-of-N closer than accuracy on pairs does.",
            metric="correlation with best-of-8 accuracy over 24 judges",
            direction="higher", baseline="pairs, correlation", method="best of four, correlation",
            stand_in="The paper states the correlation of its own scores with best-of-N over reward models.",
        ),
    ),
)  # fmt: skip
Prompt = tuple[Trajectory, list[Trajectory]]


def measure(trial: Trial) -> Outcome:
    """Scores on four candidates and on pairs, and how each goes with best-of-8 over judges of many qualities."""
    trial = large(trial)
    traces = pool(trial)
    judges = {
        f"noise {error:g}": NoisyTruth(error, trial.seed).judge(traces) for error in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    }
    judges |= {"monte-carlo": judged_pool(trial, "monte-carlo"), "truth": judged_pool(trial, "truth")}
    prompts = [(right[0], wrong[:3]) for right, wrong in right_and_wrong(traces) if len(wrong) >= 3]
    said = Said.of("PRM", judges["monte-carlo"])
    arms: dict[str, float | list[float]] = {
        "best of four": best_of_four(prompts, said),
        "pairs": on_pairs(prompts, said),
    }
    odd = {trace.problem.id for trace in traces[::POOL][1::2]}
    four = [prompt for prompt in prompts if prompt[0].problem.id not in odd]
    eight = response_cases([trace for trace in traces if trace.problem.id in odd])
    scores = []
    for (name, judgements), how in product(judges.items(), ("min", "mean", "last")):
        judge = Said.of(name, judgements)
        reached = credits(eight, judge.judge([case.trajectory for case in eight]), how)
        scores.append([np.mean(reached), np.mean(best_of_four(four, judge, how)), np.mean(on_pairs(four, judge, how))])
    with np.errstate(invalid="ignore"):
        relation = np.corrcoef(np.transpose(scores))[0]
    if trial.quick:  # a smoke test may hold no spread
        relation = np.nan_to_num(relation)
    arms |= {
        "best of four, correlation": float(relation[1]),
        "pairs, correlation": float(relation[2]),
    }
    return Outcome(arms, spent(trial, "monte-carlo", "truth"))


def best_of_four(prompts: list[Prompt], judge: Said, how: str = "min") -> list[float]:
    """Credit of each prompt: its right solution is valued above three wrong ones."""
    cases = response_cases([trace for right, wrong in prompts for trace in (right, *wrong)], "Math")
    return credits(cases, judge.judge([case.trajectory for case in cases]), how)


def on_pairs(prompts: list[Prompt], judge: Said, how: str = "min") -> list[float]:
    """The mean over the three pairs of each prompt."""
    cases: list[Case] = []
    for right, wrong in prompts:
        for i, rival in enumerate(wrong):
            cases += [case._replace(group=f"{case.group} {i}") for case in response_cases([right, rival])]
    found = credits(cases, judge.judge([case.trajectory for case in cases]), how, strict_credit)
    return [float(each) for each in np.reshape(found, (-1, 3)).mean(axis=1)]
