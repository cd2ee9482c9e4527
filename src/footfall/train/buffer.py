"""FreePRM's loss (arXiv 2506.03570): labels that are only the outcome, and a third class that absorbs their noise.

With (p_r, p_w, p_b) = softmax(logits), a pseudo label ŷ_t and a buffer factor β_t, for every step but the last

    loss_t = -ln g_t,   g_t = p_r + β_t p_b if ŷ_t = 1,  p_w + β_t p_b if ŷ_t = 0

At the last step the label is true and there is no buffer: -y ln p_r - (1 - y) ln(1 - p_r). The paper draws β_t in {0, 1}
with P(β_t = 1) = p_b and no gradient through the draw. What differs: the mean over that draw is taken instead,

    E loss_t = [p_b] (-ln(p + p_b)) + (1 - [p_b]) (-ln p),   p = p_r or p_w, [·]: no gradient

which has the same expected gradient without its noise, and leaves nothing to seed. Its gradient at the buffer's logit is
p_b p / (p + p_b) >= 0: no pseudo label ever feeds the buffer, which drains as training goes on. So it damps noisy labels
early, and at convergence the loss is plain cross-entropy. With β = 0.5 it is that at once, of p_r + p_b / 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from footfall.registry import register
from footfall.train.objectives import Objective, labelled_mean

CLASSES = ("good", "bad", "buffer")


def buffer_loss(
    logits: Tensor, targets: Tensor, mask: Tensor, factor: float | None = None, last_weight: float = 1.0
) -> Tensor:
    """The mean over labelled steps. `factor` None: the mean over the draw of β; a number: β itself.

    The last labelled step of each trace (..., S, 3) holds the outcome, and counts `last_weight` times.
    """
    if logits.shape[-1] != len(CLASSES):
        raise ValueError(f"the buffer loss takes a head with the outputs {CLASSES}, not {logits.shape[-1]} outputs")
    log_p = logits.log_softmax(dim=-1)
    right, wrong, spare = log_p.unbind(dim=-1)
    own = torch.where(targets > 0.5, right, wrong)
    with_buffer = torch.logaddexp(own, spare)
    if factor is None:
        share = spare.exp().detach()
        pseudo = -(share * with_buffer + (1 - share) * own)
    else:
        pseudo = -torch.log(own.exp() + factor * spare.exp()) if 0 < factor < 1 else -(with_buffer if factor else own)
    true = -torch.where(targets > 0.5, right, torch.logaddexp(wrong, spare))
    losses = torch.where(last_labelled(mask), last_weight * true, pseudo)
    return labelled_mean(losses, mask)


def last_labelled(mask: Tensor) -> Tensor:
    """Where the last labelled step of each trace is: nothing labelled comes after it."""
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask of labelled steps must be boolean, not {mask.dtype}")
    after = mask.flip(-1).cumsum(dim=-1).flip(-1)
    return mask & (after == 1)


@register("objective", "buffer")
def buffer(factor: float | None = None, last_weight: float = 1.0) -> Objective:
    """Outcome labels on every step with a buffer class for their noise (FreePRM); the last label counts as true."""
    if factor is not None and not 0 <= factor <= 1:
        raise ValueError(f"a buffer factor lies between 0 and 1, not at {factor}")
    if last_weight <= 0:
        raise ValueError(f"the last step's weight must be positive, not {last_weight}")
    shown = "drawn" if factor is None else f"{factor:g}"
    return Objective(
        f"buffer(factor={shown}, last_weight={last_weight:g})",
        lambda logits, targets, mask: buffer_loss(logits, targets, mask, factor, last_weight),
        _outcome,
        lambda label: label > 0.5,
        CLASSES,
        ("good",),
    )


def _outcome(label: float) -> float:
    if label not in (0, 1):
        raise ValueError(f"label {label:g} is no outcome; the buffer loss takes 1 (right) and 0 (wrong)")
    return label
