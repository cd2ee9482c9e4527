"""Value-Guided Search for Efficient Chain-of-Thought Reasoning (Wang et al., arXiv 2505.17373).

Beam search over blocks of b tokens. B = N / w beams; each gets w continuations of a block, and of all of them the B best by

    V(prefix) = P(right answer | prefix), read at the block's last token

go on. The finished beams vote with weight V. The value model is trained on outcomes alone, with every token of a roll-out as a
training position:

    L = mean over roll-outs of  1/|mask| Σ_t mask_t CE(f(x_≤t), correct | incorrect | incomplete),   mask 0 on the roll-in

What differs: the embedded model writes, completes and is the backbone of the value model, with one linear layer as head.
Solutions have 80 tokens instead of 16,000 and blocks 24. A trace of each problem is cut at a random line (or before the
first) as roll-in, and 4 roll-outs go on from there; problems without a right one are left out. Writing and reading a token
cost the same here, so the majority vote, which needs no judge, has 2 N samples. A step PRM as the guide, the paper's other
baseline, is not compared.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared import prms
from footfall.lab.shared.searches import right
from footfall.policy.embedded import embedded
from footfall.policy.protocol import draw_traces
from footfall.policy.torch_policy import AnyCut, TorchPolicy
from footfall.reward.judge import step_head
from footfall.search import BestOf, Method, Searcher
from footfall.search.vgs import ValueGuided
from footfall.segment.text import cut
from footfall.segment.tokens import recut
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judged, Judgement, Reason, SearchResult, Trajectory, Unjudged, failures_of
from footfall.worlds import ArithmeticWorld

RECIPE = Recipe(
    name="vgs",
    paper="Value-Guided Search for Efficient Chain-of-Thought Reasoning",
    arxiv="2505.17373", year=2025, stage="search", world="arithmetic",
    scale="Embedded Llama of 1.1M parameters as policy and as backbone of the value model, which has 600 roll-outs of 150 "
    "problems; blocks of 24 tokens, N = 16; 60 held-out problems a seed.",
    claims=(
        Claim("Value-guided search beats a majority vote of as many tokens.",
            metric="accuracy", direction="higher", baseline="majority of 2 N", method="vgs", beside=("single sample",),
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
ROLLED_IN = Unjudged(Reason.NOT_ASKED, "of the roll-in")


def measure(trial: Trial) -> Outcome:
    """Accuracy of block-wise search by a trained value model against votes and best-of-N."""
    policy, world = embedded(), ArithmeticWorld()
    rows, written = _rollouts(trial, policy)
    config = TrainConfig("token-value", lr=3e-4, epochs=trial.size(2, 1), eval_share=0.0, seed=trial.seed, device="cpu")
    trained = prms.train(trial, "vgs", rows, config)
    judge = step_head(trained.folder, device="cpu")
    problems = world.problems(trial.size(60, 2), trial.seed, split="test")

    def solve(method: Method) -> list[SearchResult]:
        writer, params = AnyCut(policy), prms.params(trial)
        return Searcher(writer, judge if method.judged else None, method, params=params, separator="").solve(problems)

    n = trial.size(N, 4)
    guided, small = solve(ValueGuided(n, 2, BLOCK, LENGTH)), solve(ValueGuided(max(2, n // 4), 2, BLOCK, LENGTH))
    sampled, voted = solve(BestOf(n, "weighted", "last")), solve(BestOf(2 * n, "majority"))
    arms = {
        "single sample": [float(bool(r.candidates[0][0].correct)) for r in voted],
        "majority of 2 N": right(voted),
        "weighted vote": right(sampled), "best-of-N": right(sampled, "best"),
        "vgs": right(guided), "vgs, highest value": right(guided, "best"),
        "vgs, N / 4": right(small),
    }  # fmt: skip
    searched = Cost.total(r.cost for r in [*guided, *small, *sampled, *voted])
    return Outcome(arms, searched + written + trained.cost)


def _rollouts(trial: Trial, policy: TorchPolicy) -> tuple[list[Judged], Cost]:
    """4 roll-outs from a random cut of one trace a problem, each token with how the roll-out ended; what they cost."""
    rng = np.random.default_rng(trial.seed)
    first = prms.training_traces(trial)[:: trial.size(4, 2)]
    cuts = [int(rng.integers(len(trace.steps))) for trace in first]
    drawn = draw_traces(policy, [t.prefix(k) for t, k in zip(first, cuts, strict=True)], 4, prms.params(trial))
    rows = [
        _tokenwise(trace, k, policy)
        for row, k in zip(drawn, cuts, strict=True)
        if any(trace.correct for trace in row)
        for trace in row
    ]
    return rows, Cost.total(t.cost for t in (*first, *(trace for row in drawn for trace in row)))


def _tokenwise(trace: Trajectory, rolled_in: int, policy: TorchPolicy) -> Judged:
    """The trace in steps of one token, labelled behind the roll-in."""
    label = 0.5 if trace.answer is None else float(bool(trace.correct))
    whole = recut(trace, lambda text, tokens=(): cut(text, (token.end for token in tokens)), policy.tokenizer)
    read = sum(len(step.token_ids or ()) for step in trace.steps[:rolled_in])
    ends = accumulate(len(step.token_ids or ()) for step in whole.steps)
    labels = tuple(None if end <= read else label for end in ends)
    reasons = failures_of(ROLLED_IN if value is None else None for value in labels)
    return Judged(whole, Judgement(whole.id, labels, "ending", failures=reasons))
