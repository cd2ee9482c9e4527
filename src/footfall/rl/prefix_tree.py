"""λ-GRPO (GRPO is Secretly a Process Reward Model, arXiv 2509.21154): completions that begin alike are a tree.

At token t completion i belongs to the process set λ(i, t) = {j : y_j[:t+1] = y_i[:t+1]}, all tokens up to and with t the same.
GRPO with an outcome reward is a Monte Carlo PRM on that tree, in which a node counts as often as completions go through it.
λ-GRPO divides every token's loss, its KL term too, by that number:

    A_it = (R_i - mean R) / (std R + 1e-4)  as in GRPO,      weight_it = 1 / |λ(i, t)|

The tree also gives step values for nothing: that of a node is the mean outcome of its members (`node_values`). A completion
that is the beginning of another ends in a branch of its own; two that are equal share every node. Tokens that others wrote
belong to the prefix and carry no loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from footfall.registry import Declared, Paper, register
from footfall.rl.group_relative import constant, outcomes
from footfall.rl.groups import Credit, Floats, Rollout, each_group, standardised


def process_sets(sequences: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
    """λ(i, t) for every completion and token, as indices of completions."""
    found: list[list[tuple[int, ...]]] = [[] for _ in sequences]
    together = [tuple(range(len(sequences)))]
    at = 0
    while together:
        parted: list[tuple[int, ...]] = []
        for members in together:
            branches: dict[int, list[int]] = defaultdict(list)
            for i in members:
                if at < len(sequences[i]):
                    branches[int(sequences[i][at])].append(i)
            parted += [tuple(branch) for branch in branches.values()]
        for members in parted:
            for i in members:
                found[i].append(members)
        together, at = parted, at + 1
    return found


def prefix_weights(sequences: Sequence[Sequence[int]]) -> list[Floats]:
    """1 / |λ(i, t)|: 1 for a completion that shares no beginning, and never less from one token to the next."""
    return [np.array([1 / len(members) for members in row]) for row in process_sets(sequences)]


def node_values(sequences: Sequence[Sequence[int]], rewards: Sequence[float]) -> list[Floats]:
    """The mean outcome of λ(i, t): a Monte Carlo value of every prefix, from the group alone."""
    known = np.asarray(rewards, np.float64)
    return [np.array([known[list(members)].mean() for members in row]) for row in process_sets(sequences)]


@register(
    "credit",
    "lambda-grpo",
    Declared(
        needs=("outcome", "ids"), paper=Paper("GRPO is Secretly a Process Reward Model", 2025, "2509.21154")
    ),
)  # fmt: skip
def lambda_grpo(eps: float = 1e-4) -> Credit:
    """GRPO whose tokens weigh one over the number of completions that begin with them (λ-GRPO)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        return constant(standardised(outcomes(group), eps), group)

    def weigh(group: Sequence[Rollout]) -> list[Floats]:
        return prefix_weights([each.known("ids").astype(np.int64).tolist() for each in group])

    return Credit(("outcome", "ids"), each_group(rule), each_group(weigh))
