"""Limits of PRM-Guided Tree Search for Mathematical Reasoning with LLMs (Cinquin et al., arXiv 2510.20272): MCTS.

Paths go down a tree of steps and back their value up; at a node p the next child c is

    argmax_c Q_c + p_c √N_p / (1 + N_c) · (ln((N_p + c_base + 1) / c_base) + c_init)

The study finds MCTS ahead of other tree searches but not of best-of-N, since it leans more on values that are not reliable.
The judge-free variant is rStar's (Qi et al., 2408.06195): UCT over actions, an answer's value is its own confidence.

What differs: the writer is scripted and gets a step wrong one time in three. The unreliable judge is a PRM trained on Monte
Carlo labels; the reliable one knows the exact value of every prefix. Tokens are equal problem by problem, and are
those that the policy writes and those that the judge reads: a judge keeps what it has read, so every new step is read once,
or (one claim) re-reads the whole trace at every judgement. Best-of-N and the majority vote take 8 solutions, and what that
cost is the hard budget of MCTS and of rStar. The other tree search is DVTS, N = 8, and what it cost is MCTS's budget against
it. rStar has two of its five actions and no second model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.searches import WRITER, priced, problems, right, tokens
from footfall.policy.protocol import SamplingParams
from footfall.search import DVTS, MCTS, BestOf, Budget, Method, RStar, Searcher
from footfall.types import Cost, Judge
from footfall.worlds import ExactValueJudge

RECIPE = Recipe(
    name="mcts",
    paper="Limits of PRM-Guided Tree Search for Mathematical Reasoning with LLMs",
    arxiv="2510.20272",
    year=2025,
    stage="search",
    world="arithmetic",
    scale="Scripted policy that gets a step wrong one time in three; a PRM of 9.5M parameters on 2,400 traces, or exact "
    "values; the tokens of 8 solutions, written by the policy and read by the judge; 200 problems a seed.",
    claims=(
        Claim(
            "With a trained PRM MCTS has no lead over best-of-N at equal tokens.",
            metric="accuracy with a trained PRM; tokens written and read, every new step once",
            direction="higher", baseline="MCTS", method="best-of-N", margin=-0.02, beside=("MCTS, UCT", "single sample"),
        ),
        Claim(
            "MCTS beats another tree search with the same PRM at equal tokens.",
            metric="accuracy with a trained PRM; tokens written and read, every new step once",
            direction="higher", baseline="DVTS", method="MCTS, tokens of DVTS",
        ),
        Claim(
            "With reliable values MCTS beats best-of-N at equal tokens.",
            metric="accuracy, judge knows the exact value; tokens written and read, every new step once",
            direction="higher", baseline="best-of-N, exact", method="MCTS, exact", beside=("single sample",),
        ),
        Claim(
            "With reliable values MCTS beats best-of-N at equal tokens though the judge re-reads each trace.",
            metric="accuracy, judge knows the exact value; tokens written and read, the whole trace at every judgement",
            direction="higher", baseline="best-of-N, exact, re-reading", method="MCTS, exact, re-reading",
        ),
        Claim(
            "Backing values up helps with a trained PRM.",
            metric="accuracy with a trained PRM; tokens written and read, every new step once",
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
VOTED = MCTS(4 * N, 4, aggregation="last", rule="weighted")


def measure(trial: Trial) -> Outcome:
    """MCTS and its variants against votes and trees of the same tokens, with a trained PRM and exact values."""
    trial = prms.large(trial)
    given = problems(trial, trial.size(200, 3))
    arms: dict[str, list[float]] = {}
    costs: list[Cost] = []
    memories: dict[str, dict[str, float | None]] = {}

    def run(
        arm: str, method: Method, judge: Judge | None, budget: Sequence[float] = (), reread: bool = False
    ) -> list[float]:
        """Each problem by itself, within its budget; the tokens that each took."""
        params = SamplingParams(seed=trial.seed, max_tokens=256 if isinstance(method, BestOf | RStar) else 32)
        said = judge and priced(judge, memories.setdefault(judge.name, {}), reread)
        results = [
            Searcher(WRITER, said, method, Budget(tokens=most), params, "\n").solve([problem])[0]
            for problem, most in zip(given, map(int, budget) if budget else [None] * len(given), strict=True)
        ]
        arms[arm], arms[f"tokens, {arm}"] = right(results), tokens(results)
        costs.extend(result.cost for result in results)
        return arms[f"tokens, {arm}"]

    prm, exact = prms.judge(trial, "monte-carlo"), ExactValueJudge(WRITER)
    run("single sample", BestOf(1, "majority"), None)
    run("rStar", RStar(4 * N, 2), None, run("majority vote", BestOf(N, "majority"), None))
    spent = run("best-of-N", BestOf(N, "weighted", "last"), prm)
    run("MCTS", VOTED, prm, spent)
    run("MCTS, no backup", replace(VOTED, backup=False), prm, spent)
    run("MCTS, UCT", replace(VOTED, selection="uct"), prm, spent)
    run("MCTS, tokens of DVTS", VOTED, prm, run("DVTS", DVTS(N, 4, "last", "weighted"), prm))
    for reading, reread in {"": False, ", re-reading": True}.items():
        most = run(f"best-of-N, exact{reading}", BestOf(N, "best"), exact, reread=reread)
        run(f"MCTS, exact{reading}", MCTS(4 * N, 4), exact, most, reread)
    return Outcome(arms, prms.spent(trial, "monte-carlo", used_pool="no") + Cost.total(costs))
