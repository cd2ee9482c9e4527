"""Steps end where the writer was unsure of the token it wrote (AdaptiveStep): at tokens of low probability.

    c_i = p(token_i | tokens before it);   break at c_i < τ,   τ = the quantile with a share ρ of all c below it

τ is a property of a writer and a task: find it once on their traces by `confidence_threshold`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, check_tokens, cut

__all__ = ["confidence", "confidence_threshold"]


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
        check_tokens(text, tokens)
        unsure = _unsure(text, tokens, threshold)
        return cut(text, (token.end if side == "after" else token.start for token in unsure))

    return segment


def _unsure(text: str, tokens: Sequence[Token], threshold: float) -> Iterator[Token]:
    if text and not tokens:
        raise ValueError("the segmenter 'confidence' cuts between tokens, but none were given with the text")
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
