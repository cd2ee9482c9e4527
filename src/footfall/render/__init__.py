"""The one renderer: a problem and its steps as ids, step ends, author mask and images, or as messages for a server."""

from footfall.render.pieces import BOS, CUT, Ids, Piece, Reading, Text, Token, Writer, both_ways
from footfall.render.trace import (
    Observations,
    Template,
    Tokenizer,
    Turn,
    check_round_trip,
    decoded,
    dialogue_text,
    encode,
    messages,
    prompt_ids,
    prompt_turns,
    read_traces,
    solution_text,
    solution_turns,
    template_for,
)

__all__ = [
    "BOS", "CUT", "Ids", "Observations", "Piece", "Reading", "Template", "Text", "Token", "Tokenizer", "Turn", "Writer",
    "both_ways", "check_round_trip", "decoded", "dialogue_text", "encode", "messages", "prompt_ids", "prompt_turns",
    "read_traces", "solution_text", "solution_turns", "template_for",
]  # fmt: skip
