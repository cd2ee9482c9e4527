"""RM-R1: Reward Modeling as Reasoning (arXiv 2505.02387).

A judge of pairs that, where a request has a result that can be derived, first solves it and then compares both responses with
its own solution.

What differs: the judge is scripted (`footfall.lab.shared.choosers`). Asked directly it prefers the right one of two responses
with probability 0.6. With a solution of its own, a sample of a scripted policy, it prefers the response that ends as it does;
if both or neither do, it judges as if asked directly. Chat and its rubrics have no counterpart here; distillation and RL of the
judge are not measured.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import choosers, searches
from footfall.policy.protocol import Policy
from footfall.registry import create
from footfall.types import Cost
from footfall.worlds import ArithmeticPolicy

RECIPE = Recipe(
    name="rm-r1",
    paper="RM-R1: Reward Modeling as Reasoning",
    arxiv="2505.02387", year=2025, stage="model", world="arithmetic",
    scale="A right and a wrong response, and the best of 8, of each of 150 problems a seed, by a scripted policy; a scripted "
    "judge of pairs, asked in both orders.",
    claims=(
        Claim("A judge that solves the problem first names the right one of two responses more often.",
            metric="accuracy on pairs of a right and a wrong response", direction="higher",
            baseline="direct", method="solves first",
            beside=("solves first, no better than the writer",),
            stand_in="The paper's figure is the mean of RewardBench, RM-Bench and RMB with trained models; here the judge is "
            "scripted, so that its error and its solutions are known.",
        ),
        Claim("It does so even if it solves no more problems than the writer of the responses.",
            metric="accuracy on pairs of a right and a wrong response", direction="higher",
            baseline="direct", method="solves first, no better than the writer",
            stand_in="The judge is scripted, so that its error and its solutions are known.",
        ),
        Claim("By its comparisons the best of 8 is right more often.",
            metric="accuracy, best of 8 by Elo", direction="higher",
            baseline="best of 8, direct", method="best of 8, solves first",
            beside=("single sample", "oracle"),
            stand_in="The judge is scripted, so that its error and its solutions are known.",
        ),
    ),
)  # fmt: skip
CANDIDATES, RIGHT = 8, 0.6


def measure(trial: Trial) -> Outcome:
    """How often each judge is right about a pair, and the winner among eight."""
    samples = searches.drawn(trial, CANDIDATES, searches.problems(trial, trial.size(150, 6)))
    rows = [[trace for trace, _ in result.candidates] for result in samples]
    mixed = [row for row in rows if len({bool(t.correct) for t in row}) == 2]
    pairs = [[next(t for t in row if bool(t.correct) == right) for right in (True, False)] for row in mixed]
    pairs = [sorted(pair, key=lambda trace: trace.key) for pair in pairs]  # a draw goes to either
    cost = Cost.total(result.cost for result in samples)
    solvers: dict[str, Policy | None] = {
        "direct": None,
        "solves first": ArithmeticPolicy(),
        "solves first, no better than the writer": searches.WRITER,
    }
    arms: dict[str, list[float]] = {}
    for name, solver in solvers.items():
        chooser = choosers.Chooser(choosers.by_text(rows), RIGHT, trial.seed, solver)
        judge = create("reward", "rm-r1", policy=chooser, seed=trial.seed)
        for arm, given in ((name, pairs), (f"best of 8, {name}", rows)):
            arms[arm], paid = choosers.winners(judge, given)
            cost += paid
    arms["single sample"] = searches.single(samples)
    return Outcome({**arms, "oracle": [float(any(t.correct for t in row)) for row in rows]}, cost)
