"""A published PRM's input as pieces: texts, tokens by name, and cuts. Pieces become ids and read positions, never by search.

Peers join text and look for the marker afterwards: a merge with its neighbour, or the marker written inside a step, and
the scores shift by one. Here the layout says where each step is read. Texts between two cuts are tokenised together (as
the model saw them in training) and the position is found by character offset; a token is put in by its id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from footfall.reward.reading import Reading


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text: a special token spelled out in it stays text. `read`: a step is read at its last token plus this."""

    text: str
    read: int | None = None
    """0: at the last token of this text (or, if it is empty, of what stands before it); -1: one token earlier."""
    token: str | None = None
    """This text must have become the one token of this name; a merge with its neighbours is an error."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token by name (`<extra_0>`) or by the text that it alone encodes (` \\n\\n\\n\\n`); neighbours do not merge."""

    text: str
    read: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Texts on both sides are tokenised apart."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The tokens that the tokenizer puts in front of every text by itself, often bos."""


Piece = Text | Token | Cut | Lead
CUT, BOS = Cut(), Lead()


class _Plain(NamedTuple):
    ids: list[int]
    offsets: list[tuple[int, int]] | None


class Writer:
    """Turns pieces into ids with one tokenizer."""

    def __init__(self, tokenizer: Any, source: str = "the tokenizer") -> None:
        self.tokenizer = tokenizer
        self.source = source
        with_lead, bare = tokenizer.encode("a"), tokenizer.encode("a", add_special_tokens=False)
        self.lead: list[int] = with_lead[: _starts_at(with_lead, bare)]
        added = tokenizer.added_tokens_decoder.values()
        self._special = _any_of(token.content for token in added)
        # The tokenizer finds these in plain text whatever it is asked, so they are broken in two before it looks.
        self._found_anyway = _any_of(token.content for token in added if not token.special)
        self._ids: dict[str, int] = {}
        self._known: dict[str, _Plain] = {}

    def id_of(self, text: str) -> int:
        """The one id of a token name, or of a text that becomes a single token."""
        if text not in self._ids:
            known = self.tokenizer.get_vocab().get(text)
            ids = self.tokenizer.encode(text, add_special_tokens=False) if known is None else [known]
            # SentencePiece puts its space mark in front of a lone piece.
            if len(ids) == 2 and self.tokenizer.decode([ids[1]]).strip() == text.strip() != "":
                ids = ids[1:]
            if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id:
                raise ValueError(f"{text!r} is not one token of {self.source}, but {len(ids)}: it is of another family")
            self._ids[text] = ids[0]
        return self._ids[text]

    def read(self, pieces: Sequence[Piece], trace: str = "the trace") -> Reading:
        """Ids of all pieces and the index at which each step is read, in order."""
        ids: list[int] = []
        positions: list[int] = []
        segment: list[Text] = []
        for piece in pieces:
            if isinstance(piece, Text):
                segment.append(piece)
                continue
            self._close(segment, ids, positions, trace)
            segment = []
            if isinstance(piece, Lead):
                ids.extend(self.lead)
            elif isinstance(piece, Token):
                ids.append(self.id_of(piece.text))
                if piece.read is not None:
                    positions.append(len(ids) - 1 + piece.read)
        self._close(segment, ids, positions, trace)
        if any(p < 0 for p in positions):
            raise ValueError(f"{trace}: its first step is empty and nothing stands before it to read it at")
        return Reading(tuple(ids), tuple(positions))

    def _close(self, segment: Sequence[Text], ids: list[int], positions: list[int], trace: str) -> None:
        """Tokenise the texts of a segment together and find where its reads fall."""
        if not segment:
            return
        first = len(ids)
        plain = self._plain("".join(piece.text for piece in segment))
        ids.extend(plain.ids)
        start = 0
        for n, piece in enumerate(segment):
            end = start + len(piece.text)
            if piece.read is not None:
                last_piece = n == len(segment) - 1
                at = len(plain.ids) - 1 if last_piece else self._last_token(plain, end, trace)
                if piece.token is not None and plain.ids[at] != self.id_of(piece.token):
                    raise ValueError(
                        f"{trace}: the mark {piece.text!r} after step {len(positions) + 1} did not become the token "
                        f"{piece.token!r}; {self.source} merges it with its neighbours"
                    )
                positions.append(first + at + piece.read)
            start = end

    def _last_token(self, plain: _Plain, end: int, trace: str) -> int:
        """Index of the last token that ends at or before `end`; -1 if there is none."""
        if plain.offsets is None:
            raise ValueError(f"{trace}: {self.source} gives no character offsets; a fast tokenizer is needed")
        return bisect_right(plain.offsets, end, key=lambda span: span[1]) - 1

    def read_many(self, traces: Sequence[tuple[Sequence[Piece], str]]) -> list[Reading]:
        """`read` of many (pieces, name), whose texts are tokenised in one call: that uses all cores and is far faster."""
        texts = [text for pieces, _ in traces for text in _segments(pieces)]
        whole = [text for text in dict.fromkeys(texts) if len(_halved(text, self._found_anyway)) == 1]
        if whole:
            fast = bool(self.tokenizer.is_fast)
            found = self.tokenizer(
                whole, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=fast
            )
            offsets = found["offset_mapping"] if fast else [None] * len(whole)
            self._known = {
                t: _Plain(ids, spans) for t, ids, spans in zip(whole, found["input_ids"], offsets, strict=True)
            }
        try:
            return [self.read(pieces, name) for pieces, name in traces]
        finally:
            self._known = {}

    def _plain(self, text: str) -> _Plain:
        if not text:
            return _Plain([], [])
        if text in self._known:
            return self._known[text]
        broken = _halved(text, self._found_anyway)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        start = 0
        fast = bool(self.tokenizer.is_fast)
        for part in broken:
            found = self.tokenizer(
                part, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=fast
            )
            ids.extend(found["input_ids"])
            if fast:
                offsets.extend((start + a, start + b) for a, b in found["offset_mapping"])
            start += len(part)
        return _Plain(ids, offsets if fast else None)

    def chat(self, messages: Sequence[tuple[str, str | Sequence[Piece]]], *, open_turn: bool = False) -> list[Piece]:
        """The tokenizer's chat template around contents that stay plain text; a content may be pieces itself.

        `messages` are (role, content). The template is rendered around place holders, so nothing that a user wrote is
        ever parsed as a special token; a template that trims contents trims these too.
        """
        holders = [f"\ue000{n}\ue001" for n in range(len(messages))]
        padded = [{"role": role, "content": f" {h} "} for (role, _), h in zip(messages, holders, strict=True)]
        rendered: str = self.tokenizer.apply_chat_template(padded, tokenize=False, add_generation_prompt=open_turn)
        pieces: list[Piece] = []
        rest = rendered
        for holder, (_, content) in zip(holders, messages, strict=True):
            kept = f" {holder} "
            trimmed = kept not in rest
            before, found, rest = rest.partition(holder if trimmed else kept)
            if not found:
                raise ValueError(f"the chat template of {self.source} leaves out a message")
            pieces += self.template(before)
            pieces += _contents(content, trimmed)
        return pieces + self.template(rest)

    def template(self, text: str) -> list[Piece]:
        """A text of ours, in which special tokens are meant as such."""
        pieces: list[Piece] = []
        at = 0
        for match in self._special.finditer(text) if self._special else ():
            pieces += [Text(text[at : match.start()])] if match.start() > at else []
            pieces.append(Token(match.group()))
            at = match.end()
        return pieces + ([Text(text[at:])] if at < len(text) else [])


def _starts_at(ids: Sequence[int], part: Sequence[int]) -> int:
    """Where `part` begins in `ids`."""
    return next((i for i in range(len(ids)) if list(ids[i : i + len(part)]) == list(part)), 0)


def _any_of(words: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(set(words), key=lambda word: (-len(word), word))
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def _halved(text: str, pattern: re.Pattern[str] | None) -> list[str]:
    """The text cut in the middle of each match of `pattern`."""
    if pattern is None:
        return [text]
    cuts = [0, *((m.start() + m.end() + 1) // 2 for m in pattern.finditer(text)), len(text)]
    return [text[a:b] for a, b in pairwise(cuts) if b > a]


def _segments(pieces: Sequence[Piece]) -> list[str]:
    """The texts that are tokenised together, in order."""
    found = [""]
    for piece in pieces:
        if isinstance(piece, Text):
            found[-1] += piece.text
        else:
            found.append("")
    return [text for text in found if text]


def _contents(content: str | Sequence[Piece], trimmed: bool) -> list[Piece]:
    if isinstance(content, str):
        return [Text(content.strip() if trimmed else content)]
    return list(content)
