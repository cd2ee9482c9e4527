"""Speculative Reward Model Boosts Decision Making Ability of LLMs Cost-Effectively (Gu et al., arXiv 2505.23579).

A tree search whose evaluator is the LLM itself spends most of its calls on judging. A small reward model takes its place, and
of the K candidates of a node, with the policy's share p_k and the reward model's share q_k, only those are grown that pass

    accept with probability min(1, q_k / p_k),   in the order of RC_k = q_k / p_k

What differs: the formulas of the test are inferred; the published code holds no search. The policy is scripted and tells no
probabilities, so each of its K = 4 samples has p_k = 1/4. Both evaluators are the exact value, blurred, each in its own way,
so that finished solutions are told apart with an AUC of 0.94: they are equally good. The LLM writes 3 evaluations of 10
tokens about a candidate, as a tree of thoughts does, and reads the trace; the reward model only reads it. Cost is in tokens
of the LLM: a token that the reward model reads counts as 0.06, by the sizes 0.4B and 7B. Problems have 7 to 9 operations.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.searches import right
from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Method, Searcher
from footfall.search.speculative import Speculative
from footfall.simulate import Blurred
from footfall.types import Cost, SearchResult
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="speculative-rm",
    paper="Speculative Reward Model Boosts Decision Making Ability of LLMs Cost-Effectively",
    arxiv="2505.23579", year=2025, stage="search", world="arithmetic",
    scale="Scripted policy, 2 blurred evaluators of equal quality, 4 candidates a node, 4 nodes a level; 280 problems a seed.",
    claims=(
        Claim("The search with the reward model costs about a tenth of its host: no more than that.",
            metric="cost in LLM tokens a problem", direction="lower",
            baseline="a tenth of the host, cost", method="speculative, cost",
            stand_in="The paper's evaluators are a language model and a small trained one; here both are exact "
            "values, blurred.",
        ),
        Claim("The search with the reward model and the test is as accurate as its host, or at most two points less.",
            metric="accuracy", direction="higher", margin=-0.02, baseline="host", method="speculative",
            beside=("reward model without the test", "single sample"),
        ),
        Claim("It costs less than the host.",
            metric="cost in LLM tokens a problem", direction="lower", baseline="host, cost", method="speculative, cost",
            beside=("reward model without the test, cost", "single sample, cost"),
        ),
        Claim("The test itself saves cost: fewer branches are grown.",
            metric="cost in LLM tokens a problem", direction="lower",
            baseline="reward model without the test, cost", method="speculative, cost",
        ),
    ),
)  # fmt: skip
WORLD, POLICY = ArithmeticWorld(min_ops=7, max_ops=9), ArithmeticPolicy()
WRITES = 30
"""Tokens that the LLM writes to evaluate one candidate."""
SMALL = 0.4 / 7
"""What a token costs in the reward model, in tokens of the LLM."""


def measure(trial: Trial) -> Outcome:
    """Accuracy and cost of a tree search judged by the LLM, by a small model, and by it with the test."""
    problems = WORLD.problems(trial.size(280, 2), trial.seed)
    params = SamplingParams(seed=trial.seed, max_tokens=100)
    llm, small = Blurred(POLICY, seed=2 * trial.seed, price=WRITES), Blurred(POLICY, seed=2 * trial.seed + 1)
    arms: dict[str, list[float]] = {}
    cost = Cost()
    searches: dict[str, tuple[Method, Blurred, float]] = {
        "single sample": (BestOf(1, "majority"), small, 0.0),
        "host": (Speculative(test=False), llm, 1.0),
        "reward model without the test": (Speculative(test=False), small, SMALL),
        "speculative": (Speculative(), small, SMALL),
    }
    for name, (method, judge, weight) in searches.items():
        found = Searcher(POLICY, judge, method, params=params, separator="\n").solve(problems)
        arms |= {name: right(found), f"{name}, cost": [_cost(result, weight) for result in found]}
        cost += Cost.total(result.cost for result in found)
    arms["a tenth of the host, cost"] = [each / 10 for each in arms["host, cost"]]
    return Outcome(arms, cost)


def _cost(result: SearchResult, weight: float) -> float:
    """Tokens of the LLM; one that the judge reads counts as `weight`."""
    return result.cost.generated_tokens + weight * result.cost.scored_tokens
