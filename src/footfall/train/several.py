"""Losses of heads with several outputs (`footfall.reward.several`): quantiles of a success rate, or a value and a reward.

    quantile           mean over q of max((q−1)(p − s_q), q (p − s_q)),   s_q = σ(logit_q)      (card: calibration-ias)
    value-and-reward   mean of (V − v)² and (R − r)²,   V = σ(logit_1), R = σ(logit_2)             (card: birm)

v is a step's label, the chance to reach the right answer from there; r, whether the step is right, stands in an aspect of the
same judgement. What differs from BiRM: outputs go through a sigmoid, a mean over labels takes the place of a sum over a batch,
and there is no language-model loss, since a step head has no vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from footfall.registry import register
from footfall.train.objectives import Objective, labelled_mean, probability

__all__ = ["pinball_loss", "quantile", "value_and_reward", "value_and_reward_loss"]


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


def _check_width(logits: Tensor, outputs: int) -> None:
    if logits.shape[-1] != outputs:
        raise ValueError(f"this loss takes a head with {outputs} outputs, not {logits.shape[-1]}")


@register("objective", "quantile")
def quantile(quantiles: tuple[float, ...] | list[float] = (0.1, 0.5, 0.9)) -> Objective:
    """Pinball loss: outputs q10, q50, q90 of the success rate given as label; the one nearest to the median is the value.

    From a trained PRM on (`--backbone FOLDER`) all of them begin as its value.
    """
    if len(set(quantiles)) != len(quantiles) or not quantiles or not all(0 < q < 1 for q in quantiles):
        raise ValueError(f"quantiles are different numbers between 0 and 1, not {tuple(quantiles)}")
    ranked = sorted(quantiles, key=lambda q: abs(q - 0.5))
    names = tuple(f"q{100 * q:g}" for q in ranked)
    return Objective(
        f"quantile({', '.join(f'{q:g}' for q in sorted(ranked))})",
        lambda logits, targets, mask: pinball_loss(logits, targets, mask, ranked),
        probability,
        lambda label: label > 0.5,
        columns=names,
    )


@register("objective", "value-and-reward")
def value_and_reward(aspect: str = "reward") -> Objective:
    """Two outputs (BiRM): a value fitted to the labels, a reward fitted to this aspect of the same judgements."""
    return Objective(
        f"value-and-reward(aspect={aspect})",
        value_and_reward_loss,
        probability,
        lambda label: label > 0.5,
        columns=("value", "reward"),
        beside=(aspect,),
    )
