"""Dense rewards for the tokens of a program from values of its lines (PRLCoder, arXiv 2502.01715).

With line ends at tokens T_1..T_k, values R_i of the lines and ρ_t = ln π(a_t | s_t) / π_old(a_t | s_t):

    process   r_t^P = Σ_i R_i · 1[t = T_i]          outcome   r_t^O = R · 1[t = T]
    shaped    r_t = r_t^P - β · ρ_t                 π_old is the policy before reinforcement learning
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["outcome_rewards", "process_rewards", "shaped_rewards"]


def process_rewards(tokens: int, ends: Sequence[int], values: Sequence[float]) -> list[float]:
    """r^P: the value of each line at its last token (0-based), zero elsewhere."""
    if any(not 0 <= end < tokens for end in ends) or list(ends) != sorted(set(ends)):
        raise ValueError(f"lines must end at growing tokens from 0 to {tokens - 1}, not at {list(ends)}")
    rewards = [0.0] * tokens
    for end, value in zip(ends, values, strict=True):
        rewards[end] = value
    return rewards


def outcome_rewards(tokens: int, value: float) -> list[float]:
    """r^O: the value of the whole program at its last token."""
    return process_rewards(tokens, [tokens - 1], [value])


def shaped_rewards(rewards: Sequence[float], log_ratios: Sequence[float], beta: float = 0.1) -> list[float]:
    """r_t - β · ρ_t: what the policy gradient is given. The paper's β was not found; 0.1 is a common one."""
    return [reward - beta * ratio for reward, ratio in zip(rewards, log_ratios, strict=True)]
