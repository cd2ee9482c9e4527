"""What the loopback server needs to write in the tokens of the embedded model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import footfall

FOLDER = Path(footfall.__file__).parent / "models" / "embedded"
DOUBTS = {"So": "Now", " is": " equal"}
"""Tokens of what the server solves, and what it nearly wrote in their places."""


def embedded_tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


def vocabulary(tokenizer: Any) -> list[str]:
    """The text of each token; none for halves of characters."""
    texts = [tokenizer.decode([i], skip_special_tokens=False) for i in range(len(tokenizer))]
    return ["" if "\ufffd" in text else text for text in texts]
