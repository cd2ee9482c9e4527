"""ActPRM and ActPRM-X: Qwen's input and marker, read by an ensemble of small networks; a step's value is their mean.

    value = mean_e σ(f_e(h)),    f_e of three layers with ReLU between

The squashing happens in the checkpoint's own `inference` method, member by member, before the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from footfall.registry import register
from footfall.render import Writer
from footfall.reward.backbone import TensorFiles
from footfall.reward.families.qwen_math_prm import SYSTEM, chat_with_markers
from footfall.reward.family import Family, Match
from footfall.reward.heads import Head, through_members
from footfall.reward.readout import Readout


class MeanOfMembers(Head):
    """Members side by side; gives their mean probability (…, 1)."""

    def __init__(self, weights_EHD: list[Tensor], biases_ED: list[Tensor]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(w, requires_grad=False) for w in weights_EHD)
        self.biases = nn.ParameterList(nn.Parameter(b, requires_grad=False) for b in biases_ED)

    @property
    def settings(self) -> dict[str, Any]:
        """Number of members, and the widths of their layers."""
        members, hidden = self.weights[0].shape[0], [weight.shape[2] for weight in self.weights[:-1]]
        return {"name": "mean-of-members", "members": members, "hidden": hidden}

    def forward(self, hidden: Tensor) -> Tensor:
        """mean_e σ(network_e(h)): each member is squashed before the mean."""
        return through_members(hidden, self.weights, self.biases).sigmoid().mean(dim=-2)


@register("head", "mean-of-members")
def mean_of_members(
    width: int, outputs: int, seed: int = 0, members: int = 32, hidden: Sequence[int] = (128, 128)
) -> MeanOfMembers:
    """Small networks whose mean probability is the one output (ActPRM)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = list(pairwise((width, *hidden, outputs)))
    weights = [0.02 * torch.randn((members, a, b), generator=generator) for a, b in sizes]
    return MeanOfMembers(weights, [torch.zeros(members, b) for _, b in sizes])


@dataclass(frozen=True)
class EnsembleHead:
    """Layers `prefix.name` of weights (E, in, out), the members of the ensemble along the first axis."""

    prefix: str
    layers: tuple[str, ...]

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """The members side by side; stored shapes that do not fit each other are refused."""
        names = [f"{self.prefix}.{layer}" for layer in self.layers]
        weights = [tensors.load(f"{name}.weight") for name in names]
        biases = [tensors.load(f"{name}.bias") for name in names]
        taken = width
        for name, weight_EHD in zip(names, weights, strict=True):
            if weight_EHD.dim() != 3 or weight_EHD.shape[:2] != (weights[0].shape[0], taken):
                raise ValueError(
                    f"{tensors.folder}: {name}.weight has the shape {tuple(weight_EHD.shape)}, "
                    f"expected (members, {taken}, outputs)"
                )
            taken = weight_EHD.shape[2]
        if taken != outputs:
            raise ValueError(f"{tensors.folder}: {names[-1]} gives {taken} outputs, its family has {outputs}")
        return MeanOfMembers(weights, biases)


@register("family", "actprm")
def actprm() -> Family:
    """ActPRM/ActPRM and ActPRM-X (also under sail/): an ensemble of heads on Qwen2.5-Math."""
    return Family(
        name="actprm",
        published=("sail/ActPRM", "sail/ActPRM-X", "ActPRM/ActPRM", "ActPRM/ActPRM-X"),
        licence="Apache-2.0",
        match=Match(
            model_types=("qwen2",), tensors=("score.model.nn1.weight", "score.model.nn_out.weight"),
            tokens=("<extra_0>",), names=("actprm",),
        ),
        layout=chat_with_markers(SYSTEM),
        head=EnsembleHead("score.model", ("nn1", "nn2", "nn_out")),
        # The head's output is the probability itself.
        readout=Readout("raw", probability=True),
    )  # fmt: skip
