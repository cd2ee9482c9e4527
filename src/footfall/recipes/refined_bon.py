"""GM-PRM: A Generative Multimodal Process Reward Model for Multimodal Mathematical Reasoning (Zhang et al., arXiv 2508.04088).

Refined best-of-N: N/2 solutions are sampled and judged. Where the judge finds a first wrong step, the critic writes a corrected
one and the policy goes on after it; else a fresh solution is sampled. The best of all N wins by

    score = (1/n) Σ_t s_t,   s_t = 0 after the first error

What differs: no images. Policy, judge and critic are scripted: the judge passes a tenth of the wrong steps and blames a tenth
of the right ones; the critic rewrites a step with a quarter of the policy's errors, and for comparison with all of them. That
half of the samples are refined, and the score, are inferred: the abstract says neither. N = 8, and at equal cost: best-of-N
samples until it has spent as many tokens as refining, the critic's included, spent on the same problem.
"""

from __future__ import annotations

from collections.abc import Sequence

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import WORLDS
from footfall.lab.shared.searches import right, tokens
from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Budget, Searcher, choose
from footfall.search.refined_bon import RefinedBestOf, Reviser, critique_score
from footfall.simulate import Noisy
from footfall.types import Cost, SearchResult
from footfall.worlds import ArithmeticPolicy, OpRates

RECIPE = Recipe(
    name="refined-bon",
    paper="GM-PRM: A Generative Multimodal Process Reward Model for Multimodal Mathematical Reasoning",
    arxiv="2508.04088", year=2025, stage="search", world="arithmetic",
    scale="Scripted policy, judge (a tenth of its verdicts wrong) and critic; N = 8; 200 problems a seed.",
    claims=(
        Claim("Refined best-of-N beats best-of-N with the same judge.",
            metric="accuracy at N = 8", direction="higher", baseline="best-of-N", method="refined",
            beside=("single sample", "refined by the policy itself"),
            stand_in="The paper's critic is a trained vision-language PRM; here judge and critic are scripted, with "
            "known error rates.",
        ),
        Claim("It does so at equal cost.",
            metric="accuracy", direction="higher", baseline="best-of-N, equal tokens", method="refined",
        ),
        Claim("A pool with refined solutions holds a right one more often.",
            metric="share of problems with a right solution among 8", direction="higher",
            baseline="best-of-N, oracle", method="refined, oracle",
        ),
        Claim("Refining costs no more tokens than best-of-N: a refined solution is written only from the error on.",
            metric="tokens a problem", direction="lower", baseline="best-of-N, tokens", method="refined, tokens",
        ),
    ),
)  # fmt: skip
N = 8
CRITIC = ArithmeticPolicy(OpRates(0.01, 0.0125, 0.055, 0.04), OpRates(0, 0, 0.01, 0.01), OpRates(*[0.16] * 4))
"""A quarter of the policy's errors."""


def measure(trial: Trial) -> Outcome:
    """Refined best-of-N against N samples and against samples of equal tokens."""
    world, policy, truth = WORLDS["arithmetic"]
    problems = world.problems(trial.size(200, 10), trial.seed)
    judge, params = Noisy(truth, seed=trial.seed), SamplingParams(seed=trial.seed, max_tokens=100)

    def refined(writer: ArithmeticPolicy) -> list[SearchResult]:
        helpers = {"critic": Reviser(writer, problems)}
        return Searcher(policy, judge, RefinedBestOf(N), params=params, separator="\n", helpers=helpers).solve(problems)

    found, own = refined(CRITIC), refined(ArithmeticPolicy())
    sampled = Searcher(policy, judge, BestOf(N, "best", "mean"), params=params, separator="\n").solve(problems)
    many, spent = BestOf(4 * N, "best", "mean"), tokens(found)
    equal = [
        Searcher(policy, judge, many, Budget(tokens=int(most)), params, "\n").solve([problem])[0]
        for problem, most in zip(problems, spent, strict=True)
    ]
    arms = {
        "single sample": [float(bool(r.candidates and r.candidates[0][0].correct)) for r in sampled],
        "best-of-N": _scored(sampled), "best-of-N, equal tokens": _scored(equal),
        "refined": right(found), "refined by the policy itself": right(own),
        "best-of-N, oracle": _oracle(sampled), "refined, oracle": _oracle(found),
        "best-of-N, tokens": tokens(sampled), "refined, tokens": spent,
    }  # fmt: skip
    return Outcome(arms, Cost.total(r.cost for r in [*found, *own, *sampled, *equal]))


def _scored(results: Sequence[SearchResult]) -> list[float]:
    """Whether the best by the same score as a refined pool's is right."""
    figures = []
    for result in results:
        traces = [trace for trace, _ in result.candidates]
        scores = [None if said is None else critique_score(said.values) for _, said in result.candidates]
        chosen = choose(traces, scores, "best")
        figures.append(float(bool(chosen and chosen.correct)))
    return figures


def _oracle(results: Sequence[SearchResult]) -> list[float]:
    return [float(any(trace.correct for trace, _ in result.candidates)) for result in results]
