"""MathMinos-Mistral: one raw logit at the mark `и` after each step; above zero the step is right.

The training code names the mark's token by the number 839, too low for a bare letter in Mistral's vocabulary: it is the
mark together with the space before it. So the mark is looked up as PRMBench does it, as the last token of `и` alone.
"""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, Piece, Text, Writer
from footfall.reward.family import Family, Match
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout
from footfall.types import Trajectory

MARK = "и"


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`Human: … Assistant:Step 1: … и⏎Step 2: … и⏎` as one text; spaces around a step would change the mark's token."""
    tokenizer = writer.tokenizer
    mark: str = tokenizer.convert_ids_to_tokens(tokenizer.encode(MARK, add_special_tokens=False)[-1])
    pieces: list[Piece] = [BOS, Text(f"Human: {trajectory.problem.text}\n\nAssistant:")]
    for k, step in enumerate(trajectory.steps, 1):
        pieces += [Text(f"Step {k}: {step.written.strip()}"), Text(f" {MARK}", read=0, token=mark), Text("\n")]
    return pieces


@register("family", "mathminos")
def mathminos() -> Family:
    """MathMinos-Mistral, trained with the code of KbsdJames/MATH-Minos."""
    return Family(
        name="mathminos",
        published=(),
        licence="not stated; Mistral-7B is Apache-2.0",
        match=Match(
            architectures=("MistralForTokenClassification",), rows={"score.weight": 1}, tokens=(MARK,), names=("minos",)
        ),
        layout=layout,
        head=LinearHead("score"),
        readout=Readout("raw"),
        threshold=0.0,
    )
