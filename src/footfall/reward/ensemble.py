"""Many small heads on one backbone: their mean is a step's value, their spread says how sure they are (card: actprm).

    p_e = σ(f_e(h)),   value = mean_e p_e,   spread = √(Σ_e (p_e − value)² / (n − 1)),   0 for one head

f_e is a network H → 128 → 128 → 1 with ReLU, each from its own random start. A small pull back to that start keeps heads
that see the same labels from becoming one, so that they differ where there was nothing to learn from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from footfall.reward.readout import Columns, Readout

__all__ = ["Heads", "MeanOfHeads", "through_members"]


def through_members(hidden: Tensor, weights_EHD: Iterable[Tensor], biases_ED: Iterable[Tensor]) -> Tensor:
    """States (…, H) through networks that stand side by side, ReLU between layers: (…, E, D)."""
    x = hidden
    for n, (weight_EHD, bias_ED) in enumerate(zip(weights_EHD, biases_ED, strict=True)):
        into = "...h,ehd->...ed" if n == 0 else "...eh,ehd->...ed"
        x = torch.einsum(into, x.relu() if n else x, weight_EHD) + bias_ED
    return x


class Heads(nn.Module):
    """`members` networks of two hidden layers; logits (…, members). What they began with is kept beside them."""

    initial: Tensor

    def __init__(self, width: int, members: int, hidden: int = 128, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sizes = (width, hidden, hidden, 1)
        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList(_uniform((members, a, b), a, generator) for a, b in pairs)
        self.biases = nn.ParameterList(_uniform((members, b), a, generator) for a, b in pairs)
        self.register_buffer("initial", parameters_to_vector(self.parameters()).detach().clone())

    def forward(self, hidden: Tensor) -> Tensor:
        return through_members(hidden, self.weights, self.biases).squeeze(-1)

    def drift(self) -> Tensor:
        """Mean squared distance of all weights from where they began."""
        return ((parameters_to_vector(self.parameters()) - self.initial) ** 2).mean()


def _uniform(shape: tuple[int, ...], taken: int, generator: torch.Generator) -> nn.Parameter:
    """Even in ±1/√(inputs), as linear layers begin."""
    bound = 1 / math.sqrt(taken)
    return nn.Parameter((2 * torch.rand(shape, generator=generator) - 1) * bound)


@dataclass(frozen=True)
class MeanOfHeads(Readout):
    """Each output is one head's logit; the value is the mean of their probabilities, the aspect `spread` their deviation."""

    members: int = 1

    @property
    def outputs(self) -> int:
        return self.members

    def values(self, logits_SK: Tensor) -> Tensor:
        return self.probabilities(logits_SK).mean(dim=-1)

    def columns(self, logits_SK: Tensor) -> Columns:
        return Columns(tuple(self.values(logits_SK).tolist()), {"spread": tuple(self.spread(logits_SK).tolist())})

    def spread(self, logits_SK: Tensor) -> Tensor:
        """The sample standard deviation over heads."""
        probabilities_SK = self.probabilities(logits_SK)
        return probabilities_SK.std(dim=-1) if self.members > 1 else torch.zeros_like(probabilities_SK[..., 0])
