"""Losses of models that are trained beside a policy or in its place: PRIME's and OPRL's reward models, MAH-DPO's heads.

A reward model that is a language model scores a completion by its log-ratio, q = Σ_t log π_φ(y_t) - log π_ref(y_t), or step by
step. All functions take such sums, so that whoever has the log-probabilities decides how they are made.

    PRIME (arXiv 2502.01456)     mean of CE(σ(β q), outcome)
    OPRL (arXiv 2509.19199)      mean over (right, wrong) pairs of one task of -log σ(S⁺ - S⁻),   S the mean or sum of β q_k
    MAH-DPO (arXiv 2510.01167)   -log σ(β Δ) for each objective i, with its own output head, then the mean over objectives;
                                 Δ = [log π_i(y⁺) - log π_i(y⁻)] - [log ref_i(y⁺) - log ref_i(y⁻)]
                                 at inference  π = softmax(Σ_i w_i z_i),  Σ w = 1

OPRL's paper sums S over steps, its code takes the mean, which long trajectories do not outweigh; `mean` says which.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def implicit_outcome_loss(ratios_B: Tensor, outcomes_B: Tensor, beta: float = 0.05) -> Tensor:
    """PRIME's update: the log-ratio as the logit of a right outcome."""
    return F.binary_cross_entropy_with_logits(beta * ratios_B, outcomes_B.to(ratios_B))


def step_pair_loss(
    ratios_BS: Tensor, mask_BS: Tensor, right_B: Tensor, tasks: Sequence[str], beta: float = 0.05, mean: bool = True
) -> Tensor:
    """OPRL's update over all pairs of a right and a wrong trajectory of one task; 0 where there is no pair."""
    scores_B = (beta * ratios_BS * mask_BS).sum(dim=-1)
    if mean:
        scores_B = scores_B / mask_BS.sum(dim=-1).clamp(min=1)
    right = right_B.tolist()
    pairs = [
        (i, j)
        for i, task in enumerate(tasks) if right[i]
        for j, other in enumerate(tasks) if other == task and not right[j]
    ]  # fmt: skip
    if not pairs:
        return scores_B.sum() * 0
    better, worse = (scores_B[list(side)] for side in zip(*pairs, strict=True))
    return -F.logsigmoid(better - worse).mean()


def multi_head_dpo_loss(
    chosen_B: Tensor,
    rejected_B: Tensor,
    reference_chosen_B: Tensor,
    reference_rejected_B: Tensor,
    objective_B: Tensor,
    beta: float = 0.1,
    weights: Sequence[float] | None = None,
) -> Tensor:
    """MAH-DPO's loss; `objective_B` names the head whose log-probabilities a row has. An objective without rows counts nothing.

    Without weights the mean over the objectives present, else their weighted sum.
    """
    deltas_B = (chosen_B - rejected_B) - (reference_chosen_B - reference_rejected_B)
    losses_B = -F.logsigmoid(beta * deltas_B)
    present = sorted(set(objective_B.tolist()))
    means = torch.stack([losses_B[objective_B == i].mean() for i in present])
    if weights is None:
        return means.mean()
    return (means * torch.tensor([weights[i] for i in present]).to(means)).sum()


def mix_heads(logits_HV: Tensor, weights: Sequence[float]) -> Tensor:
    """softmax(Σ_i w_i z_i), the weights brought to the sum 1: (H, …, V) to (…, V). One-hot weights are one head."""
    return torch.einsum("h,h...->...", shares_of(weights, logits_HV), logits_HV).softmax(dim=-1)


def shares_of(weights: Sequence[float], heads: Tensor) -> Tensor:
    """(H,) a weight for each head (H, …), brought to the sum 1."""
    if len(weights) != len(heads) or min(weights) < 0 or not sum(weights) > 0:
        raise ValueError(f"{len(heads)} heads want as many weights, none negative and not all 0; got {list(weights)}")
    return torch.tensor(list(weights)).to(heads) / sum(weights)


def hindsight(rewards: Sequence[float], outcome: float, gamma: float = 0.9) -> list[float]:
    """MAH-DPO's targets of a value head: r_t + γ^(n-t) z, what a step is worth by itself and by where it led."""
    return [reward + gamma ** (len(rewards) - t) * outcome for t, reward in enumerate(rewards, start=1)]
