"""A trace as pieces: texts, tokens by name, sampled ids, and cuts. Pieces become ids and read positions, never by search.

Peers join text and look for a marker afterwards: a merge with its neighbour, or the marker written inside a step, and the
scores shift by one. Here the layout says where each step is read. Texts between two cuts are tokenised together (as the
model saw them in training) and the position is found by character offset; a token is put in by its id.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from types import FrameType
from typing import Any, Literal, NamedTuple

from footfall.damaged import naming
from footfall.hashing import vocabulary_fingerprint
from footfall.types import Author

MOST_TEMPLATE_LINES = 1_000_000
"""Lines of a chat template that are run for one dialogue; real ones need some hundreds."""


def templated(tokenizer: Any, turns: Sequence[Any], **options: Any) -> Any:
    """`tokenizer.apply_chat_template`. The template is a program that came with a model: one that does not end is stopped, and
    what it raises is told as its own."""
    lines, own = 0, f"the chat template of {getattr(tokenizer, 'name_or_path', None) or 'the tokenizer'}"

    def within(frame: FrameType, event: str, value: object) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > MOST_TEMPLATE_LINES:
            raise ValueError(f"{own} does not end: it was stopped after {MOST_TEMPLATE_LINES:,} lines")
        return within

    before = sys.gettrace()
    sys.settrace(lambda frame, event, value: within if frame.f_code.co_filename == "<template>" else None)
    try:
        with naming(own):
            return tokenizer.apply_chat_template(turns, **options)
    finally:
        sys.settrace(before)


class Reading(NamedTuple):
    """A rendered trace: its ids, where each step is read, whose tokens they are, and the images that belong to it."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    """One index a step: its last token, its separator included, or the marker after it."""
    prompt_length: int = 0
    foreign: tuple[tuple[int, int], ...] = ()
    """Spans of ids after the prompt that the policy did not write: observations, and steps of other authors."""
    images: tuple[str, ...] = ()
    """References in the order of the trace: the problem's, then the steps'."""
    mirror: Reading | None = None
    """The trace with its steps in reverse order, for a PRM that reads both ways; its positions are those of the same steps."""

    @property
    def tokens(self) -> int:
        """All tokens that are read."""
        return len(self.ids) + (len(self.mirror.ids) if self.mirror is not None else 0)

    @property
    def step_ends(self) -> tuple[int, ...]:
        """Index of the last token of each step."""
        return self.positions

    @property
    def policy_mask(self) -> tuple[bool, ...]:
        """True at the tokens that the policy wrote: those alone are counted as generated and get gradient."""
        mask = [False] * self.prompt_length + [True] * (len(self.ids) - self.prompt_length)
        for start, end in self.foreign:
            mask[start:end] = [False] * (end - start)
        return tuple(mask)

    def fitting(self, limit: int) -> Reading:
        """The part that fits in `limit` tokens, cut right after the last step that can be read."""
        if self.mirror is not None:
            raise ValueError(f"a PRM that reads both ways reads whole traces; this one has {len(self.ids)} tokens")
        positions = tuple(p for p in self.positions if p < limit)
        end = positions[-1] + 1 if positions else 0
        foreign = tuple((start, min(stop, end)) for start, stop in self.foreign if start < end)
        return Reading(self.ids[:end], positions, min(self.prompt_length, end), foreign, self.images)


def both_ways(readings: Sequence[Reading]) -> list[Reading]:
    """The readings, then the mirrors of those that have one."""
    return [*readings, *(reading.mirror for reading in readings if reading.mirror is not None)]


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is tokenised here. `read`: a step is read at its last token plus this."""

    text: str
    read: int | None = None
    """0: at the last token of this text (or, if it is empty, of what stands before it); -1: one token earlier."""
    token: str | None = None
    """This text must have become the one token of this name; a merge with its neighbours is an error."""
    author: Author = "policy"


