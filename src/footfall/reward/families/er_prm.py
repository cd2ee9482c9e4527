"""ER-PRM (Llama3.1-Math-PRM): as Math-Shepherd, but mark and pair are the tokens with a space in front."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, Text, Token
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout

MARK = " ки"


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
        # `question Step 1: … киStep 2: … ки`: the newline that Math-Shepherd has after the mark is taken out.
        layout=in_order(
            lambda question: [BOS, Text(f"{question} ")],
            lambda k, step: [Text(f"Step {k}: {step}"), Token(MARK, read=0)],
        ),
        head=VocabularyRows((" +", " -")),
        readout=Readout("good", ("good", "bad"), ("good",)),
    )  # fmt: skip
