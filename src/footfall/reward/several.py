"""A head with several outputs that each mean something by itself: quantiles of one number, or a value and a reward.

    value_k = σ(w_1·h(p_k) + b_1),   aspects_k = {name_i: σ(w_i·h(p_k) + b_i)}

The first output is the value. A head with one output, or with a good and a bad class, becomes one with several by giving each
of them the old logit (w_good − w_bad for classes): before any training every output says what the head said (card:
calibration-ias).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from footfall.reward.readout import Columns, Readout

__all__ = ["Several", "repeated"]


@dataclass(frozen=True)
class Several(Readout):
    """Each output has a sigmoid of its own and is an aspect; the first is the value too."""

    names: tuple[str, ...] = ()

    @property
    def outputs(self) -> int:
        return len(self.names)

    def values(self, logits_SK: Tensor) -> Tensor:
        return self.probabilities(logits_SK)[..., 0]

    def columns(self, logits_SK: Tensor) -> Columns:
        of = self.probabilities(logits_SK)
        aspects = {name: tuple(of[:, k].tolist()) for k, name in enumerate(self.names)}
        return Columns(tuple(self.values(logits_SK).tolist()), aspects)


def repeated(head: nn.Linear, classes: Sequence[str], good: Sequence[str], outputs: int) -> nn.Linear:
    """A linear head whose outputs all are the one logit of `head`, or the difference of its two classes."""
    if len(classes) not in (0, 2) or len(good) != len(classes) // 2 or (not classes and head.out_features != 1):
        raise ValueError(
            f"a head with {head.out_features} outputs and the classes {tuple(classes)} has no single logit to begin from; "
            "one output, or a good and a bad class, have"
        )
    sign = torch.tensor([1.0 if name in good else -1.0 for name in classes] or [1.0], device=head.weight.device)
    wide: nn.Linear = nn.Linear(head.in_features, outputs, dtype=head.weight.dtype, device="meta")
    wide = wide.to_empty(device=head.weight.device)
    with torch.no_grad():
        wide.weight.copy_((sign @ head.weight).expand(outputs, -1))
        wide.bias.copy_((sign @ head.bias).expand(outputs))
    return wide
