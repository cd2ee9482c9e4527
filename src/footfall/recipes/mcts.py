"""Limits of PRM-Guided Tree Search for Mathematical Reasoning with LLMs (Cinquin et al., arXiv 2510.20272): MCTS.

Paths go down a tree of steps and back their value up; at a node p the next child c is

    argmax_c Q_c + p_c √N_p / (1 + N_c) · (ln((N_p + c_base + 1) / c_base) + c_init)

The study finds MCTS ahead of other tree searches but not of best-of-N, since it leans more on values that are not reliable.
The judge-free variant is rStar's (Qi et al., 2408.06195): UCT over actions, an answer's value is its own confidence.

What differs: writers and judges are scripted. The unreliable judge errs at one step in five; the reliable one knows the exact
value of every prefix. Tokens are equal problem by problem: best-of-N and DVTS take 8 solutions, and what best-of-N's cost is
the hard budget of MCTS and rStar. The other tree search is DVTS. rStar has two of its five actions and no second model.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.label.noisy import Noisy
from footfall.policy.protocol import SamplingParams
from footfall.search import DVTS, MCTS, BestOf, Budget, Method, RStar, Searcher
from footfall.types import Cost, Judge
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge, TruthJudge

RECIPE = Recipe(
    name="mcts",
    paper="Limits of PRM-Guided Tree Search for Mathematical Reasoning with LLMs",
    arxiv="2510.20272",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="40 held-out problems a seed, about 330 generated tokens each; scripted policy, scripted judges of known quality.",
    claims=(
        Claim(
            "With an unreliable judge MCTS has no lead over best-of-N at equal tokens.",
            metric="accuracy, judge errs at one step in five",
            direction="higher", baseline="MCTS", method="best-of-N", margin=-0.02, beside=("MCTS, UCT", "single sample"),
        ),
        Claim(
            "MCTS beats another tree search with the same unreliable judge.",
            metric="accuracy, judge errs at one step in five",
            direction="higher", baseline="DVTS", method="MCTS",
        ),
        Claim(
            "With reliable values MCTS beats best-of-N at equal tokens.",
            metric="accuracy, judge knows the exact value",
            direction="higher", baseline="best-of-N, exact", method="MCTS, exact",
        ),
        Claim(
            "Backing values up helps when the judge is unreliable.",
            metric="accuracy, judge errs at one step in five",
            direction="higher", baseline="MCTS, no backup", method="MCTS",
        ),
        Claim(
            "rStar's search without a judge beats the majority vote at equal tokens.",
            metric="accuracy without a judge",
            direction="higher", baseline="majority vote", method="rStar",
        ),
    ),
)  # fmt: skip
N = 8


def measure(trial: Trial) -> Outcome:
    policy = ArithmeticPolicy()
    problems = ArithmeticWorld().problems(trial.size(40, 3), trial.seed, split="test")
    noisy, exact = Noisy(TruthJudge(), 0.2, 0.2, seed=trial.seed), ExactValueJudge(policy)
    arms: dict[str, list[float]] = {}
    costs: list[Cost] = []

    def run(arm: str, method: Method, judge: Judge | None, tokens: Sequence[int | None] = ()) -> list[int]:
        params = SamplingParams(seed=trial.seed, max_tokens=256 if isinstance(method, BestOf | RStar) else 32)
        results = [
            Searcher(policy, judge, method, Budget(tokens=most), params, "\n").solve([problem])[0]
            for problem, most in zip(problems, tokens or [None] * len(problems), strict=True)
        ]
        arms[arm] = [float(result.chosen is not None and bool(result.chosen.correct)) for result in results]
        costs.extend(result.cost for result in results)
        return [result.cost.generated_tokens for result in results]

    run("single sample", BestOf(1, "majority"), None)
    run("majority vote", BestOf(N, "majority"), None)
    run("best-of-N, exact", BestOf(N, "best"), exact)
    spent = run("best-of-N", BestOf(N, "weighted", "mean"), noisy)
    run("DVTS", DVTS(N, 4, "mean", "weighted"), noisy)
    run("MCTS", MCTS(4 * N, 4, aggregation="mean", rule="weighted"), noisy, spent)
    run("MCTS, no backup", MCTS(4 * N, 4, backup=False, aggregation="mean", rule="weighted"), noisy, spent)
    run("MCTS, UCT", MCTS(4 * N, 4, "uct", aggregation="mean", rule="weighted"), noisy, spent)
    run("MCTS, exact", MCTS(4 * N, 4), exact, spent)
    run("rStar", RStar(4 * N, 2), None, spent)
    return Outcome(arms, Cost.total(costs))
