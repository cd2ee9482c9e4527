"""ActPRM and ActPRM-X: Qwen's input and marker, read by an ensemble of small networks; a step's value is their mean.

    value = mean_e σ(f_e(h)),    f_e of three layers with ReLU between

The squashing happens in the checkpoint's own `inference` method, member by member, before the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from footfall.registry import register
from footfall.reward.ensemble import through_members
from footfall.reward.families.qwen_math_prm import SYSTEM, chat_with_markers
from footfall.reward.family import Family, Match
from footfall.reward.pieces import Writer
from footfall.reward.readout import Readout
from footfall.reward.tensors import TensorFiles

__all__ = ["EnsembleHead", "actprm"]


class Ensemble(nn.Module):
    """Members side by side; gives their mean probability (…, 1)."""

    def __init__(self, weights_EHD: list[Tensor], biases_ED: list[Tensor]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(w, requires_grad=False) for w in weights_EHD)
        self.biases = nn.ParameterList(nn.Parameter(b, requires_grad=False) for b in biases_ED)

    def forward(self, hidden: Tensor) -> Tensor:
        return through_members(hidden, self.weights, self.biases).sigmoid().mean(dim=-2)


@dataclass(frozen=True)
class EnsembleHead:
    """Layers `prefix.name` of weights (E, in, out), the members of the ensemble along the first axis."""

    prefix: str
    layers: tuple[str, ...]

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> nn.Module:
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
        return Ensemble(weights, biases)


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
        readout=Readout("raw"),
    )  # fmt: skip
