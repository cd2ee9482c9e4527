"""Accelerating LLM Reasoning via Early Rejection with Partial Reward Modeling (Cheshmi et al., arXiv 2508.01969).

In beam search with N beams and M expansions only the first τ tokens of each candidate step are written, the PRM scores the
fragments, and the steps of the best N/M alone are finished:

    tokens of an iteration   N τ + (N/M)(L - τ)   instead of   N L

What differs: the policy is scripted (logic in words, steps of about ten tokens), and the judge is the best there can be: the
exact value of a finished step, and of a fragment the exact mean over the steps that begin with it. So what is lost is lost to
errors that are not written yet, not to the judge. N = M = 4 and τ = 5, about half a step, as 64 tokens are in the paper. Where
the error stands at the end of a step, as a result does, more is lost: see the other worlds in docs/search_costs.md.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.policy.protocol import SamplingParams
from footfall.search import BeamSearch, EarlyRejection, Method, Searcher
from footfall.types import Cost, SearchResult
from footfall.worlds import LogicPolicy, LogicWorld
from footfall.worlds.judges import ExactFragmentJudge

RECIPE = Recipe(
    name="early-rejection",
    paper="Accelerating LLM Reasoning via Early Rejection with Partial Reward Modeling",
    arxiv="2508.01969",
    year=2025,
    stage="search",
    world="logic",
    scale="32 problems a seed by the scripted policy of the logic world; exact judge of steps and fragments; N = M = 4. The "
    "world decides: with τ = 4 and an exact judge, `footfall bench search` has early rejection 26 points behind beam search on "
    "arithmetic, 10 on algebra and 38 on code at this N.",
    claims=(
        Claim(
            "Early rejection loses no accuracy against beam search (at most two points).",
            metric="accuracy",
            direction="higher", baseline="beam search", method="early rejection, 5 tokens", margin=-0.02,
            beside=("early rejection, 2 tokens", "early rejection, 8 tokens"),
            stand_in="The paper's judge is a trained PRM; here it is the exact value of a step or fragment, the best "
            "there can be.",
        ),
        Claim(
            "Early rejection saves a third of the generated tokens at least.",
            metric="generated tokens, as a share of beam search's on the same problem",
            direction="lower", baseline="beam search, tokens", method="early rejection, 5 tokens, tokens", margin=0.33,
            beside=("early rejection, 2 tokens, tokens", "early rejection, 8 tokens, tokens"),
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy and tokens of beam search and of rejection after 2, 5 and 8 tokens."""
    policy = LogicPolicy()
    judge = ExactFragmentJudge(policy)
    problems = LogicWorld().problems(trial.size(32, 2), trial.seed)
    methods: dict[str, Method] = {"beam search": BeamSearch(4, 4)}
    methods |= {f"early rejection, {tokens} tokens": EarlyRejection(4, 4, tokens) for tokens in (2, 5, 8)}
    params = SamplingParams(seed=trial.seed, max_tokens=64)
    results = {
        name: Searcher(policy, judge, m, params=params, separator="\n").solve(problems) for name, m in methods.items()
    }
    full = [_tokens(result) for result in results["beam search"]]
    arms: dict[str, list[float]] = {}
    for name, found in results.items():
        arms[name] = [float(r.chosen is not None and bool(r.chosen.correct)) for r in found]
        arms[f"{name}, tokens"] = [_tokens(r) / whole for r, whole in zip(found, full, strict=True)]
    return Outcome(arms, Cost.total(r.cost for found in results.values() for r in found))


def _tokens(result: SearchResult) -> int:
    return result.policy_cost.generated_tokens
