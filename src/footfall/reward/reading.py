"""A trace as a step head reads it: ids, and one position a step. Positions come from building the ids, never from
searching them, so no step text can add, move or hide one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from footfall.encoding import Template, encode
from footfall.types import Trajectory


class Reading(NamedTuple):
    """Ids of a whole trace and the index at which each step's value is read."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]

    def fitting(self, limit: int) -> Reading:
        """The part that fits in `limit` tokens, cut right after the last step that can be read."""
        positions = tuple(p for p in self.positions if p < limit)
        return Reading(self.ids[: positions[-1] + 1] if positions else (), positions)


class PlainText:
    """A tokenizer for which a special token written inside a text is just text.

    `hidden` is a token that was added to the vocabulary for the head: it takes no part in the fingerprint, so ids
    sampled with the backbone's own vocabulary are still recognised.
    """

    def __init__(self, tokenizer: Any, hidden: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._hidden = hidden
        self.bos_token_id: int | None = tokenizer.bos_token_id
        self.eos_token_id: int | None = tokenizer.eos_token_id
        self.chat_template: Any = getattr(tokenizer, "chat_template", None)
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str, **options: Any) -> list[int]:
        if not text:
            return []
        known = self._known.get(text) if options == {"add_special_tokens": False} else None
        if known is not None:
            return list(known)
        ids: list[int] = self._tokenizer.encode(text, split_special_tokens=True, **options)
        return ids

    @contextmanager
    def ahead(self, texts: Iterable[str]) -> Iterator[None]:
        """Inside, these texts are tokenised already: all in one call, which uses all cores and is far faster."""
        wanted = [text for text in dict.fromkeys(texts) if text]
        if wanted:
            found = self._tokenizer(wanted, add_special_tokens=False, split_special_tokens=True)["input_ids"]
            self._known = dict(zip(wanted, found, strict=True))
        try:
            yield
        finally:
            self._known = {}

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        text: str = self._tokenizer.decode(token_ids, **options)
        return text

    def get_vocab(self) -> dict[str, int]:
        return {token: i for token, i in self._tokenizer.get_vocab().items() if token != self._hidden}

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        return self._tokenizer.apply_chat_template(conversation, **options)


def read_trace(tokenizer: PlainText, trajectory: Trajectory, template: Template, marker_id: int | None) -> Reading:
    """Where each step is read: at its last token, or at a marker put after it."""
    encoded = encode(tokenizer, trajectory, template)
    if marker_id is None:
        return Reading(encoded.ids, encoded.step_ends)
    ids = list(encoded.ids[: encoded.prompt_length])
    positions: list[int] = []
    start = encoded.prompt_length
    for end in encoded.step_ends:
        ids.extend(encoded.ids[start : end + 1])
        ids.append(marker_id)
        positions.append(len(ids) - 1)
        start = end + 1
    return Reading(tuple(ids), tuple(positions))
