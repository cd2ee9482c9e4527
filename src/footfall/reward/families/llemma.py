"""llemma-7b-prm-*-hf (easy-to-hard): the mean of two outputs at the first newline of the blank line after each step.

The published folders are causal LMs whose output matrix repeats the two rows of the reward head down to the size of the
vocabulary; the mean over all of it, which the authors take, is the mean of the two. They are stored as pickles and
bring no tokenizer: convert the weights and put the tokenizer of EleutherAI/llemma_7b beside them.
"""

from __future__ import annotations

import re

from footfall.registry import register
from footfall.render import BOS, Piece, Text, Writer
from footfall.reward.family import Family, Match
from footfall.reward.heads import MeanOfRows
from footfall.reward.readout import Readout
from footfall.types import Trajectory

_BLANK = re.compile(r"\n{2,}")


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """`# Question … # Solution …`, steps without blank lines inside, each closed by a blank line; one text."""
    pieces: list[Piece] = [BOS, Text(f"# Question\n\n{trajectory.problem.text}\n\n# Solution\n\n")]
    for step in trajectory.steps:
        pieces += [Text(_BLANK.sub("", step.written).strip()), Text("\n", read=0, token="<0x0A>"), Text("\n")]
    return pieces


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
        layout=layout,
        head=MeanOfRows(2),
        readout=Readout("sigmoid"),
    )  # fmt: skip
