"""Steps begin where the writer could have gone either way (EDU-PRM): at tokens drawn from a distribution of high entropy.

    H = -Σ_v p_v ln p_v  (nats);   a step is closed before a token with H > τ that is not a mere symbol

High entropy at a bracket or an operator is a matter of notation, not of reasoning: such tokens open no step.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from footfall.registry import register
from footfall.segment.spans import Segmenter, Span, Token, check_tokens, cut

__all__ = ["entropy", "entropy_of", "is_symbol"]

_SYMBOLS = ("P", "Z", "C", "Sm", "Sc", "Sk")


@register("segmenter", "entropy")
def entropy(threshold: float = 1.0, max_cuts: int | None = None) -> Segmenter:
    """A step begins at each token whose distribution had more than `threshold` nats (EDU-PRM), symbols left out.

    Needs `Token.entropy`. After `max_cuts` cuts, in the order of the text, the rest is one step.
    """
    if threshold < 0 or (max_cuts is not None and max_cuts < 0):
        raise ValueError(f"threshold and max_cuts must not be negative, got {threshold} and {max_cuts}")

    def segment(text: str, tokens: Sequence[Token] = ()) -> list[Span]:
        check_tokens(text, tokens)
        spans = cut(text, _anchors(text, tokens, threshold))
        if max_cuts is None or len(spans) <= max_cuts + 1:
            return spans
        return [*spans[:max_cuts], Span(spans[max_cuts].start, len(text))]

    return segment


def _anchors(text: str, tokens: Sequence[Token], threshold: float) -> Iterator[int]:
    if text and not tokens:
        raise ValueError("the segmenter 'entropy' cuts between tokens, but none were given with the text")
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
