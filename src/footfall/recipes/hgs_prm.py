"""Let's reward step by step: Step-Level reward model as the Navigators for Reasoning (Ma et al., arXiv 2310.10080): HGS-PRM.

One step at a time is sampled and classed by the PRM:

    positive → take it and go on;   neutral → keep it as a fall-back;   negative → drop it, sample again
    5 samples without a positive one → the best neutral;   without a neutral → the node is dead, back to its parent

What differs: writers are scripted, and the PRM is the truth of each step, .9 or .1, blurred by a normal error of 2.5 on the
scale of logits: of right steps it calls about 70% positive (.7 and more), 18% neutral, 11% negative. Chain of thought is one
sample, as in the paper. A weighted vote among N solutions with the same PRM stands beside it; it has, problem by problem, as
many tokens as the search took, written and read together.
"""

from __future__ import annotations

from footfall.drive.budget import tokens_of
from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.policy.protocol import Policy, SamplingParams
from footfall.search import HGS, BestOf, Budget, Searcher
from footfall.simulate import Blurred
from footfall.types import Cost, SearchResult
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, CodePolicy, CodeWorld, TruthJudge

RECIPE = Recipe(
    name="hgs-prm",
    paper="Let's reward step by step: Step-Level reward model as the Navigators for Reasoning",
    arxiv="2310.10080",
    year=2023,
    stage="search",
    world="arithmetic, code",
    scale="100 held-out arithmetic problems and 60 programs a seed; scripted policies, PRM of known error rates.",
    claims=(
        Claim(
            "Greedy search with backtracking by a PRM beats chain of thought in mathematics.",
            metric="accuracy, arithmetic",
            direction="higher", baseline="chain of thought, arithmetic", method="HGS-PRM, arithmetic",
            beside=("vote at its tokens, arithmetic",),
            stand_in="The paper's judge is a trained three-way PRM; here it is the truth with known error rates.",
        ),
        Claim(
            "Greedy search with backtracking by a PRM beats chain of thought in code.",
            metric="accuracy, code",
            direction="higher", baseline="chain of thought, code", method="HGS-PRM, code",
            beside=("vote at its tokens, code",),
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """The arms in the arithmetic world and in the code world."""
    arithmetic, code = _arms(trial, "arithmetic", trial.size(100, 4)), _arms(trial, "code", trial.size(60, 3))
    return Outcome({**arithmetic.arms, **code.arms}, arithmetic.cost + code.cost)


def _arms(trial: Trial, name: str, n: int) -> Outcome:
    world = ArithmeticWorld() if name == "arithmetic" else CodeWorld()
    policy: Policy = ArithmeticPolicy() if name == "arithmetic" else CodePolicy()
    prm = Blurred(TruthJudge(world), sigma=2.5, seed=trial.seed, floor=0.1)
    problems = world.problems(n, trial.seed, split="test")
    params = SamplingParams(seed=trial.seed, max_tokens=256)
    thought = Searcher(policy, None, BestOf(1, "majority"), params=params, separator="\n").solve(problems)
    searched = Searcher(policy, prm, HGS(), params=params, separator="\n").solve(problems)
    votes: list[SearchResult] = []
    for problem, like in zip(problems, searched, strict=True):
        budget = Budget(tokens=tokens_of(like.cost))
        votes += Searcher(policy, prm, BestOf(64, "weighted", "mean"), budget, params, "\n").solve([problem])
    arms = {"chain of thought": thought, "HGS-PRM": searched, "vote at its tokens": votes}
    right = {
        f"{arm}, {name}": [float(r.chosen is not None and bool(r.chosen.correct)) for r in results]
        for arm, results in arms.items()
    }
    return Outcome(right, Cost.total(result.cost for results in arms.values() for result in results))
