"""Text to steps: where a trace is cut, by its layout, its sentences, its thoughts, or where its writer wavered.

A segmenter gives exact character spans that make up the whole text again; `split_steps` makes steps of them and
`token_spans` says which tokens they hold.
"""

from footfall.segment.text import (
    Segmenter,
    Span,
    Token,
    blank_lines,
    lines,
    marked_steps,
    numbered,
    sentences,
    split_steps,
    step_markers,
    thoughts,
    token_spans,
)
from footfall.segment.tokens import confidence, confidence_threshold, entropy, entropy_of, recut

__all__ = [
    "Segmenter", "Span", "Token", "blank_lines", "confidence", "confidence_threshold", "entropy", "entropy_of", "lines",
    "marked_steps", "numbered", "recut", "sentences", "split_steps", "step_markers", "thoughts", "token_spans",
]  # fmt: skip
