"""ReasonFlux-PRM-7B: Qwen's interface without a system message. ReasonFlux-PRM-1.5B: a scalar head in a file of its own.

The 1.5B model values a whole text at its last token, so each prefix is a sequence of its own. Its head is published as
a pickle, `reward_head.pt`; it is read here from `reward_head.safetensors` and from nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from safetensors.torch import load_file

from footfall.registry import register
from footfall.render import BOS, Piece, Text, Writer
from footfall.reward.backbone import TensorFiles
from footfall.reward.families.qwen_math_prm import chat_with_markers
from footfall.reward.family import Family, Match
from footfall.reward.heads import Head, LinearHead, linear
from footfall.reward.readout import Readout
from footfall.types import Trajectory


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
