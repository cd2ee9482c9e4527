"""ER-PRM (Llama3.1-Math-PRM): as Math-Shepherd, but mark and pair are the tokens with a space in front."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, Piece, Text, Token, Writer
from footfall.reward.family import Family, Match
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout
from footfall.types import Trajectory

MARK = " ки"


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`question Step 1: … киStep 2: … ки`: the newline that Math-Shepherd has after the mark is taken out."""
    pieces: list[Piece] = [BOS, Text(f"{trajectory.problem.text} ")]
    for k, step in enumerate(trajectory.steps, 1):
        pieces += [Text(f"Step {k}: {step.written}"), Token(MARK, read=0)]
    return pieces


@register("family", "er-prm")
def er_prm() -> Family:
    """Llama3.1-math-prm of hanningzhang/ER-PRM, and what its training code makes."""
    return Family(
        name="er-prm",
        published=(),
        licence="Llama 3.1 community licence",
        match=Match(
            model_types=("llama",), absent=("score.weight", "v_head.summary.weight"), tokens=(MARK, " +", " -"),
            names=("/er-prm", "llama3.1-math-prm"), named=True,
        ),
        layout=layout,
        head=VocabularyRows((" +", " -")),
        readout=Readout("good", ("good", "bad"), ("good",)),
    )  # fmt: skip
