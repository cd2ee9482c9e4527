"""VersaPRM, Llama-PRM800K and Qwen-PRM800K: the causal LM says `-` or `+` at a mark of four newlines."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, CUT, Text, Token
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout

MARK = " \n\n\n\n"


@register("family", "versaprm")
def versaprm() -> Family:
    """UW-Madison-Lee-Lab's VersaPRM and its variants, Llama-PRM800K and Qwen-PRM800K."""
    lab = "UW-Madison-Lee-Lab"
    variants = ("VersaPRM", "VersaPRM-Aug", "VersaPRM-Base-8B", "VersaPRM-Base-3B", "Llama-PRM800K", "Qwen-PRM800K")
    return Family(
        name="versaprm",
        published=tuple(f"{lab}/{variant}" for variant in variants),
        licence="see the model cards; Llama 3.1 community licence, Qwen2.5-Math Apache-2.0",
        match=Match(
            model_types=("llama", "qwen2"), absent=("score.weight", "score.0.weight", "v_head.summary.weight"),
            tokens=(MARK, "+", "-"), names=("versaprm", "llama-prm800k", "qwen-prm800k"), named=True,
        ),
        # Question and a blank line, then each step and the mark; tokenised apart as in training, stripped as in the evaluation.
        layout=in_order(
            lambda question: [BOS, Text(f"{question.strip()} \n\n"), CUT],
            lambda k, step: [Text(step.strip()), Token(MARK, read=0)],
        ),
        # The authors list the pair as (12, 10): the negative token first.
        head=VocabularyRows(("-", "+")),
        readout=Readout("good", ("bad", "good"), ("good",)),
    )  # fmt: skip
