"""RLHFlow's Llama3.1-8B PRMs: each step is a user turn and the model answers `+` or `-`."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import Piece, Text, Writer
from footfall.reward.family import Family, Match
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout
from footfall.types import Trajectory


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """The history always shows `+`, even after a bad step; the pair is read one token before it."""
    turns: list[tuple[str, str | list[Piece]]] = []
    for k, step in enumerate(trajectory.steps):
        said = step.written.strip() if k else f"{trajectory.problem.text} {step.written.strip()}"
        turns += [("user", said), ("assistant", [Text("+", read=-1, token="+")])]
    return writer.chat(turns)


@register("family", "rlhflow")
def rlhflow() -> Family:
    """RLHFlow/Llama3.1-8B-PRM-Mistral-Data and -Deepseek-Data."""
    return Family(
        name="rlhflow",
        published=("RLHFlow/Llama3.1-8B-PRM-Mistral-Data", "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data"),
        licence="Llama 3.1 community licence",
        match=Match(
            model_types=("llama",), absent=("score.weight", "v_head.summary.weight"),
            tokens=("<|start_header_id|>", "+", "-"), names=("llama3.1-8b-prm", "rlhflow"), named=True,
        ),
        layout=layout,
        head=VocabularyRows(("+", "-")),
        readout=Readout("good", ("good", "bad"), ("good",)),
    )  # fmt: skip
