"""Training losses of PRMs: pure functions of logits, targets and a mask of the labelled steps.

Shapes: logits (..., K), targets and mask (...). A loss is a mean, and its objective says over what: over the labelled steps
of all traces given, so that a long trace weighs more than a short one, or over traces or pairs. With no labelled step it
is 0. A step without a label is masked by a boolean, never by a special value of its target.

Losses of heads with several outputs, each with a sigmoid of its own (`footfall.reward.readout`):

    quantile           mean over q of max((q−1)(p − s_q), q (p − s_q)),   s_q = σ(logit_q)      (card: calibration-ias)
    value-and-reward   mean of (V − v)² and (R − r)²,   V = σ(logit_1), R = σ(logit_2)             (card: birm)

v is a step's label, the chance to reach the right answer from there; r, whether the step is right, stands in an aspect of the
same judgement. What differs from BiRM: outputs go through a sigmoid, a mean over labels takes the place of a sum over a batch,
and there is no language-model loss, since a step head has no vocabulary.

A token-level value model learns from outcomes alone: every token of a roll-out is a training position (card: vgs).

    V(x_≤t) = softmax f(x_≤t)["correct"],   L = mean over roll-outs of  1/|mask| Σ_t mask_t CE(f(x_≤t), outcome)

The classes are incorrect, correct and incomplete (no answer within the limit). The mask is 0 on the roll-in, which another
policy wrote, so no gradient comes from there; a sequence with an empty mask counts as 0. Each roll-out weighs the same, however
long it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from footfall.types import Trajectory


def soft_bce_loss(logits: Tensor, targets: Tensor, mask: Tensor, wrong_weight: float = 1.0) -> Tensor:
    """mean of -y log p - (1 - y) log(1 - p), p = sigmoid(logit), y a probability. Least at p = y, where it is H(y).

    `wrong_weight` w multiplies the second term, as UHead does with w = 3: wrong steps are few.
    """
    logit = single_logit(logits)
    losses = F.binary_cross_entropy_with_logits(logit, targets, reduction="none")
    if wrong_weight != 1:
        losses = losses + (wrong_weight - 1) * (1 - targets) * F.softplus(logit)
    return labelled_mean(losses, mask)


def bce_loss(logits: Tensor, targets: Tensor, mask: Tensor, threshold: float) -> Tensor:
    """The same with hard labels, y = 1[target > threshold]."""
    return soft_bce_loss(logits, (targets > threshold).to(logits), mask)


def mse_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """mean of (p - y)², p = sigmoid(logit)."""
    return labelled_mean((single_logit(logits).sigmoid() - targets) ** 2, mask)


def ce_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """mean of -log softmax(logits)[y], y the index of the step's class."""
    log_p = logits.log_softmax(dim=-1)
    index = targets.masked_fill(~mask, 0).long().unsqueeze(-1)
    return labelled_mean(-log_p.gather(-1, index).squeeze(-1), mask)


def bradley_terry_loss(logits: Tensor, targets: Tensor, mask: Tensor, centering: float) -> Tensor:
    """mean over pairs of -log sigmoid(r_c - r_r) + centering (r_c + r_r)², r the one logit that each trace is read at.

    Two traces that stand side by side are a pair: the chosen one has the target 1, the rejected one 0.
    """
    rewards_P2, targets_P2 = labelled_pairs(single_logit(logits), targets, mask)
    sign_P2 = 2 * targets_P2.to(rewards_P2) - 1
    losses_P = -F.logsigmoid((sign_P2 * rewards_P2).sum(dim=-1)) + centering * rewards_P2.sum(dim=-1) ** 2
    return losses_P.sum() / max(1, len(losses_P))


def pinball_loss(logits: Tensor, targets: Tensor, mask: Tensor, quantiles: Sequence[float]) -> Tensor:
    """Each output is least wrong on average where it is its own quantile of the targets. Logits (..., Q)."""
    _check_width(logits, len(quantiles))
    q = torch.tensor(quantiles, device=logits.device, dtype=logits.dtype)
    over = targets.unsqueeze(-1) - logits.sigmoid()
    return labelled_mean(torch.maximum((q - 1) * over, q * over).mean(dim=-1), mask)


