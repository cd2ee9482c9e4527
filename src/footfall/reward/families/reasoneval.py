"""ReasonEval-7B and -34B: three classes (negative, neutral, positive) read at the end of each step, without a marker.

    validity = p(neutral) + p(positive)        redundancy = p(neutral), a label above .15

The authors' code keeps a separator between the steps while it tokenises (so steps are tokenised apart) and then drops it.
For the 7B the separator is also bos: the bos it drops is put back but the positions are not moved along, so the model is
read at the last but one token of a step. Their published scores were made that way.
"""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, CUT, Text
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout

READOUT = Readout(
    "good",
    ("negative", "neutral", "positive"),
    ("neutral", "positive"),
    sums={"redundancy": ("neutral",)},
    labels={"redundant": ("redundancy", 0.15)},
)


def _family(size: str, model_type: str, read: int) -> Family:
    return Family(
        name=f"reasoneval-{size.lower()}",
        published=(f"GAIR/ReasonEval-{size}",),
        licence="not stated in the repository; see the model card",
        match=Match(model_types=(model_type,), rows={"score_head.weight": 3}, names=("reasoneval",)),
        # Prompt and steps one after the other with nothing between them, each tokenised by itself.
        layout=in_order(
            lambda question: [BOS, Text(f"Question:\n{question}\nAnswer:\nLet's think step by step.\n"), CUT],
            lambda k, step: [Text(step, read=read), CUT],
        ),
        head=LinearHead("score_head"),
        readout=READOUT,
        token_level=read == 0,
    )


@register("family", "reasoneval-7b")
def reasoneval_7b() -> Family:
    """GAIR/ReasonEval-7B (Mistral)."""
    return _family("7B", "mistral", read=-1)


@register("family", "reasoneval-34b")
def reasoneval_34b() -> Family:
    """GAIR/ReasonEval-34B (Llama)."""
    return _family("34B", "llama", read=0)
