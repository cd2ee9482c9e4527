"""Qwen2.5-Math-PRM-7B and -72B, Qwen2.5-Math-7B-PRM800K: two classes at `<extra_0>` after each step."""

from __future__ import annotations

from footfall.registry import register
from footfall.render import Piece, Text, Token, Writer
from footfall.reward.family import Family, Layout, Match
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout
from footfall.types import Trajectory

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
"""With a real backslash; the first model card passed a backspace."""


def chat_with_markers(system: str | None, marker: str = "<extra_0>") -> Layout:
    """Question as the user, steps as the assistant; the marker stands after each step instead of blank lines."""

    def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
        answer: list[Piece] = []
        for step in trajectory.steps:
            answer += [Text(step.written), Token(marker, read=0)]
        first = [] if system is None else [("system", system)]
        return writer.chat([*first, ("user", trajectory.problem.text), ("assistant", answer)])

    return layout


@register("family", "qwen2.5-math-prm")
def qwen_math_prm() -> Family:
    """Qwen2.5-Math-PRM-7B / -72B and Qwen2.5-Math-7B-PRM800K."""
    return Family(
        name="qwen2.5-math-prm",
        published=(
            "Qwen/Qwen2.5-Math-PRM-7B", "Qwen/Qwen2.5-Math-PRM-72B", "Qwen/Qwen2.5-Math-7B-PRM800K",
            "Babelscape/Qwen2.5-Math-PRM-7B-PDDL-r",
        ),
        licence="see the model cards",
        match=Match(
            model_types=("qwen2",), tensors=("score.0.weight", "score.2.weight"), tokens=("<extra_0>",),
            names=("math-prm", "prm800k"),
        ),
        layout=chat_with_markers(SYSTEM),
        head=LinearHead("score"),
        readout=Readout("good", ("bad", "good"), ("good",)),
        context=4096,
    )  # fmt: skip
