"""PRMs trained with TRL, and PURE: token classification, two labels, read at the last token of the separator after each step.

Prompt, steps and separator are tokenised apart, as the trainer does it. The separator is not stored with the model:
TRL's own is a newline; HuggingFaceH4's PRM-0.2 checkpoints have a blank line.

PURE-PRM-7B and jinachris/Qwen2.5-Math-7B-PRM800K: two labels at the separator, read as p(good) − p(bad).
From outside it is a TRL checkpoint; only the name tells that values run from −1 to 1 and that a newline ends a step.
(The PRMBench port puts a blank line instead; the authors' model card and RL code have the newline.)
"""

from __future__ import annotations

from footfall.registry import register
from footfall.render import CUT, Piece, Text, Token, Writer
from footfall.reward.family import Family, Layout, Match
from footfall.reward.heads import LinearHead
from footfall.reward.readout import Readout
from footfall.types import Trajectory

ARCHITECTURES = tuple(
    f"{decoder}ForTokenClassification"
    for decoder in ("Qwen2", "Qwen3", "Llama", "Mistral", "Gemma", "Gemma2", "Phi", "Phi3", "Starcoder2", "StableLm")
)


def separated(separator: str, bos: bool) -> Layout:
    """Prompt, then each step and the separator, all tokenised apart; `bos` in front if the tokenizer has one."""

    def layout(writer: Writer, trajectory: Trajectory) -> list[Piece]:
        first = writer.tokenizer.bos_token if bos else None
        pieces: list[Piece] = [*([Token(first)] if first else []), Text(trajectory.problem.text), CUT]
        for step in trajectory.steps:
            pieces += [Text(step.written), CUT, Text(separator, read=0), CUT]
        return pieces

    return layout


def _family(
    name: str, separator: str, licence: str, published: tuple[str, ...] = (), names: tuple[str, ...] = ()
) -> Family:
    return Family(
        name=name,
        published=published,
        licence=licence,
        match=Match(architectures=ARCHITECTURES, rows={"score.weight": 2}, names=names, named=bool(names)),
        layout=separated(separator, bos=True),
        head=LinearHead("score"),
        readout=Readout("good", ("bad", "good"), ("good",)),
        stored_as="{decoder}ForTokenClassification",
    )


@register("family", "trl")
def trl(separator: str = "\n") -> Family:
    """Any PRM trained with TRL's PRMTrainer and its default separator, a newline."""
    return _family("trl", separator, "that of the checkpoint")


@register("family", "trl-blank-line")
def trl_blank_line() -> Family:
    """HuggingFaceH4/Qwen2.5-Math-1.5B- and 7B-Instruct-PRM-0.2, and TRL PRMs whose separator is a blank line."""
    published = ("HuggingFaceH4/Qwen2.5-Math-1.5B-Instruct-PRM-0.2", "HuggingFaceH4/Qwen2.5-Math-7B-Instruct-PRM-0.2")
    names = ("prm-0.2", "huggingfaceh4/")
    return _family("trl-blank-line", "\n\n", "Apache-2.0 (see the model card)", published, names)


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
