"""PRMs with Qwen's marker `<extra_0>` after each step: Qwen2.5-Math-PRM (two classes), ActPRM and ReasonFlux-PRM.

ActPRM and ActPRM-X: Qwen's input and marker, read by an ensemble of small networks; a step's value is their mean.

    value = mean_e σ(f_e(h)),    f_e of three layers with ReLU between

The squashing happens in the checkpoint's own `inference` method, member by member, before the mean.

ReasonFlux-PRM-7B: Qwen's interface without a system message. ReasonFlux-PRM-1.5B: a scalar head in a file of its own.

The 1.5B model values a whole text at its last token, so each prefix is a sequence of its own. Its head is published as
a pickle, `reward_head.pt`; it is read here from `reward_head.safetensors` and from nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from footfall.damaged import naming
from footfall.registry import register
from footfall.render import BOS, Piece, Text, Token, Writer
from footfall.reward.backbone import TensorFiles
from footfall.reward.family import Family, Layout, Match
from footfall.reward.heads import Head, LinearHead, even, layer_sizes, linear, through_members
from footfall.reward.readout import Readout
from footfall.types import Trajectory

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
"""With a real backslash; the first model card passed a backspace."""


def chat_with_markers(system: str | None, marker: str = "<extra_0>") -> Layout:
    """Question as the user, steps as the assistant; the marker stands after each step instead of blank lines."""

    def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
        answer: list[Piece] = []
        for step in trajectory.steps:
            answer += [Text(step.written), Token(marker, read=0)]
        first = [] if system is None else [("system", system)]
        return writer.chat([*first, ("user", trajectory.problem.text), ("assistant", answer)])

    return layout


@register("family", "qwen2.5-math-prm")
def qwen_math_prm() -> Family:
    """Qwen2.5-Math-PRM-7B / -72B and Qwen2.5-Math-7B-PRM800K."""
    return Family(
        name="qwen2.5-math-prm",
        published=(
            "Qwen/Qwen2.5-Math-PRM-7B", "Qwen/Qwen2.5-Math-PRM-72B", "Qwen/Qwen2.5-Math-7B-PRM800K",
            "Babelscape/Qwen2.5-Math-PRM-7B-PDDL-r",
        ),
        licence="see the model cards",
        match=Match(
            model_types=("qwen2",), tensors=("score.0.weight", "score.2.weight"), tokens=("<extra_0>",),
            names=("math-prm", "prm800k"),
        ),
        layout=chat_with_markers(SYSTEM),
        head=LinearHead("score", hidden=1),
        readout=Readout("good", ("bad", "good"), ("good",)),
        context=4096, stored_as="Qwen2ForProcessRewardModel",
    )  # fmt: skip


class MeanOfMembers(Head):
    """Members side by side; gives their mean probability (…, 1), which is read as it is and fitted by its log-odds."""

    probability = True

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
    if outputs != 1:
        raise ValueError(f"the head mean-of-members gives one probability, and {outputs} outputs are asked of it")
    generator = torch.Generator().manual_seed(seed)
    sizes = layer_sizes((width, *hidden, outputs), members)
    weights = [even((members, a, b), a, generator) for a, b in sizes]
    made = MeanOfMembers(weights, [even((members, b), a, generator) for a, b in sizes])
    return made.requires_grad_(True)


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


@dataclass(frozen=True)
class HeadFile:
    """One linear layer stored beside the model as `stem`.safetensors; a pickle of that name is refused."""

    stem: str

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """The head of a file of its own; a pickle is refused, with the way to convert it."""
        path = tensors.folder / f"{self.stem}.safetensors"
        if not path.is_file():
            raise ValueError(
                f"{tensors.folder} has no {path.name}. The head is published as the pickle {self.stem}.pt, which can "
                "run code when it is loaded and is not read here; convert it in a place apart: "
                f'save_file(torch.load("{self.stem}.pt", weights_only=True), "{path.name}")'
            )
        with naming(path):
            stored = {name.removeprefix(f"{self.stem}."): tensor for name, tensor in load_file(path).items()}
        if "weight" not in stored or tuple(stored["weight"].shape) != (outputs, width):
            shape = tuple(stored["weight"].shape) if "weight" in stored else "no weight"
            raise ValueError(f"{path} holds {shape}, its family has a weight of {(outputs, width)}")
        return linear(stored["weight"], stored.get("bias"))


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """The problem and, right after it, the steps so far; read at the last token."""
    written = "\n\n".join(step.written for step in trajectory.steps)
    return [BOS, Text(trajectory.problem.text + written, read=0)]


@register("family", "reasonflux-prm-7b")
def reasonflux_7b() -> Family:
    """Gen-Verse/ReasonFlux-PRM-7B."""
    return Family(
        name="reasonflux-prm-7b",
        published=("Gen-Verse/ReasonFlux-PRM-7B",),
        licence="see the model card",
        match=Match(
            model_types=("qwen2",), tensors=("score.0.weight",), rows={"score.2.weight": 2}, tokens=("<extra_0>",),
            names=("reasonflux",), named=True,
        ),
        layout=chat_with_markers(None),
        head=LinearHead("score"),
        readout=Readout("good", ("bad", "good"), ("good",)),
    )  # fmt: skip


@register("family", "reasonflux-prm-1.5b")
def reasonflux_1_5b() -> Family:
    """Gen-Verse/ReasonFlux-PRM-1.5B, its head converted to reward_head.safetensors."""
    return Family(
        name="reasonflux-prm-1.5b",
        published=("Gen-Verse/ReasonFlux-PRM-1.5B",),
        licence="see the model card",
        match=Match(
            model_types=("qwen2",), absent=("score.0.weight", "score.weight", "v_head.summary.weight"),
            names=("reasonflux",), named=True,
        ),
        layout=layout,
        head=HeadFile("reward_head"),
        readout=Readout("sigmoid"),
        context=2048,
        per_prefix=True,
    )  # fmt: skip
