"""PRIME, OPRL and PRL: step rewards from log-probabilities, without a step label.

q_t = log π_φ(y_t) - log π_ref(y_t) is the reward of a token where π_φ, a language model, was trained to tell right completions
from wrong ones; its sum over a completion is the log-ratio of the whole.

PRIME (arXiv 2502.01456). π_φ is updated on every batch by outcomes (`footfall.train.online`); rewards and outcomes are compared
apart, then added:

    norm      r = q / (max over the batch of |Σ_{s≥t} q_s| + 1e-6) · coef
    dense     r'_it = r_it G/(G-1) - Σ_j m_j / (G-1),   m_j = mean_t r_jt;   the outcome alike at the last token, which is RLOO
    A         whitened over the batch of Σ_{s≥t} r'_s + R'

OPRL, later iStar (arXiv 2509.19199). The reference is the policy that sampled, and the unit is a step:

    r_k = β Σ_{t in step k} (log π_φ - log π_old),   A_k = standardised R + α · r_k standardised over all steps of the group

PRL (arXiv 2601.10201) needs no π_φ: at the optimum of reward less KL/η every step's rest of the log-ratio is paid for,

    d_t = log π_old - log π_ref,   A_k = a_i - Σ_{s≥e_k} d_s / η,   a = standardised R,   e_k the policy's last token of step k

What differs. PRIME: its code whitens with the unbiased variance, as here. OPRL: its code takes step statistics from the first
turn of each trajectory; here they are of all steps, as in the paper. PRL: its code sums from a step's last token on; the
derivation sums from its first (`whole_steps`). Its steps are 256 tokens long unless told to be lines; here they are the
trace's own. Its left fill takes a value of exactly 0 for none; here nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from footfall.judging import idle_settings
from footfall.registry import Declared, Paper, register
from footfall.rl.group_relative import drift, outcomes
from footfall.rl.groups import (
    Credit,
    Floats,
    Rollout,
    by_step,
    each_group,
    last_own,
    leave_one_out,
    spread,
    standardised,
    to_go,
    whitened,
)


def token_ratios(each: Rollout, reference: Literal["reference", "old"] = "reference") -> Floats:
    """q_t at tokens that the policy wrote, 0 at others."""
    return np.where(each.mask, each.known("online") - each.known(reference), 0.0)


def dense_leave_one_out(rows: Sequence[Floats], masks: Sequence[np.ndarray]) -> list[Floats]:
    """r' of PRIME: r G/(G-1) - Σ_j m_j/(G-1), where m_j is the mean over tokens that count; 0 elsewhere and for G = 1."""
    g = len(rows)
    if g < 2:
        return [np.zeros_like(row) for row in rows]
    level = sum(float(row[mask].mean()) if mask.any() else 0.0 for row, mask in zip(rows, masks, strict=True)) / (g - 1)
    return [np.where(mask, row * g / (g - 1) - level, 0.0) for row, mask in zip(rows, masks, strict=True)]


@register(
    "credit",
    "prime",
    Declared(
        needs=("outcome", "online", "reference"),
        paper=Paper("Process Reinforcement through Implicit Rewards", 2025, "2502.01456"),
    ),
)
def prime(
    coef: float = 5.0, outcome: float = 5.0, gamma: float = 1.0, norm: bool = True, whiten: bool = True
) -> Credit:
    """Log-ratios of an online reward model, token by token, beside the outcome, each against the others (PRIME)."""

    def rule(groups: Sequence[Sequence[Rollout]]) -> list[list[Floats]]:
        rewards = [[token_ratios(each) for each in group] for group in groups]
        if norm:
            largest = max((np.abs(to_go(row)).max() for rows in rewards for row in rows), default=0.0) + 1e-6
            rewards = [[row / largest for row in rows] for rows in rewards]
        found = []
        for group, rows in zip(groups, rewards, strict=True):
            dense = dense_leave_one_out([coef * row for row in rows], [each.mask for each in group])
            ends = outcome * leave_one_out(outcomes(group))
            found.append([to_go(row, gamma) + end for row, end in zip(dense, ends, strict=True)])
        return whitened(found, groups) if whiten else found

    return Credit(("outcome", "online", "reference"), rule)


@register(
    "credit",
    "oprl",
    Declared(
        needs=("outcome", "online", "old"),
        systems={"istar": {"estimator": "rloo"}},
        paper=Paper("Agentic Reinforcement Learning with Implicit Step Rewards", 2025, "2509.19199"),
    ),
)
def oprl(
    alpha: float = 1.0, beta: float = 0.05, estimator: Literal["grpo", "rloo", "mean"] = "grpo", eps: float = 1e-6
) -> Credit:
    """Log-ratios of an online reward model to the old policy, step by step, added to the outcome's advantage (OPRL, iStar)."""

    def compared(values: Floats) -> Floats:
        return leave_one_out(values) if estimator == "rloo" else standardised(values, eps, estimator == "grpo")

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        steps = [beta * by_step(token_ratios(each, "old"), each.lengths) for each in group]
        cuts = np.cumsum([len(row) for row in steps])[:-1]
        local = np.split(compared(np.concatenate(steps)), cuts)
        whole = compared(outcomes(group))
        return [spread(a + alpha * row, each.lengths) for a, row, each in zip(whole, local, group, strict=True)]

    idle = idle_settings((estimator != "grpo", "eps", "estimator=grpo"))
    return Credit(("outcome", "online", "old"), each_group(rule), idle=idle)


@register(
    "credit",
    "prl",
    Declared(
        needs=("outcome", "old", "reference"),
        paper=Paper("PRL: Process Reward Learning Improves LLMs' Reasoning Ability and Broadens the Reasoning Boundary",
                    2026, "2601.10201"),
    ),
)  # fmt: skip
def prl(eta: float = 200.0, whole_steps: bool = False, eps: float = 1e-6) -> Credit:
    """The standardised outcome less the log-ratio to the reference that is still to come (PRL)."""
    if eta <= 0:
        raise ValueError(f"eta {eta}: 1/eta is the weight of the KL, so it is more than 0")

    def rule(group: Sequence[Rollout]) -> list[Floats]:
        ends = standardised(outcomes(group), eps) if len(group) > 1 else outcomes(group)
        rows = []
        for each, a in zip(group, ends, strict=True):
            rest = np.append(to_go(drift(each)), 0.0)
            first = np.cumsum(each.lengths) - each.lengths if whole_steps else last_own(each)
            rows.append(spread(a - rest[first] / eta, each.lengths))
        return rows

    return Credit(("outcome", "old", "reference"), each_group(rule))
