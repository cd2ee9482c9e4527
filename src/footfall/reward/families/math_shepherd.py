"""math-shepherd-mistral-7b-prm: the causal LM says `+` or `-` at the mark `ки` after each step."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, Piece, Text, Writer
from footfall.reward.family import Family, Match
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout
from footfall.types import Trajectory


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`question Step 1: … ки⏎Step 2: … ки`, tokenised as one text; the space before the mark keeps it one token."""
    pieces: list[Piece] = [BOS, Text(f"{trajectory.problem.text} ")]
    for k, step in enumerate(trajectory.steps, 1):
        end = "\n" if k > 1 else ""
        pieces += [Text(f"{end}Step {k}: {step.written} "), Text("ки", read=0, token="ки")]
    return pieces


@register("family", "math-shepherd")
def math_shepherd() -> Family:
    """peiyi9979/math-shepherd-mistral-7b-prm and fine-tunes of it."""
    return Family(
        name="math-shepherd",
        published=("peiyi9979/math-shepherd-mistral-7b-prm",),
        licence="not stated; Mistral-7B is Apache-2.0",
        match=Match(
            model_types=("mistral", "llama"), absent=("score.weight", "v_head.summary.weight"), tokens=("ки", "+", "-"),
            names=("math-shepherd", "math_shepherd"), named=True,
        ),
        layout=layout,
        head=VocabularyRows(("+", "-")),
        readout=Readout("good", ("good", "bad"), ("good",)),
    )  # fmt: skip
