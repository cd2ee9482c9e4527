"""Accelerating LLM Reasoning via Early Rejection with Partial Reward Modeling (Cheshmi et al., arXiv 2508.01969).

In beam search with N beams and M expansions only the first τ tokens of each candidate step are written, the PRM scores the
fragments, and the steps of the best N/M alone are finished:

    tokens of an iteration   N τ + (N/M)(L - τ)   instead of   N L

What differs: policies are scripted, in four worlds with steps of 4 to 10 tokens, and the judge is the best there can be: the
exact value of a finished step, and of a fragment the exact mean over the steps that begin with it. So what is lost is lost to
errors that are not written yet, not to the judge. N = M = 4, and τ is about half a step, as 64 tokens are in the paper. The
world decides: where the error stands at the end of a step, as a result does, more is lost. All four count alike.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import World
from footfall.policy.protocol import SamplingParams
from footfall.search import BeamSearch, EarlyRejection, Method, Searcher
from footfall.types import Cost, SearchResult
from footfall.worlds import (
    AlgebraPolicy,
    AlgebraWorld,
    ArithmeticPolicy,
    ArithmeticWorld,
    CodePolicy,
    CodeWorld,
    LogicPolicy,
    LogicWorld,
)
from footfall.worlds.judges import ExactFragmentJudge
from footfall.worlds.scripted import ScriptedPolicy

RECIPE = Recipe(
    name="early-rejection",
    paper="Accelerating LLM Reasoning via Early Rejection with Partial Reward Modeling",
    arxiv="2508.01969",
    year=2025,
    stage="search",
    world="arithmetic, logic, algebra, code",
    scale="16 problems of each of four worlds a seed by scripted policies; exact judge of steps and fragments; N = M = 4.",
    claims=(
        Claim(
            "Early rejection loses no accuracy against beam search (at most two points).",
            metric="accuracy",
            direction="higher", baseline="beam search", method="early rejection, half a step", margin=-0.02,
            beside=(
                "early rejection, a quarter of a step", "early rejection, three quarters of a step",
                "early rejection, half a step, arithmetic", "early rejection, half a step, logic",
                "early rejection, half a step, algebra", "early rejection, half a step, code",
            ),
            stand_in="The paper's judge is a trained PRM; here it is the exact value of a step or fragment, the best "
            "there can be.",
        ),
        Claim(
            "Early rejection saves a third of the generated tokens at least.",
            metric="generated tokens, as a share of beam search's on the same problem",
            direction="lower", baseline="beam search, tokens", method="early rejection, half a step, tokens", margin=0.33,
            beside=("early rejection, a quarter of a step, tokens", "early rejection, three quarters of a step, tokens"),
        ),
    ),
)  # fmt: skip
PLACES: dict[str, tuple[World, ScriptedPolicy[Any], int]] = {
    "arithmetic": (ArithmeticWorld(), ArithmeticPolicy(), 7), "logic": (LogicWorld(), LogicPolicy(), 10),
    "algebra": (AlgebraWorld(), AlgebraPolicy(), 8), "code": (CodeWorld(), CodePolicy(), 4),
}  # fmt: skip
"""With the tokens of a step, on average."""
PARTS = {"a quarter of a step": 0.25, "half a step": 0.5, "three quarters of a step": 0.75}


def measure(trial: Trial) -> Outcome:
    """Accuracy and tokens of beam search and of rejection after parts of a step, world by world."""
    arms, costs = defaultdict[str, list[float]](list), list[Cost]()
    for place, (world, policy, length) in PLACES.items():
        problems = world.problems(trial.size(16, 2), trial.seed)
        methods: dict[str, Method] = {"beam search": BeamSearch(4, 4)}
        methods |= {
            f"early rejection, {name}": EarlyRejection(4, 4, round(part * length)) for name, part in PARTS.items()
        }
        judge, params = ExactFragmentJudge(policy), SamplingParams(seed=trial.seed, max_tokens=64)
        results = {
            name: Searcher(policy, judge, m, params=params, separator="\n").solve(problems)
            for name, m in methods.items()
        }
        full = [_tokens(result) for result in results["beam search"]]
        for name, found in results.items():
            arms[f"{name}, {place}"] = [float(r.chosen is not None and bool(r.chosen.correct)) for r in found]
            arms[name] += arms[f"{name}, {place}"]
            arms[f"{name}, tokens"] += [_tokens(r) / whole for r, whole in zip(found, full, strict=True)]
            costs += [result.cost for result in found]
    return Outcome(arms, Cost.total(costs))


def _tokens(result: SearchResult) -> int:
    return result.policy_cost.generated_tokens
