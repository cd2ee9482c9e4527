"""Text to steps: where a trace is cut, by lines, blank lines, sentences or numbered steps.

A segmenter gives exact character spans that make up the whole text again; `split_steps` makes steps of them.
"""

from footfall.segment.lines import blank_lines, lines
from footfall.segment.numbered import numbered
from footfall.segment.sentences import sentences
from footfall.segment.spans import Segmenter, Span, Token, split_steps

__all__ = ["Segmenter", "Span", "Token", "blank_lines", "lines", "numbered", "sentences", "split_steps"]
