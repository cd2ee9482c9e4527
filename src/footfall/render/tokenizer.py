"""What is asked of a tokenizer, and what it is checked for before it is trusted."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Protocol


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used here."""

    bos_token_id: int | None
    eos_token_id: int | None
    chat_template: Any

    def encode(self, text: Any, **options: Any) -> list[int]: ...
    def decode(self, token_ids: Any, **options: Any) -> Any: ...
    def get_vocab(self) -> dict[str, int]: ...
    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


_FINGERPRINT = "_footfall_fingerprint"


def fingerprint(tokenizer: Tokenizer, hidden: str | None = None) -> str:
    """Names a vocabulary by its content; ids may be carried over between equal fingerprints only.

    `hidden` is a token that takes no part: one that was added for a head.
    """
    known: dict[str | None, str] = getattr(tokenizer, _FINGERPRINT, {})
    if hidden not in known:
        items = ((token, i) for token, i in tokenizer.get_vocab().items() if token != hidden)
        vocabulary = json.dumps(sorted(items, key=lambda item: item[1]))
        known = {**known, hidden: hashlib.sha256(vocabulary.encode()).hexdigest()[:16]}
        setattr(tokenizer, _FINGERPRINT, known)
    return known[hidden]


_ROUND_TRIP = ("3 + 4 = 7.", "so  two   spaces\nand lines\n\n", "x² ≤ ½ → 例えば 🙂 \\frac{1}{2}")


def check_round_trip(tokenizer: Tokenizer, source: str) -> None:
    """`decode(encode(x)) == x`, or an error: a tokenizer that drops spaces still runs and still gives numbers."""
    for text in _ROUND_TRIP:
        ids = tokenizer.encode(text, add_special_tokens=False)
        back = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if back.lstrip() != text.lstrip():
            raise ValueError(
                f"the tokenizer of {source} turns {text!r} into {back!r}; "
                "it was probably saved by another transformers version or loaded with the wrong class"
            )
