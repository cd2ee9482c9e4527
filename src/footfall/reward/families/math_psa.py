"""Math-psa (OpenR): a LoRA adapter on Qwen2.5-Math-7B-Instruct that says ` +` or ` -` at a mark of five newlines."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, Text, Token
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout

MARK = " \n\n\n\n\n"
"""A space and five newlines are one token; a step that ended in a space would have merged with it in joined text."""


@register("family", "math-psa")
def math_psa() -> Family:
    """openreasoner/Math-psa, as the published adapter or merged into its base."""
    return Family(
        name="math-psa",
        published=("openreasoner/Math-psa",),
        licence="MIT (code); Qwen2.5-Math is Apache-2.0",
        match=Match(
            model_types=("qwen2",), absent=("score.weight", "score.0.weight", "v_head.summary.weight"),
            tokens=(MARK, " +", " -"), names=("math-psa", "math_psa"), named=True,
        ),
        # `question Step 1: …` mark ` Step 2: …` mark; newlines of the question and of the steps are taken out.
        layout=in_order(
            lambda question: [BOS, Text(question.replace("\n", ""))],
            lambda k, step: [Text(f" Step {k}: " + step.replace("\n", "")), Token(MARK, read=0)],
        ),
        head=VocabularyRows((" +", " -")),
        readout=Readout("good", ("good", "bad"), ("good",)),
    )  # fmt: skip
