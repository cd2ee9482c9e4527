"""Causal LMs that say `+` or `-` after each step: Math-Shepherd, ER-PRM, Math-psa, VersaPRM and RLHFlow's.

    value = p(+) / (p(+) + p(-)), from the two rows of the output matrix, read at a mark that stands after the step

They differ in the mark, in how the pair is tokenised and in the text around the steps. The tensors do not tell them from a
plain causal LM, so each is taken by its name alone.
"""

from __future__ import annotations

from footfall.registry import register
from footfall.render import BOS, CUT, Piece, Text, Token, Writer
from footfall.reward.family import Family, Layout, Match, in_order
from footfall.reward.heads import VocabularyRows
from footfall.reward.readout import Readout
from footfall.types import Trajectory

_HEADS = ("score.weight", "v_head.summary.weight")


def _says(
    name: str,
    published: tuple[str, ...],
    licence: str,
    layout: Layout,
    *,
    models: tuple[str, ...],
    token: str,
    names: tuple[str, ...],
    absent: tuple[str, ...] = _HEADS,
    pair: tuple[str, str] = ("+", "-"),
    classes: tuple[str, str] = ("good", "bad"),
    stored_as: str | None = None,
) -> Family:
    """The family of that name: `pair` are the two words, `token` what its vocabulary has beside them."""
    return Family(
        name=name,
        published=published,
        licence=licence,
        match=Match(model_types=models, absent=absent, tokens=(token, *pair), names=names, named=True),
        layout=layout,
        head=VocabularyRows(pair),
        readout=Readout("good", classes, ("good",)),
        stored_as=stored_as,
    )


@register("family", "math-shepherd")
def math_shepherd() -> Family:
    """peiyi9979/math-shepherd-mistral-7b-prm and fine-tunes of it."""
    # `question Step 1: … ки⏎Step 2: … ки`, tokenised as one text; the space before the mark keeps it one token.
    layout = in_order(
        lambda question: [BOS, Text(f"{question} ")],
        lambda k, step: [Text("\n" * (k > 1) + f"Step {k}: {step} "), Text("ки", read=0, token="ки")],
    )
    return _says(
        "math-shepherd", ("peiyi9979/math-shepherd-mistral-7b-prm",), "not stated; Mistral-7B is Apache-2.0", layout,
        models=("mistral", "llama"), token="ки", names=("math-shepherd", "math_shepherd"),
    )  # fmt: skip


@register("family", "er-prm")
def er_prm() -> Family:
    """Llama3.1-math-prm of hanningzhang/ER-PRM, and what its training code makes."""
    # As Math-Shepherd, but mark and pair are the tokens with a space in front, and there is no newline after the mark.
    layout = in_order(
        lambda question: [BOS, Text(f"{question} ")],
        lambda k, step: [Text(f"Step {k}: {step}"), Token(" ки", read=0)],
    )
    return _says(
        "er-prm", (), "Llama 3.1 community licence", layout,
        models=("llama",), token=" ки", names=("/er-prm", "llama3.1-math-prm"), pair=(" +", " -"),
    )  # fmt: skip


@register("family", "math-psa")
def math_psa() -> Family:
    """openreasoner/Math-psa (OpenR): an adapter on Qwen2.5-Math-7B-Instruct, as published or merged into its base."""
    # A space and five newlines are one token; a step that ended in a space would have merged with it in joined text.
    mark = " \n\n\n\n\n"
    # `question Step 1: …` mark ` Step 2: …` mark; newlines of the question and of the steps are taken out.
    layout = in_order(
        lambda question: [BOS, Text(question.replace("\n", ""))],
        lambda k, step: [Text(f" Step {k}: " + step.replace("\n", "")), Token(mark, read=0)],
    )
    return _says(
        "math-psa", ("openreasoner/Math-psa",), "MIT (code); Qwen2.5-Math is Apache-2.0", layout,
        models=("qwen2",), token=mark, names=("math-psa", "math_psa"), absent=(*_HEADS, "score.0.weight"),
        pair=(" +", " -"),
    )  # fmt: skip


@register("family", "versaprm")
def versaprm() -> Family:
    """UW-Madison-Lee-Lab's VersaPRM and its variants, Llama-PRM800K and Qwen-PRM800K."""
    variants = ("VersaPRM", "VersaPRM-Aug", "VersaPRM-Base-8B", "VersaPRM-Base-3B", "Llama-PRM800K", "Qwen-PRM800K")
    mark = " \n\n\n\n"
    # Question and a blank line, then each step and the mark; tokenised apart as in training, stripped as in the evaluation.
    layout = in_order(
        lambda question: [BOS, Text(f"{question.strip()} \n\n"), CUT],
        lambda k, step: [Text(step.strip()), Token(mark, read=0)],
    )
    return _says(
        "versaprm", tuple(f"UW-Madison-Lee-Lab/{variant}" for variant in variants),
        "see the model cards; Llama 3.1 community licence, Qwen2.5-Math Apache-2.0", layout,
        models=("llama", "qwen2"), token=mark, names=("versaprm", "llama-prm800k", "qwen-prm800k"),
        absent=(*_HEADS, "score.0.weight"),
        # The authors list the pair as (12, 10): the negative token first.
        pair=("-", "+"), classes=("bad", "good"),
    )  # fmt: skip


@register("family", "rlhflow")
def rlhflow() -> Family:
    """RLHFlow/Llama3.1-8B-PRM-Mistral-Data and -Deepseek-Data: each step is a user turn, and the model answers."""
    return _says(
        "rlhflow", ("RLHFlow/Llama3.1-8B-PRM-Mistral-Data", "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data"),
        "Llama 3.1 community licence", answered_turns,
        models=("llama",), token="<|start_header_id|>", names=("llama3.1-8b-prm", "rlhflow"),
        stored_as="LlamaForCausalLM",
    )  # fmt: skip


def answered_turns(writer: Writer, trajectory: Trajectory) -> list[Piece]:
    """The history always shows `+`, even after a bad step; the pair is read one token before it."""
    turns: list[tuple[str, str | list[Piece]]] = []
    for k, step in enumerate(trajectory.steps):
        said = step.written.strip() if k else f"{trajectory.problem.text} {step.written.strip()}"
        turns += [("user", said), ("assistant", [Text("+", read=-1, token="+")])]
    return writer.chat(turns)
