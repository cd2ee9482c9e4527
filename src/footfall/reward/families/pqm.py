"""PQM: deepseek-math-7b-base with a value head; the raw Q value at the added token `[PRM]` after each step.

The prompt is that of the training code: `[INST] … [/INST]`, no bos, and two spaces before `[/INST]`, because the
questions cut from Math-Shepherd end in one. The published folder holds the weights only: put the config and tokenizer
of the base beside them, with `[PRM]` added. Q values are ranks, not probabilities: there is no natural threshold.
"""

from __future__ import annotations

from footfall.registry import register
from footfall.render import Text, Token
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout


@register("family", "pqm")
def pqm() -> Family:
    """Windy0822/PQM (zeta 2, 4, …), with config and tokenizer of its base."""
    return Family(
        name="pqm",
        published=("Windy0822/PQM",),
        licence="see the model card; the base has the DeepSeek licence",
        match=Match(
            model_types=("llama", "mistral"), tensors=("v_head.summary.weight",), tokens=("[PRM]",), names=("pqm",)
        ),
        # `[INST] question  [/INST]`, then a line a step: `Step k: … [PRM]`.
        layout=in_order(
            lambda question: [Text(f"[INST] {question.strip()}  [/INST]")],
            lambda k, step: [Text(f"\nStep {k}: {step.strip()} "), Token("[PRM]", read=0)],
        ),
        head=LinearHead("v_head.summary"),
        readout=Readout("raw"),
        threshold=None,
        keys={r"^pretrained_model\.": ""},
    )
