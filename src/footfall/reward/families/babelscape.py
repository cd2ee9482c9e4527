"""Babelscape's Llama-3.1-8B-PRM800k(-PDDL)-r: one number at a line `ки` after each step.

The authors call the number `pred_scalar` and train it towards rewards from 0 to 1; it is taken as it is, and .5 is our
reading of where errors begin (neither is stated). The name of the head's tensor is not documented: it is the one layer
that the checkpoint holds besides the decoder. Their Qwen2.5-Math-PRM-7B-PDDL-r is of the family qwen2.5-math-prm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from footfall.registry import register
from footfall.render import BOS, Piece, Text, Token, Writer
from footfall.reward.backbone import TensorFiles
from footfall.reward.family import Family, Match
from footfall.reward.heads import Head, LinearHead
from footfall.reward.readout import Readout
from footfall.types import Trajectory

_DECODER = re.compile(r"(^|\.)(layers|embed_tokens|norm|lm_head|rotary_emb)\.")


@dataclass(frozen=True)
class OnlyHead:
    """The one linear layer that is no part of the decoder, whatever its name."""

    def build(self, tensors: TensorFiles, writer: Writer, width: int, outputs: int) -> Head:
        """The one linear layer besides the decoder, whatever it is called."""
        outside = [name for name in tensors.names if not _DECODER.search(name)]
        heads = sorted({name.rpartition(".")[0] for name in outside})
        if len(heads) != 1:
            raise ValueError(
                f"{tensors.folder}: expected one head of one layer besides the decoder, "
                f"found {', '.join(heads) or 'none'}"
            )
        return LinearHead(heads[0]).build(tensors, writer, width, outputs)


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`Problem: … Steps:`, then two lines a step: the numbered step and the mark, read at the mark's first token."""
    tokenizer = writer.tokenizer
    first, *rest = tokenizer.convert_ids_to_tokens(tokenizer.encode("ки", add_special_tokens=False))
    pieces: list[Piece] = [BOS, Text(f"Problem: {trajectory.problem.text}\nSteps:")]
    for k, step in enumerate(trajectory.steps, 1):
        pieces += [Text(f"\nStep {k}: {step.written}\n"), Token(first, read=0), *map(Token, rest)]
    return pieces


@register("family", "babelscape")
def babelscape() -> Family:
    """Babelscape/Llama-3.1-8B-PRM800k-r and -PDDL-r."""
    return Family(
        name="babelscape",
        published=("Babelscape/Llama-3.1-8B-PRM800k-r", "Babelscape/Llama-3.1-8B-PRM800k-PDDL-r"),
        licence="Llama 3.1 community licence (base); the card states none",
        match=Match(
            model_types=("llama",), absent=("score_head.weight", "v_head.summary.weight"),
            names=("babelscape", "llama-3.1-8b-prm800k"), named=True,
        ),
        layout=layout,
        head=OnlyHead(),
        readout=Readout("raw", probability=True),
    )  # fmt: skip
