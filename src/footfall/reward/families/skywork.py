"""Skywork-o1-Open-PRM-Qwen-2.5-1.5B and -7B: a value head at a newline put after each step."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import CUT, Piece, Text, Token, Writer
from footfall.reward.family import Family, Match
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout
from footfall.types import Trajectory


def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """bos + problem + newline, then each step and one newline token, tokenised apart; a step has no newline inside."""
    bos = writer.tokenizer.bos_token
    pieces: list[Piece] = [*([Token(bos)] if bos else []), Text(f"{trajectory.problem.text}\n"), CUT]
    for step in trajectory.steps:
        pieces += [Text(step.written.replace("\n", " ")), Token("\n", read=0)]
    return pieces


@register("family", "skywork-o1-prm")
def skywork() -> Family:
    """Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B and -7B."""
    return Family(
        name="skywork-o1-prm",
        published=("Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B", "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B"),
        licence="Skywork community licence",
        match=Match(model_types=("qwen2",), tensors=("v_head.summary.weight",), tokens=("\n",), names=("skywork",)),
        layout=layout,
        head=LinearHead("v_head.summary"),
        readout=Readout("sigmoid"),
    )
