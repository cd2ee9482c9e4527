"""Steps cut between tokens, where the writer wavered: by its confidence (AdaptiveStep) or its entropy (EDU-PRM).

    c_i = p(token_i | tokens before it);   break at c_i < τ,   τ = the quantile with a share ρ of all c below it
    H = -Σ_v p_v ln p_v  (nats);   a step is closed before a token with H > τ that is not a mere symbol

The τ of confidence is a property of a writer and a task: find it once on their traces by `confidence_threshold`. High
entropy at a bracket or an operator is a matter of notation, not of reasoning: such tokens open no step.

`recut` cuts a sampled trace anew in this way. Such steps need not end at a separator, so they hold their own line ends and
the trace's separator is empty: the steps' texts and their ids both add up to what was written.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from footfall.registry import register
from footfall.render import Tokenizer, decoded
from footfall.segment.text import Segmenter, Span, Token, cut, token_spans
from footfall.types import Step, Trajectory, sampled_ids, sampled_logprobs

_SYMBOLS = ("P", "Z", "C", "Sm", "Sc", "Sk")


@register("segmenter", "confidence")
def confidence(threshold: float = 0.25, side: Literal["after", "before"] = "after") -> Segmenter:
    """A step ends at each token whose probability was below `threshold` (AdaptiveStep); needs `Token.logprob`.

    `after` ends the step behind the unsure token, so that a judge sees what was chosen; `before` in front of it.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be a probability, not {threshold}")
    if side not in ("after", "before"):
        raise ValueError(f"side must be 'after' or 'before', not {side!r}")

    def segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        check_tokens(text, tokens, "confidence")
        unsure = _unsure(tokens, threshold)
        return cut(text, (token.end if side == "after" else token.start for token in unsure))

    return segment


def _unsure(tokens: Sequence[Token], threshold: float) -> Iterator[Token]:
    for k, token in enumerate(tokens):
        if token.logprob is None:
            raise ValueError(f"token {k} has no logprob; sample with a policy that gives them, or use 'lines'")
        if math.exp(token.logprob) < threshold:
            yield token


def confidence_threshold(logprobs: Iterable[float], share: float = 0.02) -> float:
    """τ such that a share ρ of these tokens (all those of a corpus) has a probability below it, up to ties."""
    if not 0 <= share < 1:
        raise ValueError(f"share must be from 0 to below 1, not {share}")
    ordered = sorted(logprobs)
    if not ordered:
        raise ValueError("no logprobs to find a threshold from")
    # 0.29 * 100 is 28.999…: a share meant to be a whole number of tokens must not lose one.
    return math.exp(ordered[math.floor(share * len(ordered) + 1e-9)])


@register("segmenter", "entropy")
def entropy(threshold: float = 1.0, max_cuts: int | None = None) -> Segmenter:
    """A step begins at each token whose distribution had more than `threshold` nats (EDU-PRM), symbols left out.

    Needs `Token.entropy`. After `max_cuts` cuts, in the order of the text, the rest is one step.
    """
    if threshold < 0 or (max_cuts is not None and max_cuts < 0):
        raise ValueError(f"threshold and max_cuts must not be negative, got {threshold} and {max_cuts}")

    def segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        check_tokens(text, tokens, "entropy")
        spans = cut(text, _anchors(text, tokens, threshold))
        if max_cuts is None or len(spans) <= max_cuts + 1:
            return spans
        return [*spans[:max_cuts], Span(spans[max_cuts].start, len(text))]

    return segment


def _anchors(text: str, tokens: Sequence[Token], threshold: float) -> Iterator[int]:
    for k, token in enumerate(tokens):
        if token.entropy is None:
            raise ValueError(
                f"token {k} has no entropy; keep the writer's distributions, or use 'confidence' or 'lines'"
            )
        if token.entropy > threshold and not is_symbol(text[token.start : token.end]):
            yield token.start


def entropy_of(probabilities: Iterable[float]) -> float:
    """H = -Σ p ln p in nats; what is missing to 1 (a top-k list was cut) is left out, so H is then too low."""
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def is_symbol(text: str) -> bool:
    """Whether a token is only punctuation, brackets, operators, currency signs and white space."""
    return all(unicodedata.category(character).startswith(_SYMBOLS) for character in text)


def check_tokens(text: str, tokens: Sequence[Token], segmenter: str) -> None:
    """An error for a text without tokens, and for one that lies outside it or starts before the one in front of it."""
    if text and not tokens:
        raise ValueError(f"the segmenter {segmenter!r} cuts between tokens, but none were given with the text")
    before = 0
    for k, token in enumerate(tokens):
        if not before <= token.start <= token.end <= len(text):
            raise ValueError(
                f"token {k} has the characters {token.start} to {token.end}; tokens must be in order and inside the "
                f"text of {len(text)} characters"
            )
        before = token.start


def written(tokenizer: Tokenizer, ids: tuple[int, ...], logprobs: tuple[float, ...] = ()) -> tuple[str, list[Token]]:
    """The text of some ids, and where each of them stands in it.

    Tokens of one character (a byte each) have the same place; it begins where the first of them does.
    """
    text, tokens, start = "", [], 0
    for k in range(len(ids)):
        # Half a character decodes to U+FFFD, which is not text yet.
        text = decoded(tokenizer, ids[: k + 1])
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
    if not all(step.is_plain for step in trajectory.steps):
        raise ValueError(
            f"trajectory {trajectory.id!r} has actions, observations or other authors, which no new cut can keep"
        )
    ids = sampled_ids(trajectory.steps)
    logprobs = sampled_logprobs(trajectory.steps)
    text, tokens = written(tokenizer, ids, logprobs)
    spans = segmenter(text, tokens)
    owned = token_spans(tokens, spans)
    steps = tuple(
        Step(text[a:b], token_ids=ids[i:j], logprobs=logprobs[i:j]) for (a, b), (i, j) in zip(spans, owned, strict=True)
    )
    return replace(trajectory, steps=steps, separator="")
