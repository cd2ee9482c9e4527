"""Rows to train on from trees of rollouts, as many as the tokens of other labels pay for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from footfall.drive.trees import leaf_rows
from footfall.lab.shared.prms import differ
from footfall.label.omegaprm import OmegaPRM
from footfall.types import Cost, Judged, Problem

_AT_ONCE = 40
"""Trees that grow beside each other."""


def bought_paths(trees: OmegaPRM, problems: Sequence[Problem], budget: Cost, seed: int) -> tuple[list[Judged], Cost]:
    """The paths of the trees that as many generated tokens pay for, in random order, and what the trees cost.

    A problem whose first rollouts are all right or all wrong is paid for and gives no path. In a smoke test trees are grown
    until there are two labels to learn from.
    """
    paths, spent, tokens = list[Judged](), Cost(), budget.generated_tokens
    chunks = (problems[at : at + _AT_ONCE] for at in range(0, len(problems), _AT_ONCE))
    for each in (tree for chunk in chunks for tree in trees.grow(chunk, "\n")):
        if spent.generated_tokens + each.cost.generated_tokens > tokens and differ(paths):
            break
        spent += each.cost
        paths += leaf_rows(each.tree, trees.name) if each.searches else []
    else:
        raise ValueError(
            f"trees of all {len(problems)} problems cost {spent.generated_tokens} of {tokens} tokens; give more"
        )
    order = np.random.default_rng(seed).permutation(len(paths))
    return [paths[i] for i in order], spent
