"""PURE-PRM-7B and jinachris/Qwen2.5-Math-7B-PRM800K: two labels at the separator, read as p(good) − p(bad).

From outside it is a TRL checkpoint; only the name tells that values run from −1 to 1 and that a newline ends a step.
(The PRMBench port puts a blank line instead; the authors' model card and RL code have the newline.)
"""

from __future__ import annotations

from footfall.registry import register
from footfall.reward.families.trl import separated
from footfall.reward.family import Family, Match
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout


@register("family", "pure")
def pure(separator: str = "\n") -> Family:
    """jinachris/PURE-PRM-7B and jinachris/Qwen2.5-Math-7B-PRM800K."""
    return Family(
        name="pure",
        published=("jinachris/PURE-PRM-7B", "jinachris/Qwen2.5-Math-7B-PRM800K"),
        licence="see the model card; the base Qwen2.5-Math-7B is Apache-2.0",
        match=Match(
            architectures=("Qwen2ForTokenClassification",), rows={"score.weight": 2},
            names=("pure-prm", "jinachris", "qwen2.5-math-7b-prm800k"), named=True,
        ),
        layout=separated(separator, bos=False),
        head=LinearHead("score"),
        readout=Readout("margin", ("bad", "good"), ("good",)),
        threshold=0.0,
    )  # fmt: skip
