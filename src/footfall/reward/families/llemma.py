"""llemma-7b-prm-*-hf (easy-to-hard): the mean of two outputs at the first newline of the blank line after each step.

The published folders are causal LMs whose output matrix repeats the two rows of the reward head down to the size of the
vocabulary; the mean over all of it, which the authors take, is the mean of the two. They are stored as pickles and
bring no tokenizer: convert the weights and put the tokenizer of EleutherAI/llemma_7b beside them.
"""

from __future__ import annotations

import re

from footfall.registry import register
from footfall.render import BOS, Text
from footfall.reward.family import Family, Match, in_order
from footfall.reward.heads import MeanOfRows
from footfall.reward.readout import Readout

_BLANK = re.compile(r"\n{2,}")


@register("family", "llemma-prm")
def llemma() -> Family:
    """ScalableMath/llemma-7b-prm-prm800k- and -metamath-level-1to3-hf, and the oprm of the same make."""
    return Family(
        name="llemma-prm",
        published=(
            "ScalableMath/llemma-7b-prm-prm800k-level-1to3-hf",
            "ScalableMath/llemma-7b-prm-metamath-level-1to3-hf",
            "ScalableMath/llemma-7b-oprm-prm800k-level-1to3-hf",
        ),
        licence="see the model card; the base llemma_7b has the Llama 2 licence",
        match=Match(
            model_types=("llama",), tensors=("lm_head.weight",), absent=("score.weight", "v_head.summary.weight"),
            tokens=("<0x0A>",), names=("llemma-7b-prm", "llemma-7b-oprm"), named=True,
        ),
        # `# Question … # Solution …`, steps without blank lines inside, each closed by a blank line; one text.
        layout=in_order(
            lambda question: [BOS, Text(f"# Question\n\n{question}\n\n# Solution\n\n")],
            lambda k, step: [Text(_BLANK.sub("", step).strip()), Text("\n", read=0, token="<0x0A>"), Text("\n")],
        ),
        head=MeanOfRows(2),
        readout=Readout("sigmoid"),
    )  # fmt: skip
