"""Universal-PRM-7B: the value of a whole prefix at eos, one sequence a prefix.

The prompt has a place for a reference answer. By default it says that there is none: a judge that is shown the answer
measures something else. The family `universal-prm-reference` fills the place with `problem.answer`, only when asked for.
"""

from __future__ import annotations

from footfall.registry import register
from footfall.render import CUT, Piece, Text, Token, Writer
from footfall.reward.family import Family, Layout, Match
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout
from footfall.types import Trajectory

NO_REFERENCE = "There is no reference answer for this question."


def prefix_to_eos(show_answer: bool) -> Layout:
    """Chat with an open turn, then the steps so far with a closing blank line, tokenised apart, and eos."""

    def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
        known = (trajectory.problem.answer if show_answer else None) or NO_REFERENCE
        question = f"{trajectory.problem.text}\n\n###\n\nThe reference answer is: {known}"
        chat = writer.chat([("system", "You are a helpful assistant."), ("user", question)], open_turn=True)
        written = "".join(f"{step.written}\n\n" for step in trajectory.steps)
        return [*chat, CUT, Text(written), Token(writer.tokenizer.eos_token, read=0)]

    return layout


def _family(name: str, show_answer: bool, names: tuple[str, ...]) -> Family:
    return Family(
        name=name,
        published=("infly/Universal-PRM-7B",),
        licence="Apache-2.0",
        match=Match(
            model_types=("qwen2",), absent=("score.model.nn1.weight", "v_head.summary.weight"), names=names, named=True
        ),
        layout=prefix_to_eos(show_answer),
        head=LinearHead("score"),
        readout=Readout("sigmoid"),
        per_prefix=True,
    )


@register("family", "universal-prm")
def universal_prm() -> Family:
    """infly/Universal-PRM-7B, told that there is no reference answer."""
    return _family("universal-prm", show_answer=False, names=("universal-prm",))


@register("family", "universal-prm-reference")
def universal_prm_reference() -> Family:
    """infly/Universal-PRM-7B, shown the problem's reference answer; never chosen unless asked for."""
    return _family("universal-prm-reference", show_answer=True, names=())
