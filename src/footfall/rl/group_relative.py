"""GRPO, RLOO and REINFORCE++: the other completions of a prompt, or of the batch, are the baseline.

GRPO (DeepSeekMath, arXiv 2402.03300), with outcomes or with step rewards:

    outcome   A_it = (R_i - mean R) / (std R + ε)
    process   r̃ = (r - mean) / (std + ε) over all step rewards of the group,   A_it = Σ_{k: step k ends at or after t} r̃_ik

RLOO (Back to Basics, arXiv 2402.14740), Dr. GRPO (arXiv 2503.20783) and REINFORCE++ (arXiv 2501.03262):

    RLOO         A_i  = R_i - mean_{j≠i} R_j,   R less β Σ_t log π_old/π_ref if β > 0
    Dr. GRPO     A_i  = R_i - mean R            (and a loss divided by a constant length, which is the trainer's)
    REINFORCE++  A_it = whitened over the batch of Σ_{s≥t} γ^(s-t) (1[s = T] R - β log π_old/π_ref)_s

The std is the unbiased one, as TRL and verl take it. A rollout alone in its group has no baseline and gets 0.
Process rewards are pooled, so a completion with many steps weighs more in their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from footfall.judging import idle_settings
from footfall.registry import Declared, Paper, register
from footfall.rl.groups import (
    Credit,
    Floats,
    Needs,
    Rollout,
    at_ends,
    deviation,
    each_group,
    leave_one_out,
    spread,
    standardised,
    to_go,
    whitened,
)


def constant(values: Floats, group: Sequence[Rollout]) -> list[Floats]:
    """One number a rollout, on all its tokens."""
    return [np.full(each.tokens, value) for value, each in zip(values, group, strict=True)]


def outcomes(group: Sequence[Rollout]) -> Floats:
    """R_i of rollouts that have one."""
    return np.array([each.outcome for each in group], np.float64)


def drift(each: Rollout) -> Floats:
    """log π_old - log π_ref at every token that the policy wrote, 0 at others."""
    return np.where(each.mask, each.known("old") - each.known("reference"), 0.0)


def pooled_steps(group: Sequence[Rollout], eps: float = 1e-4, scale: bool = True) -> list[Floats]:
    """r̃: all step rewards of a group, standardised together."""
    flat = standardised(np.concatenate([each.known("rewards") for each in group]), eps, scale)
    return np.split(flat, np.cumsum([each.steps for each in group])[:-1])


@register(
    "credit",
    "grpo",
    Declared(
        needs=("outcome",),
        serves=("default",),
        systems={"dr-grpo": {"scale": "none"}},
        paper=Paper(
            "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models", 2024, "2402.03300"
        ),
    ),
)
def grpo(scale: Literal["group", "batch", "none"] = "group", eps: float = 1e-4) -> Credit:
    """The outcome, standardised within the group (GRPO, Dr. GRPO)."""

    def rule(groups: Sequence[Sequence[Rollout]]) -> list[list[Floats]]:
        rows = [standardised(outcomes(group), eps, scale == "group") for group in groups]
        if scale == "batch":
            everything = np.concatenate([outcomes(group) for group in groups]) if groups else np.zeros(0)
            width = deviation(everything)
            rows = [row / (width + eps) if width else np.zeros_like(row) for row in rows]
        return [constant(row, group) for row, group in zip(rows, groups, strict=True)]

    return Credit(("outcome",), rule, idle=idle_settings((scale == "none", "eps", "scale=group and scale=batch")))


@register(
    "credit",
    "grpo-process",
    Declared(
        needs=("rewards",),
        paper=Paper(
            "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models", 2024, "2402.03300"
        ),
    ),
)
def grpo_process(alpha: float = 1.0, outcome: float = 0.0, eps: float = 1e-4) -> Credit:
    """Step rewards, standardised over the group and summed to go; beside the outcome if that has a weight (GRPO)."""
    if not alpha and not outcome:
        raise ValueError("alpha 0, outcome 0: no reward has a weight, and nothing is learnt; give one of them another")

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        steps = [
            alpha * spread(to_go(row), each.lengths) for row, each in zip(pooled_steps(group, eps), group, strict=True)
        ]
        if not outcome:
            return steps
        ends = outcome * standardised(outcomes(group), eps)
        return [row + end for row, end in zip(steps, ends, strict=True)]

    needs: tuple[Needs, ...] = ("rewards", "outcome") if outcome else ("rewards",)
    return Credit(needs, each_group(rule))


@register(
    "credit",
    "rloo",
    Declared(
        needs=("outcome",),
        paper=Paper("Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs",
                    2024, "2402.14740"),
    ),
)  # fmt: skip
def rloo(beta: float = 0.0) -> Credit:
    """The outcome less the mean of the others, with the KL to the reference inside the reward if beta > 0 (RLOO)."""

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        returns = outcomes(group)
        if beta:
            returns = returns - beta * np.array([drift(each).sum() for each in group])
        return constant(leave_one_out(returns), group)

    needs: tuple[Needs, ...] = ("outcome", "old", "reference") if beta else ("outcome",)
    return Credit(needs, each_group(rule))


@register(
    "credit",
    "reinforce++",
    Declared(
        needs=("outcome",),
        systems={"reinforce++-baseline": {"baseline": True}},
        paper=Paper("REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global Advantage Normalization",
                    2025, "2501.03262"),
    ),
)  # fmt: skip
def reinforce_plus_plus(beta: float = 0.0, gamma: float = 1.0, baseline: bool = False) -> Credit:
    """Returns to go, whitened over the whole batch; less the group's mean first with a baseline (REINFORCE++)."""

    def returns(group: Sequence[Rollout]) -> list[Floats]:
        ends = outcomes(group) - (outcomes(group).mean() if baseline else 0.0)
        rows = []
        for each, end in zip(group, ends, strict=True):
            rewards = at_ends(end * (np.arange(each.steps) == each.steps - 1), each.lengths)
            rows.append(to_go(rewards - beta * drift(each) if beta else rewards, gamma))
        return rows

    def rule(groups: Sequence[Sequence[Rollout]]) -> list[list[Floats]]:
        return whitened([returns(group) if group else [] for group in groups], groups)

    needs: tuple[Needs, ...] = ("outcome", "old", "reference") if beta else ("outcome",)
    return Credit(needs, rule)
