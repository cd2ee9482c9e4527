"""Token-level value-guided decoding (AdaptiveStep's TVD, arXiv 2502.13943): a PRM chooses tokens where the writer is unsure.

    greedy token a = argmax_v p(v | prefix);   if p(a) < τ: of the M likeliest tokens the one with the largest
    PRM value of prefix + token;   else a

τ = 0 and M = 1 are both greedy decoding. `next_tokens` and `score` are plain functions of token ids, so that any model can
be put in their place; τ is that of the segmenter (`footfall.segment.confidence_threshold`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

NextTokens: TypeAlias = Callable[[Sequence[int]], Sequence[tuple[int, float]]]
"""The likeliest tokens after these ids with their probabilities, likeliest first; at least one, M if there are as many."""
Score: TypeAlias = Callable[[Sequence[Sequence[int]]], Sequence[float]]
"""The PRM's value of each sequence of ids at its last token."""


def guided_token(
    prefix: Sequence[int], likeliest: Sequence[tuple[int, float]], score: Score, threshold: float, m: int = 8
) -> int:
    """The next token: the likeliest where it is likely enough, else the best valued of `m`; of equal ones the likelier."""
    greedy, probability = likeliest[0]
    if probability >= threshold or m == 1:
        return greedy
    tokens = [token for token, _ in likeliest[:m]]
    values = score([(*prefix, token) for token in tokens])
    return max(zip(values, tokens, strict=True), key=lambda pair: pair[0])[1]


def guided_decoding(
    prompt: Sequence[int],
    next_tokens: NextTokens,
    score: Score,
    threshold: float,
    m: int = 8,
    ends: Container[int] = (),
    max_tokens: int = 1024,
) -> tuple[int, ...]:
    """The ids that follow a prompt, up to a token that ends the text (it is included) or `max_tokens` of them."""
    if m < 1:
        raise ValueError(f"at least one token is needed to choose from, not {m}")
    written: list[int] = []
    while len(written) < max_tokens:
        prefix = (*prompt, *written)
        written.append(guided_token(prefix, next_tokens(prefix), score, threshold, m))
        if written[-1] in ends:
            break
    return tuple(written)
