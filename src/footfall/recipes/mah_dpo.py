"""Simultaneous Multi-objective Alignment Across Verifiable and Non-verifiable Rewards (MAH-DPO, arXiv 2510.01167).

One backbone, an output head for each objective; a pair is compared by DPO under the head of its objective, and heads are mixed
when it writes:

    Δ = [log π_i(y⁺) − log π_i(y⁻)] − [log ref_i(y⁺) − log ref_i(y⁻)],   loss = mean over objectives of −log σ(β Δ)

What differs: The policy is a table over kinds of operations (`footfall.lab.shared.tables`): its rows are the hidden states h,
and z_i = W_i h, where W_1 begins as the identity and the others as noisy copies. Pairs are a right and a wrong rollout of a
problem for the one objective, one with and one without a step that leads nowhere, taken for an explanation, for the other.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.table_pairs import Compared, dpo
from footfall.lab.shared.tables import Sizes, beginner
from footfall.rl.exact import FILLER, Chain, Trace, expected, sample
from footfall.types import Cost

RECIPE = Recipe(
    name="mah-dpo",
    paper="Simultaneous Multi-objective Alignment Across Verifiable and Non-verifiable Rewards",
    arxiv="2510.01167", year=2025, stage="rl", world="tables",
    scale="Policies that are tables, six a seed: 32 kinds of operations, pairs of 8 rollouts of 64 problems, 5 passes in "
    "batches of 32, accuracy exact on 16 held-out problems, explanations in 32 rollouts of each.",
    claims=(
        Claim("Heads of their own, mixed equally, serve the second objective better than one head for all pairs.",
            metric="share of traces that explain", direction="higher",
            baseline="explains, one head", method="explains, mixed",
            beside=("explains, before",),
            stand_in="The paper aligns language models for accuracy and engagement; here the policy is a table, and a step "
            "that leads nowhere stands for engagement.",
        ),
        Claim("They are no less accurate than one head for all pairs.",
            metric="accuracy after the last update", direction="higher",
            baseline="one head", method="mixed", margin=-0.02,
            beside=("before",),
            stand_in="The paper aligns language models; here the policy is a table, so that accuracy is exact.",
        ),
        Claim("They serve both objectives better on the whole.",
            metric="mean of both objectives, a rate", direction="higher",
            baseline="both, one head", method="both, mixed",
            stand_in="The paper aligns language models for accuracy and engagement; here the policy is a table, and a step "
            "that leads nowhere stands for engagement.",
        ),
        Claim("Weights steer: four fifths on the first objective are more accurate than one fifth.",
            metric="accuracy after the last update", direction="higher",
            baseline="mixed 1:4", method="mixed 4:1",
            stand_in="The paper aligns language models; here the policy is a table, so that accuracy is exact.",
        ),
    ),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Accuracy and explaining steps of one head and of several mixtures."""
    arms: dict[str, list[float]] = {}
    cost = Cost()
    for n in range(trial.size(6, 2)):
        found, spent = _aligned(1000 * trial.seed + n, trial.size(5, 1))
        cost += spent
        for name, (right, explained) in found.items():
            figures = {name: right, f"explains, {name}": explained, f"both, {name}": (right + explained) / 2}
            for arm, figure in figures.items():
                arms.setdefault(arm, []).append(figure)
    return Outcome(arms, cost)


def explains(trace: Trace) -> bool:
    """What the second objective prefers."""
    return bool((trace.actions == FILLER).any())


def _aligned(seed: int, passes: int) -> tuple[dict[str, tuple[float, float]], Cost]:
    """Both figures of every mixture, and the steps of the rollouts that pairs were chosen from."""
    sizes, rng = Sizes(), np.random.default_rng([seed, 41])
    chain, first = Chain(sizes.depth, sizes.horizon), beginner(sizes.kinds, rng)
    drawn = rng.integers(0, sizes.kinds, (sizes.problems + sizes.held_out, sizes.depth))
    problems = [np.append(row, sizes.kinds) for row in drawn]
    pairs, steps = list[Compared](), 0
    for kinds in problems[: sizes.problems]:
        traces = sample(chain, first[kinds].reshape(-1, 4), sizes.size, rng)
        steps += sum(len(each.actions) for each in traces)
        scores = [each.solved(chain) for each in traces], [explains(each) for each in traces]
        for objective, row in enumerate(scores):
            if max(row) > min(row):
                best, worst = (traces[int(choose(row))] for choose in (np.argmax, np.argmin))
                pairs.append(Compared(objective, kinds, best, worst))

    def figures(hidden: Tensor, head: Tensor) -> tuple[float, float]:
        logits = (hidden @ head.T).detach().numpy()
        held_out = [logits[kinds].reshape(-1, 4) for kinds in problems[sizes.problems :]]
        draws = np.random.default_rng([seed, 47])
        written = [trace for row in held_out for trace in sample(chain, row, 32, draws)]
        right = expected(chain, np.stack(held_out), chain.solved)
        return float(np.mean(right)), float(np.mean([explains(trace) for trace in written]))

    found = {"before": figures(torch.tensor(first), torch.eye(4, dtype=torch.float64))}
    hidden, heads = dpo(first, pairs, 1, passes, seed)
    found["one head"] = figures(hidden, heads[0])
    hidden, heads = dpo(first, pairs, 2, passes, seed)
    for name, weight in (("mixed", 0.5), ("mixed 4:1", 0.8), ("mixed 1:4", 0.2)):
        found[name] = figures(hidden, weight * heads[0] + (1 - weight) * heads[1])
    return found, Cost(generated_tokens=steps)
