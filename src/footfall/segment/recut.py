"""A sampled trace cut anew between its tokens, as segmenters that look at the writer's confidence do.

Such steps need not end at a separator, so they hold their own line ends and the trace's separator is empty: the steps' texts
and their ids both add up to what was written.
"""

from __future__ import annotations

from dataclasses import replace

from footfall.encoding import Tokenizer
from footfall.segment.spans import Segmenter, Token, token_spans
from footfall.types import Step, Trajectory

__all__ = ["recut", "written"]


def written(tokenizer: Tokenizer, ids: tuple[int, ...], logprobs: tuple[float, ...] = ()) -> tuple[str, list[Token]]:
    """The text of some ids, and where each of them stands in it.

    Tokens of one character (a byte each) have the same place; it begins where the first of them does.
    """
    text, tokens, start = "", [], 0
    for k in range(len(ids)):
        # Half a character decodes to U+FFFD, which is not text yet.
        text = str(tokenizer.decode(list(ids[: k + 1]), skip_special_tokens=False, clean_up_tokenization_spaces=False))
        end = max(start, len(text.rstrip("\ufffd")))
        tokens.append(Token(start, end, logprobs[k] if logprobs else None))
        start = end
    return text, tokens


def recut(trajectory: Trajectory, segmenter: Segmenter, tokenizer: Tokenizer) -> Trajectory:
    """The same trace in the steps of another segmenter; it must hold the ids and logprobs it was sampled with."""
    if any(step.token_ids is None or step.logprobs is None for step in trajectory.steps):
        raise ValueError(
            f"trajectory {trajectory.id!r} has steps without token_ids or logprobs; sample it in this process"
        )
    ids = tuple(i for step in trajectory.steps for i in step.token_ids or ())
    logprobs = tuple(p for step in trajectory.steps for p in step.logprobs or ())
    text, tokens = written(tokenizer, ids, logprobs)
    spans = segmenter(text, tokens)
    owned = token_spans(tokens, spans)
    steps = tuple(
        Step(text[a:b], token_ids=ids[i:j], logprobs=logprobs[i:j]) for (a, b), (i, j) in zip(spans, owned, strict=True)
    )
    return replace(trajectory, steps=steps, separator="")