@dataclass(frozen=True, slots=True)
class Token:
    """One token by name (`<extra_0>`) or by the text that it alone encodes (` \\n\\n\\n\\n`); neighbours do not merge."""

    text: str
    read: int | None = None
    author: Author = "policy"


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids as they are: sampled by the policy, or put there by its environment. `text` is what they say."""

    ids: Sequence[int]
    text: str = ""
    read: int | None = None
    author: Author = "policy"


@dataclass(frozen=True, slots=True)
class Cut:
    """Texts on both sides are tokenised apart."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The tokens that the tokenizer puts in front of every text by itself, often bos."""


Piece = Text | Token | Ids | Cut | Lead
CUT, BOS = Cut(), Lead()
_SHORT, _REMEMBERED = 4, 1024
"""Characters of a text whose ids are remembered, and how many of them are."""
Specials = Literal["parsed", "special", "added"]
"""Which tokens, spelled out in a text, stay text: none (a policy reads its own prompts), special ones, all added ones."""


class _Plain(NamedTuple):
    ids: list[int]
    offsets: list[tuple[int, int]] | None


class _Growing:
    """A reading while it is written."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.foreign: list[tuple[int, int]] = []

    def add(self, ids: Sequence[int], author: Author = "policy") -> None:
        if author != "policy" and ids:
            self.foreign.append((len(self.ids), len(self.ids) + len(ids)))
        self.ids.extend(ids)

    def read(self, offset: int) -> None:
        self.positions.append(len(self.ids) - 1 + offset)


class Writer:
    """Turns pieces into ids with one tokenizer."""

    def __init__(
        self, tokenizer: Any, source: str = "the tokenizer", specials: Specials = "added", hidden: str | None = None
    ) -> None:
        """`hidden` is a token that was added to the vocabulary for a head: ids sampled without it are still known as own."""
        self.tokenizer = tokenizer
        self.source = source
        self.specials = specials
        self.vocabulary = vocabulary_fingerprint(tokenizer, hidden)
        self._plainly = {} if specials == "parsed" else {"split_special_tokens": True}
        self._token_ids: dict[str, int] = {}
        self._short: dict[tuple[str, bool], Sequence[int]] = {}
        self._known: dict[str, _Plain] = {}

    @cached_property
    def _special(self) -> re.Pattern[str] | None:
        return _any_of(token.content for token in self.tokenizer.added_tokens_decoder.values())

    @cached_property
    def _found_anyway(self) -> re.Pattern[str] | None:
        """The tokenizer finds these in plain text whatever it is asked, so they are broken in two before it looks."""
        if self.specials != "added":
            return None
        return _any_of(token.content for token in self.tokenizer.added_tokens_decoder.values() if not token.special)

    @cached_property
    def lead(self) -> list[int]:
        """What the tokenizer puts in front of every text."""
        with_lead, bare = self.tokenizer.encode("a"), self.tokenizer.encode("a", add_special_tokens=False)
        found: list[int] = with_lead[: _starts_at(with_lead, bare)]
        return found

    def id_of(self, text: str) -> int:
        """The one id of a token name, or of a text that becomes a single token."""
        if text not in self._token_ids:
            known = self.tokenizer.get_vocab().get(text)
            ids = self.tokenizer.encode(text, add_special_tokens=False) if known is None else [known]
            # SentencePiece puts its space mark in front of a lone piece.
            if len(ids) == 2 and self.tokenizer.decode([ids[1]]).strip() == text.strip() != "":
                ids = ids[1:]
            if len(ids) != 1 or ids[0] == self.tokenizer.unk_token_id:
                raise ValueError(f"{text!r} is not one token of {self.source}, but {len(ids)}: it is of another family")
            self._token_ids[text] = ids[0]
        return self._token_ids[text]

    def read(self, pieces: Iterable[Piece], trace: str = "the trace", prompt: Iterable[Piece] = ()) -> Reading:
        """Ids of all pieces, the index at which each step is read, in order, and what the policy did not write.

        What stands in front of the first step may be given apart, as `prompt`: then the reading knows where it ends.
        """
        found = _Growing(trace)
        self._write(prompt, found)
        start = len(found.ids)
        found.foreign.clear()
        self._write(pieces, found)
        if any(p < 0 for p in found.positions):
            raise ValueError(f"{trace}: its first step is empty and nothing stands before it to read it at")
        return Reading(tuple(found.ids), tuple(found.positions), start, tuple(found.foreign))

    def _write(self, pieces: Iterable[Piece], found: _Growing) -> None:
        segment: list[Text] = []
        for piece in pieces:
            same_author = isinstance(piece, Text) and (not segment or piece.author == segment[0].author)
            if segment and not same_author:  # what two authors wrote is tokenised apart too
                self._close(segment, found)
                segment = []
            if isinstance(piece, Text):
                segment.append(piece)
                continue
            if isinstance(piece, Lead):
                found.add(self.lead)
            elif isinstance(piece, Token | Ids):
                found.add(piece.ids if isinstance(piece, Ids) else (self.id_of(piece.text),), piece.author)
                if piece.read is not None:
                    found.read(piece.read)
        if segment:
            self._close(segment, found)

    def _close(self, segment: Sequence[Text], found: _Growing) -> None:
        """Tokenise the texts of a segment together and find where its reads fall."""
        if len(segment) == 1 and segment[0].token is None:  # nothing has to be found inside
            found.add(self._ids(segment[0].text, segment[0].author), segment[0].author)
            if segment[0].read is not None:
                found.read(segment[0].read)
            return
        first = len(found.ids)
        plain = self._plain("".join(piece.text for piece in segment), segment[0].author)
        found.add(plain.ids, segment[0].author)
        start = 0
        for n, piece in enumerate(segment):
            end = start + len(piece.text)
            if piece.read is not None:
                last_piece = n == len(segment) - 1
                at = len(plain.ids) - 1 if last_piece else self._last_token(plain, end, found.trace)
                if piece.token is not None and plain.ids[at] != self.id_of(piece.token):
                    raise ValueError(
                        f"{found.trace}: the mark {piece.text!r} after step {len(found.positions) + 1} did not become the "
                        f"token {piece.token!r}; {self.source} merges it with its neighbours"
                    )
                found.positions.append(first + at + piece.read)
            start = end

    def _ids(self, text: str, author: Author) -> Sequence[int]:
        """The ids of a text by itself. Short ones are remembered: a separator comes again after every step.

        What others than the policy wrote stays text in any case: no tool's result can close a turn.
        """
        if not text:
            return ()
        known = self._known.get(text)
        if known is not None:
            return known.ids
        if self._found_anyway is not None:
            return self._plain(text, author).ids
        short = (text, author == "policy")
        if short in self._short:
            return self._short[short]
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, **self._spelling(author))
        if len(text) <= _SHORT and len(self._short) < _REMEMBERED:
            self._short[short] = ids
        return ids

    def _spelling(self, author: Author) -> dict[str, bool]:
        """Of a policy's prompts special tokens are meant as such; nobody else can write one."""
        return {"split_special_tokens": True} if author != "policy" else self._plainly

    def _last_token(self, plain: _Plain, end: int, trace: str) -> int:
        """Index of the last token that ends at or before `end`; -1 if there is none."""
        if plain.offsets is None:
            raise ValueError(f"{trace}: {self.source} gives no character offsets; a fast tokenizer is needed")
        return bisect_right(plain.offsets, end, key=lambda span: span[1]) - 1

    def read_many(self, traces: Sequence[tuple[Sequence[Piece], str]]) -> list[Reading]:
        """`read` of many (pieces, name), whose texts are tokenised in one call."""
        with self.ahead(pieces for pieces, _ in traces):
            return [self.read(pieces, name) for pieces, name in traces]

    @contextmanager
    def ahead(self, layouts: Iterable[Sequence[Piece]]) -> Iterator[None]:
        """Inside, the texts of these pieces are tokenised already: all in one call, which uses all cores and is far faster."""
        texts = [text for pieces in layouts for text in _segments(pieces)]
        whole = [text for text in dict.fromkeys(texts) if len(_halved(text, self._found_anyway)) == 1]
        if whole:
            fast = bool(self.tokenizer.is_fast)
            found = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=fast, **self._plainly)
            offsets = found["offset_mapping"] if fast else [None] * len(whole)
            rows = zip(whole, found["input_ids"], offsets, strict=True)
            self._known = {text: _Plain(ids, spans) for text, ids, spans in rows}
        try:
            yield
        finally:
            self._known = {}

    def _plain(self, text: str, author: Author) -> _Plain:
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
                part, add_special_tokens=False, return_offsets_mapping=fast, **self._spelling(author)
            )
            ids.extend(found["input_ids"])
            if fast:
                offsets.extend((start + a, start + b) for a, b in found["offset_mapping"])
            start += len(part)
        return _Plain(ids, offsets if fast else None)

    def chat(
        self,
        messages: Sequence[tuple[str, str | Sequence[Piece]]],
        *,
        open_turn: bool = False,
        author: Author = "policy",
        open_end: bool = False,
        closed: Collection[int] = (),
    ) -> list[Piece]:
        """The tokenizer's chat template around contents that stay plain text; a content may be pieces itself.

        `messages` are (role, content). With `open_turn` the assistant's next turn is opened; with `open_end` a last turn of
        the assistant is left open, to be gone on with. `author` is who wrote what the template puts in; but the policy itself
        wrote the token that ends the messages `closed`, to hand over. The template is rendered around place holders, so nothing
        that a user wrote is ever parsed as a special token; a template that trims contents trims these too.
        """
        holders = [f"\ue000{n}\ue001" for n in range(len(messages))]
        padded = [{"role": role, "content": f" {h} "} for (role, _), h in zip(messages, holders, strict=True)]
        rendered: str = templated(self.tokenizer, padded, tokenize=False, add_generation_prompt=open_turn)
        pieces: list[Piece] = []
        rest = rendered
        for n, (holder, (_, content)) in enumerate(zip(holders, messages, strict=True)):
            kept = f" {holder} "
            trimmed = kept not in rest
            before, found, rest = rest.partition(holder if trimmed else kept)
            if not found:
                raise ValueError(f"the chat template of {self.source} leaves out a message")
            pieces += self._after(n - 1 in closed, self.template(before, author))
            pieces += _contents(content, trimmed)
        if open_end and messages[-1][0] == "assistant":
            return pieces
        return pieces + self._after(len(messages) - 1 in closed, self.template(rest, author))

    def _after(self, closed: bool, put_in: list[Piece]) -> list[Piece]:
        """What the template puts after a message; the token that ends a turn is the policy's if it `closed` this one."""
        first = put_in[0] if closed and put_in else None
        if isinstance(first, Token) and first.text == self.turn_end:
            return [replace(first, author="policy"), *put_in[1:]]
        return put_in

    @cached_property
    def turn_end(self) -> str | None:
        """The special token right after an assistant's turn, by which the model ends it; `None` if the template has none."""
        said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "\ue000"}]
        rendered: str = templated(self.tokenizer, said, tokenize=False, add_generation_prompt=False)
        after = self.template(rendered.partition("\ue000")[2])
        return after[0].text if after and isinstance(after[0], Token) else None

    def template(self, text: str, author: Author = "policy") -> list[Piece]:
        """A text of ours, in which special tokens are meant as such."""
        pieces: list[Piece] = []
        at = 0
        for match in self._special.finditer(text) if self._special else ():
            pieces += [Text(text[at : match.start()], author=author)] if match.start() > at else []
            pieces.append(Token(match.group(), author=author))
            at = match.end()
        return pieces + ([Text(text[at:], author=author)] if at < len(text) else [])


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


def _segments(pieces: Iterable[Piece]) -> list[str]:
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
