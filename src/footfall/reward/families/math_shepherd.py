"""math-shepherd-mistral-7b-prm: the causal LM says `+` or `-` at the mark `ки` after each step."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, Text
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout


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
        # `question Step 1: … ки⏎Step 2: … ки`, tokenised as one text; the space before the mark keeps it one token.
        layout=in_order(
            lambda question: [BOS, Text(f"{question} ")],
            lambda k, step: [Text("\n" * (k > 1) + f"Step {k}: {step} "), Text("ки", read=0, token="ки")],
        ),
        head=VocabularyRows(("+", "-")),
        readout=Readout("good", ("good", "bad"), ("good",)),
    )  # fmt: skip
