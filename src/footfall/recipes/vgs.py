"""Value-Guided Search for Efficient Chain-of-Thought Reasoning (Wang et al., arXiv 2505.17373).

Beam search over blocks of b tokens. B = N / w beams; each gets w continuations of a block, and of all of them the B best by

    V(prefix) = P(right answer | prefix), read at the block's last token

go on. The finished beams vote with weight V. The value model is trained on outcomes alone, with every token of a roll-out as a
training position.

What differs: solutions have 80 tokens instead of 16,000 and blocks 24; a scripted policy fills a block with whole steps. The
value model is not trained (the paper's loss is in `footfall.train.objectives`): V is the policy's exact value, blurred so
that finished solutions are told apart with an AUC of 0.94. Writing and reading a token cost the same here, so the majority
vote, which needs no judge, has 2 N samples. A step PRM as the guide, the paper's other baseline, is not compared.
"""

from __future__ import annotations

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.searches import right
from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Method, Searcher
from footfall.search.vgs import ValueGuided
from footfall.simulate import Blurred
from footfall.types import Cost, SearchResult
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="vgs",
    paper="Value-Guided Search for Efficient Chain-of-Thought Reasoning",
    arxiv="2505.17373", year=2025, stage="search", world="arithmetic",
    scale="Scripted solutions of 7 to 9 operations, blocks of 24 tokens, N = 16, a blurred value; 40 problems a seed.",
    claims=(
        Claim("Value-guided search beats a majority vote of as many tokens.",
            metric="accuracy", direction="higher", baseline="majority of 2 N", method="vgs", beside=("single sample",),
            stand_in="The paper trains a value model on outcomes; here it is the exact value, blurred.",
        ),
        Claim("It beats the weighted vote over N whole solutions with the same value model.",
            metric="accuracy", direction="higher", baseline="weighted vote", method="vgs", beside=("best-of-N",),
        ),
        Claim("In its last round a weighted vote is better than the highest value.",
            metric="accuracy", direction="higher", baseline="vgs, highest value", method="vgs",
        ),
        Claim("It is no worse than a majority vote with a quarter of the tokens.",
            metric="accuracy", direction="higher", baseline="majority of 2 N", method="vgs, N / 4",
            margin=-0.02,
        ),
    ),
)  # fmt: skip
N, BLOCK, LENGTH = 16, 24, 192
WORLD, POLICY = ArithmeticWorld(min_ops=7, max_ops=9), ArithmeticPolicy()


def measure(trial: Trial) -> Outcome:
    """Accuracy of block-wise search by values against votes and best-of-N of the same samples."""
    problems = WORLD.problems(trial.size(40, 3), trial.seed)
    judge = Blurred(POLICY, seed=trial.seed)
    params = SamplingParams(seed=trial.seed, max_tokens=LENGTH)

    def solve(method: Method) -> list[SearchResult]:
        return Searcher(POLICY, judge if method.judged else None, method, params=params, separator="\n").solve(problems)

    guided, small = solve(ValueGuided(N, 2, BLOCK, LENGTH)), solve(ValueGuided(N // 4, 2, BLOCK, LENGTH))
    sampled, voted = solve(BestOf(N, "weighted", "last")), solve(BestOf(2 * N, "majority"))
    arms = {
        "single sample": [float(bool(r.candidates[0][0].correct)) for r in voted],
        "majority of 2 N": right(voted),
        "weighted vote": right(sampled), "best-of-N": right(sampled, "best"),
        "vgs": right(guided), "vgs, highest value": right(guided, "best"),
        "vgs, N / 4": right(small),
    }  # fmt: skip
    return Outcome(arms, Cost.total(r.cost for r in [*guided, *small, *sampled, *voted]))
