"""HRM: Towards Hierarchical Multi-Step Reward Models for Enhanced Reasoning in Large Language Models (Wang et al., 2025,
arXiv 2503.13551).

A tree of b steps after every node is grown to the end; a node's label is the share of right leaves below it. Of this tree
come single steps and, from depth 2 on, merged pairs of steps with the later one's label. Hierarchical node compression (HNC)
makes a second tree without new rollouts: some nodes are merged with their parent and hang one level higher, which

    changes the label of a parent that loses one of its b children, e.g. (1, 1, 0, 0) → (1, 0, 0): 0.5 → 0.33

What differs: nothing is trained, for a reward model that reads a trace from left to right and scores the end of a step sees
the same text in a merged pair as in the two steps; the paper's reads the current step in a prompt of its own. Instead
the labels are compared with the exact value of each prefix, known of scripted policies. Problems are short, so that
all traces end within the depth of the tree (b = 5 as in the paper): up to 3 operations, or one linear equation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from footfall.lab.recipe import Claim, Outcome, Recipe, Trial
from footfall.lab.shared.known import World, WritesWell
from footfall.label.hrm_hnc import FullTrees, compress, tree_samples
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost, Judged
from footfall.worlds import AlgebraPolicy, AlgebraWorld, ArithmeticPolicy, ArithmeticWorld

RECIPE = Recipe(
    name="hrm-hnc",
    paper="Towards Hierarchical Multi-Step Reward Models for Enhanced Reasoning in Large Language Models",
    arxiv="2503.13551",
    year=2025,
    stage="data",
    world="arithmetic, algebra",
    scale="Trees of 24 arithmetic and 24 algebra problems a seed, 5 steps after each node, depth 6, by scripted policies.",
    claims=(
        Claim(
            "Merged pairs and node compression give at least twice the examples of single steps, from the same rollouts.",
            metric="different examples a tree", direction="higher",
            baseline="twice the single steps", method="pairs and compression", beside=("single steps", "with pairs"),
            stand_in="The paper's figure is best-of-N with a PRM on merged steps; here only what the merging yields "
            "and its noise are measured.",
        ),
        Claim(
            "The labels that compression adds are as near to the exact values as those of the tree itself.",
            metric="mean absolute error of labels before the answer", direction="lower", margin=-0.02,
            baseline="error in the tree", method="error of what compression adds",
        ),
        Claim(
            "Cut at one half, the labels that compression adds are right as often as those of the tree itself.",
            metric="share of labels on the same side of one half as the exact value", direction="higher", margin=-0.02,
            baseline="agreement in the tree", method="agreement of what compression adds",
        ),
    ),
)  # fmt: skip
WORLDS: tuple[tuple[World, WritesWell], ...] = (
    (ArithmeticWorld(max_ops=3), ArithmeticPolicy()), (AlgebraWorld(kinds=("linear",)), AlgebraPolicy()),
)  # fmt: skip


def measure(trial: Trial) -> Outcome:
    """Rows from the same trees with pairs and compression, and their error against exact values."""
    arms, cost, generator = defaultdict[str, list[float]](list), Cost(), np.random.default_rng(trial.seed)
    for world, policy in WORLDS:
        problems = world.problems(trial.size(24, 2), trial.seed)
        method = FullTrees(policy, 5, trial.size(6, 4), SamplingParams(0.1, seed=trial.seed))
        grown = method.grow(problems, "\n")
        cost += grown.cost
        for tree in grown.trees:
            own, both = tree_samples([tree]), tree_samples([tree, compress(tree, generator)])
            arms["single steps"].append(
                len({(tree.trajectory(i).key, node.value) for i, node in enumerate(tree.nodes)})
            )
            arms["with pairs"].append(len(own))
            arms["pairs and compression"].append(len(both))
            theirs, added = _beside_exact(own, policy), _beside_exact(both[len(own) :], policy)
            if theirs and added:
                for name, pairs in (("in the tree", theirs), ("of what compression adds", added)):
                    arms[f"error {name}"].append(fmean(abs(label - value) for label, value in pairs))
                    arms[f"agreement {name}"].append(fmean((label >= 0.5) == (value >= 0.5) for label, value in pairs))
    arms["twice the single steps"] = [2 * count for count in arms["single steps"]]
    return Outcome(arms, cost)


def _beside_exact(rows: Sequence[Judged], policy: WritesWell) -> list[tuple[float, float]]:
    """Labels beside exact values, where the outcome is still open."""
    labels = [judgement.values[-1] for _, judgement in rows if judgement is not None]
    pairs = zip(labels, (policy.value(trajectory) for trajectory, _ in rows), strict=True)
    return [(label, value) for label, value in pairs if label is not None and 0 < value < 1]
