"""A token-level value model learns from outcomes alone: every token of a roll-out is a training position (card: vgs).

    V(x_≤t) = softmax f(x_≤t)["correct"],   L = mean over roll-outs of  1/|mask| Σ_t mask_t CE(f(x_≤t), outcome)

The classes are incorrect, correct and incomplete (no answer within the limit). The mask is 0 on the roll-in, which another
policy wrote, so no gradient comes from there; a sequence with an empty mask counts as 0. Each roll-out weighs the same, however
long it is.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from footfall.types import Trajectory

__all__ = ["Ending", "ending_of", "token_value_loss", "token_values"]


class Ending(IntEnum):
    """How a roll-out ended: the one label of all its tokens."""

    INCORRECT = 0
    CORRECT = 1
    INCOMPLETE = 2


def ending_of(trajectory: Trajectory) -> Ending:
    """The label of a graded roll-out."""
    if trajectory.answer is None:
        return Ending.INCOMPLETE
    return Ending.CORRECT if trajectory.correct else Ending.INCORRECT


def token_values(logits: Tensor) -> Tensor:
    """V at every token, from logits (..., 3)."""
    return logits.softmax(dim=-1)[..., Ending.CORRECT]


def token_value_loss(logits_NTC: Tensor, endings_N: Tensor, mask_NT: Tensor) -> Tensor:
    """The loss of N roll-outs, each with one label for all its masked-in tokens."""
    if mask_NT.dtype != torch.bool:
        raise TypeError(f"the mask of roll-out tokens must be boolean, not {mask_NT.dtype}")
    index_NT1 = endings_N.long()[:, None, None].expand(*mask_NT.shape, 1)
    losses_NT = -logits_NTC.log_softmax(dim=-1).gather(-1, index_NT1).squeeze(-1)
    sums_N = losses_NT.masked_fill(~mask_NT, 0.0).sum(dim=-1)
    return (sums_N / mask_NT.sum(dim=-1).clamp(min=1)).mean()