def value_and_reward_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Squared errors of both outputs, over the labels of both: all shapes are (..., 2)."""
    _check_width(logits, 2)
    return labelled_mean((logits.sigmoid() - targets) ** 2, mask)


def buffer_loss(
    logits: Tensor, targets: Tensor, mask: Tensor, factor: float | None = None, last_weight: float = 1.0
) -> Tensor:
    """FreePRM's loss (arXiv 2506.03570): labels that are only the outcome, and a third class that absorbs their noise.

    With (p_r, p_w, p_b) = softmax(logits), a pseudo label ŷ_t and a buffer factor β_t, for every step but the last

        loss_t = -ln g_t,   g_t = p_r + β_t p_b if ŷ_t = 1,  p_w + β_t p_b if ŷ_t = 0

    At the last labelled step of each trace (..., S, 3), which counts `last_weight` times, the label is true and there is no
    buffer: -y ln p_r - (1 - y) ln(1 - p_r). The paper draws β_t in {0, 1} with P(β_t = 1) = p_b and no gradient through the
    draw. What differs: with `factor` None the mean over that draw is taken instead (a number is β itself),

        E loss_t = [p_b] (-ln(p + p_b)) + (1 - [p_b]) (-ln p),   p = p_r or p_w, [·]: no gradient

    which has the same expected gradient without its noise, and leaves nothing to seed. Its gradient at the buffer's logit is
    p_b p / (p + p_b) >= 0: no pseudo label ever feeds the buffer, which drains as training goes on. So it damps noisy labels
    early, and at convergence the loss is plain cross-entropy. With β = 0.5 it is that at once, of p_r + p_b / 2.
    """
    if logits.shape[-1] != 3:
        raise ValueError(
            f"the buffer loss takes a head with the outputs good, bad, buffer, not {logits.shape[-1]} outputs"
        )
    log_p = logits.log_softmax(dim=-1)
    right, wrong, spare = log_p.unbind(dim=-1)
    own = torch.where(targets > 0.5, right, wrong)
    if factor is None:
        share = spare.exp().detach()
        pseudo = -(share * torch.logaddexp(own, spare) + (1 - share) * own)
    else:
        pseudo = -(torch.logaddexp(own, spare + math.log(factor)) if factor else own)
    true = -torch.where(targets > 0.5, right, torch.logaddexp(wrong, spare))
    losses = torch.where(last_labelled(mask), last_weight * true, pseudo)
    return labelled_mean(losses, mask)


def last_labelled(mask: Tensor) -> Tensor:
    """Where the last labelled step of each trace is: nothing labelled comes after it."""
    _check_mask(mask)
    after = mask.flip(-1).cumsum(dim=-1).flip(-1)
    return mask & (after == 1)


def _check_width(logits: Tensor, outputs: int) -> None:
    if logits.shape[-1] != outputs:
        raise ValueError(f"this loss takes a head with {outputs} outputs, not {logits.shape[-1]}")


def _check_mask(mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask of labelled steps must be boolean, not {mask.dtype}")


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


def labelled_pairs(values: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Value and target of the labelled entry of each trace, two by two: (P, 2) each."""
    if mask.dim() != 2 or len(mask) % 2 or bool((mask.sum(dim=-1) != 1).any()):
        raise ValueError("a loss of pairs takes an even number of traces, each with one labelled step (its last)")
    targets_P2 = targets[mask].view(-1, 2)
    if bool((targets_P2.sum(dim=-1) != 1).any()):
        raise ValueError("each pair needs one trace with the label 1 and one with the label 0, side by side")
    return values[mask].view(-1, 2), targets_P2


def single_logit(logits: Tensor) -> Tensor:
    """The logits of a head with one output, without the last axis."""
    if logits.shape[-1] != 1:
        raise ValueError(f"this loss takes a head with one output, not {logits.shape[-1]}")
    return logits.squeeze(-1)


def labelled_mean(losses: Tensor, mask: Tensor) -> Tensor:
    """The mean of the losses that the mask keeps; 0 if it keeps none."""
    _check_mask(mask)
    return losses.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)


def labelled_steps(mask: Tensor) -> Tensor:
    """How many labels a batch has: what a loss over steps is a mean of."""
    return mask.sum()


def traces(mask: Tensor) -> Tensor:
    """How many traces a batch has, for a loss that is a mean over traces: each weighs the same, however long it is."""
    return torch.tensor(len(mask), device=mask.device)


def pairs(mask: Tensor) -> Tensor:
    """How many pairs of neighbours a batch has, for a loss that compares two traces."""
    return torch.tensor(len(mask) // 2, device=mask.device)
