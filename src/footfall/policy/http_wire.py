"""The OpenAI wire format: sampling parameters to a request's fields, a reply to choices, a choice to steps.

Nothing here trusts the server. A text is cut at the separator, each token's logprob given to the step its text starts in.

Two endpoints are spoken. `completions` sends text (or token ids), `chat` sends messages, where a prefix with steps is
an unfinished assistant turn: `continue_final_message` and no `add_generation_prompt`, as vLLM and SGLang have it
(llama.cpp continues a final assistant message anyway, and gives it back in front of what it wrote).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from footfall.policy.http_client import AttemptError, server_message
from footfall.policy.protocol import SamplingParams
from footfall.types import Json, Step

Mode = Literal["completions", "chat"]
StepStop = Literal["reported", "assumed", "cut"]
V = TypeVar("V")

NEUTRAL: Mapping[str, Json] = {
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Switches off what a server adds by itself: vLLM the model's generation_config, llama.cpp its min_p and top_k."""
TELL_STOP: Mapping[str, Json] = {"verbose": True}
"""Makes llama.cpp say in `__verbose` what stopped its first choice; other servers say it anyway, or never."""
IDS_IN_WORDS: Mapping[str, Json] = {"return_tokens_as_token_ids": True}
"""Two tokens may have one text, and a text that stands twice in an object stands there once (vLLM)."""
_IN_WORDS = re.compile(r"token_id:(\d{1,9})")
_MOST_TOKENS = 1 << 40
"""No request has as many."""
_MOST_TOKEN = (1 << 31) - 1
_LEAST_LOGPROB, _MOST_LOGPROB = -1e6, 0.1
"""A logarithm of a probability is at most 0; rounding may put it a little above."""
_LONGEST_NAME = 512
_MOST_SAID = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """One sample as the server tells it. `tokens` may run past `text`, over a stop string or the end-of-text token."""

    text: str
    finish: Literal["stop", "length"]
    tells_stop: bool
    """Whether the server says what stopped the sample at all (vLLM, SGLang do; llama.cpp if asked to, of one sample)."""
    stop: str | None
    """The stop string that was met; `None` is the end of the answer, where `tells_stop`."""
    tokens: tuple[str, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    of_llama_cpp: bool = False
    """Whether the reply has llama.cpp's `timings`."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a reply says were read, found in the server's cache, and written."""

    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """All choices of one request in order of their index; `usage` is `None` where the server does not count."""

    choices: tuple[Choice, ...]
    usage: Usage | None


def sampling_fields(params: SamplingParams, seed: int, n: int, neutral: bool) -> dict[str, Json]:
    """The fields that say how to draw. A top_k of 0 is sent as "off" (-1) or, without `neutral`, not at all."""
    fields: dict[str, Json] = dict(NEUTRAL) if neutral else {}
    fields.update(max_tokens=params.max_tokens, temperature=params.temperature, top_p=params.top_p, seed=seed, n=n)
    if params.top_k:
        fields["top_k"] = params.top_k
    return fields


def model_ids(payload: object) -> tuple[str, ...]:
    """The names in a `/models` answer."""
    models = _get(_as(payload, dict, "the answer"), "data", list, "the answer")
    names = tuple(_get(_as(model, dict, "data"), "id", str, "data") for model in models)
    for name in names:
        if not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
            raise AttemptError(
                f"data: a model's name is 1 to {_LONGEST_NAME} printable characters, not {name[:80]!r}", again=False
            )
    return names


def read_reply(payload: object, mode: Mode, n: int) -> Reply:
    """The `n` choices that were asked for, or `AttemptError`: a reply with fewer, more or doubled ones is no reply."""
    reply = _as(payload, dict, "the answer")
    if reply.get("error") and not reply.get("choices"):
        with suppress(RecursionError):  # what is nested too deeply is told as an answer without choices
            raise AttemptError(f"the answer is an error, though with HTTP 200: {server_message(reply)[:_MOST_SAID]}")
    choices = [_as(choice, dict, "choices") for choice in _get(reply, "choices", list, "the answer")]
    indices = [_as(choice.get("index", k), int, "choices[]: 'index'") for k, choice in enumerate(choices)]
    if len(choices) != n or set(indices) != set(range(n)):
        raise AttemptError(f"{n} choices were asked for, the answer has {len(choices)} with the indices {indices}")
    in_order = sorted(zip(indices, choices, strict=True), key=lambda pair: pair[0])
    aside = reply.get("__verbose")
    told = {_as(aside.get("index", 0), int, "__verbose: 'index'"): aside} if isinstance(aside, dict) else {}
    read = [_choice(choice, mode, told.get(index, {})) for index, choice in in_order]
    if "timings" in reply:
        read = [replace(choice, of_llama_cpp=True) for choice in read]
    return Reply(tuple(read), _usage(reply.get("usage"), read))


def _choice(choice: Mapping[str, object], mode: Mode, aside: Mapping[str, object]) -> Choice:
    if mode == "chat":
        message = _get(choice, "message", dict, "choices[]")
        if message.get("content") is None:
            raise AttemptError(
                "choices[].message.content is null; is the server started with a reasoning or tool parser?"
            )
        text = _get(message, "content", str, "choices[].message")
    else:
        text = _get(choice, "text", str, "choices[]")
    if not _is_text(text):
        raise AttemptError("choices[] has a text with half of a surrogate pair, which is no character")
    finish = choice.get("finish_reason")
    if finish not in ("stop", "length"):
        raise AttemptError(f"choices[].finish_reason is {finish!r}, neither 'stop' nor 'length'")
    tells_stop, stop = _stop(choice, aside)
    tokens, logprobs = _logprobs(choice.get("logprobs"), mode)
    ids = _token_ids(choice.get("token_ids"), tokens) or _row_ids(choice.get("logprobs"))
    return Choice(text, "stop" if finish == "stop" else "length", tells_stop, stop, tokens, logprobs, ids)


def _stop(choice: Mapping[str, object], aside: Mapping[str, object]) -> tuple[bool, str | None]:
    """vLLM's `stop_reason`, SGLang's `matched_stop`: a string is a stop string, null or a token id is the end.

    llama.cpp says beside the choices that it was a `word`, and which.
    """
    for key in ("stop_reason", "matched_stop"):
        if key in choice:
            value = choice[key]
            return True, value if isinstance(value, str) else None
    if "stop_type" in aside:
        return True, _get(aside, "stopping_word", str, "__verbose") if aside["stop_type"] == "word" else None
    return False, None


def _logprobs(found: object, mode: Mode) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """Texts and logprobs of the tokens. Completions has two lists, chat one list of objects."""
    if found is None:
        return None, None
    where = "choices[].logprobs"
    table = _as(found, dict, where)
    tokens: list[object]
    values: list[object]
    if mode == "chat" or "content" in table:
        rows = [_as(row, dict, f"{where}.content") for row in _get(table, "content", list, where)]
        tokens, values = [row.get("token") for row in rows], [row.get("logprob") for row in rows]
    else:
        tokens, values = _get(table, "tokens", list, where), _get(table, "token_logprobs", list, where)
    if len(tokens) != len(values):
        raise AttemptError(f"{where} has {len(tokens)} tokens and {len(values)} values")
    return tuple(_as(token, str, where) for token in tokens), tuple(_number(value, where) for value in values)


def _token_ids(found: object, tokens: Sequence[str] | None) -> tuple[int, ...] | None:
    if found is None or tokens is None:
        return None
    ids = tuple(_as(token, int, "choices[].token_ids") for token in _as(found, list, "choices[].token_ids"))
    if not all(map(_is_id, ids)):
        raise AttemptError(f"choices[].token_ids holds {min(ids)} to {max(ids)}, and ids are 0 to {_MOST_TOKEN}")
    if len(ids) != len(tokens):
        raise AttemptError(f"choices[] has {len(ids)} token_ids and the logprobs of {len(tokens)} tokens")
    return ids


def _row_ids(found: object) -> tuple[int, ...] | None:
    """llama.cpp tells the ids in the rows of its logprobs."""
    rows = found.get("content") if isinstance(found, dict) else None
    ids = [row.get("id") if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else []
    known = tuple(i for i in ids if isinstance(i, int) and _is_id(i))
    return known if known and len(known) == len(ids) else None


def _usage(found: object, choices: Sequence[Choice]) -> Usage | None:
    """What the server counted; `None` if it did not, or found no tokens in a text.

    Of several choices llama.cpp counts the first alone, but lists the tokens of all.
    """
    if found is None:
        return None
    usage = _as(found, dict, "usage")
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    prompt = _get(usage, "prompt_tokens", int, "usage")
    generated = _get(usage, "completion_tokens", int, "usage")
    if not 0 <= prompt < _MOST_TOKENS or not 0 <= generated < _MOST_TOKENS:
        raise AttemptError(f"usage cannot be: {prompt} prompt tokens and {generated} completion tokens")
    n_cached = min(max(0, cached), prompt) if isinstance(cached, int) else 0
    if not generated and any(choice.text for choice in choices):
        return None
    if len(choices) > 1:
        generated = max(generated, sum(len(choice.tokens or ()) for choice in choices))
    return Usage(prompt - n_cached, n_cached, generated)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST_LOGPROB <= value <= _MOST_LOGPROB:
        raise AttemptError(f"{where} holds {str(value)[:80]!r} where a log-probability belongs")
    return float(value)


def _is_id(token: int) -> bool:
    return 0 <= token <= _MOST_TOKEN


def _as(value: object, kind: type[V], where: str) -> V:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise AttemptError(f"{where} is a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _get(table: Mapping[str, object], key: str, kind: type[V], where: str) -> V:
    return _as(table.get(key), kind, f"{where}: {key!r}")


class Candidate(NamedTuple):
    """One of the likeliest tokens in a place of an answer; `id` where the server tells it."""

    text: str
    id: int | None
    logprob: float


def likeliest_tokens(payload: object) -> list[list[Candidate]]:
    """For each token of the first choice the likeliest ones there; none if the server leaves them out.

    Completions has an object for each token, chat (and llama.cpp everywhere) a list of rows.
    """
    logprobs = _at(payload, "choices", 0, "logprobs")
    content, tables = _at(logprobs, "content"), _at(logprobs, "top_logprobs")
    if isinstance(content, list):
        listed = [_at(row, "top_logprobs") for row in content]
        rows = [each for each in listed if isinstance(each, list)]
        return [[candidate(_at(r, "token"), _at(r, "id"), _at(r, "logprob")) for r in each] for each in rows]
    if isinstance(tables, list):
        found = [table.items() for table in tables if isinstance(table, dict)]
        return [[candidate(text, None, value) for text, value in pairs] for pairs in found]
    return []


def candidate(text: object, told: object, value: object) -> Candidate:
    """Ids are told as such (llama.cpp) or in words (`token_id:17`, for `IDS_IN_WORDS`)."""
    if not isinstance(text, str):
        raise AttemptError(f"top_logprobs holds {text!r}: {value!r} where a token and a number belong")
    in_words = _IN_WORDS.fullmatch(text)
    logprob = _number(value, f"top_logprobs: {text!r}")
    if isinstance(told, int) and _is_id(told):
        return Candidate(text, told, logprob)
    return Candidate(text, int(in_words[1]) if in_words else None, logprob)


def _at(found: object, *keys: str | int) -> object:
    """`found[key][key]…`, or None if there is no such thing."""
    for key in keys:
        if isinstance(key, int):
            found = found[key] if isinstance(found, list) and len(found) > key else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


class Piece(NamedTuple):
    """A step's place in the text; `closed` if its separator follows."""

    start: int
    end: int
    closed: bool


class Written(NamedTuple):
    """What one choice comes to. `spelled` is False if tokens were given but do not spell the text."""

    steps: tuple[Step, ...]
    finish: Literal["end", "step", "length", "error"]
    error: str | None = None
    spelled: bool = True
    blank: Step | None = None
    """What there is of a step that the separator ended before it had any text: the writer can be asked to go on there."""


class Cutter(NamedTuple):
    """How to read the choices written after one prefix."""

    separator: str
    until: Literal["end", "step"]
    step_stop: StepStop
    turn: str
    """The chat turn that the choice goes on with; its template may have dropped the last separator, then it comes again."""
    keep_ids: bool
    begun: Step | None = None
    """The fragment that the choice goes on with: the first step read is that step, now whole."""

    def read(self, choice: Choice) -> Written:
        """The choice as steps. A stop string that the server cut off the text is put back first."""
        choice, separator = self._without_turn(choice), self.separator
        at_stop = self._stopped_at_separator(choice)
        text = choice.text.removesuffix(separator) + separator if at_stop else choice.text
        if self.begun is not None:
            return self._with_fragment(self.begun, replace(choice, text=text))
        again = self.turn and separator and text.startswith(separator)
        found = pieces(text, separator, len(separator) if again else 0)
        finish: Literal["end", "step", "length"] = "length" if choice.finish == "length" else "end"
        if self.until == "step" and found and found[0].closed:
            found, finish = found[:1], "step"
        elif at_stop:
            reason = f"the step is empty: the answer begins with {separator!r}; {_EMPTY_STEP}"
            # llama.cpp gives no logprobs at all (null) where a stop string is all that was written.
            return Written((), "error", reason, blank=Step(text, logprobs=choice.logprobs or ()))
        # llama.cpp does not tell the token that meets a stop string, which may begin with some of the text.
        spare = len(text) if at_stop and choice.of_llama_cpp else 0
        starts = None if choice.tokens is None else token_starts(text, choice.tokens, spare)
        steps = tuple(self._step(choice, text, piece, starts) for piece in found)
        return Written(steps, finish, spelled=choice.tokens is None or starts is not None)

    def _with_fragment(self, begun: Step, choice: Choice) -> Written:
        written = self._replace(begun=None, turn="").read(_joined(begun, choice))
        first = tuple(_whole(begun, step) for step in written.steps[:1])
        blank = None if written.blank is None else _whole(begun, written.blank)
        return written._replace(steps=(*first, *written.steps[1:]), blank=blank)

    def _without_turn(self, choice: Choice) -> Choice:
        """llama.cpp gives the turn back in front of what it wrote; the tokens it tells, if any, are those that it wrote."""
        if not self.turn or not choice.of_llama_cpp or not choice.text.startswith(self.turn):
            return choice
        given_back = choice.tokens is None or token_starts(choice.text, choice.tokens) is None
        return replace(choice, text=choice.text.removeprefix(self.turn)) if given_back else choice

    def _stopped_at_separator(self, choice: Choice) -> bool:
        if self.until != "step" or self.step_stop == "cut" or choice.finish != "stop":
            return False
        return choice.stop == self.separator if choice.tells_stop else True

    def _step(self, choice: Choice, text: str, piece: Piece, starts: Sequence[int] | None) -> Step:
        """One piece with the tokens that start in it; ids only where they spell exactly the step and its separator."""
        step = Step(text[piece.start : piece.end])
        if starts is None or choice.tokens is None or choice.logprobs is None:
            return step
        end = piece.end + len(self.separator) * piece.closed
        mine = slice(bisect_left(starts, piece.start), bisect_left(starts, end))
        ids = choice.token_ids
        if not self.keep_ids or ids is None or "".join(choice.tokens[mine]) != text[piece.start : end]:
            return Step(step.text, logprobs=choice.logprobs[mine])
        return Step(step.text, token_ids=ids[mine], logprobs=choice.logprobs[mine])


def _joined(begun: Step, choice: Choice) -> Choice:
    """The choice with the fragment before it, as if that were its first token."""
    tokens = None if choice.tokens is None else (begun.text, *choice.tokens)
    logprobs = None if choice.logprobs is None else (0.0, *choice.logprobs)
    ids = None if choice.token_ids is None else (0, *choice.token_ids)
    return replace(choice, text=begun.text + choice.text, tokens=tokens, logprobs=logprobs, token_ids=ids)


def _whole(begun: Step, step: Step) -> Step:
    """The joined step with what is known of the fragment's tokens in the place of that one; nothing if nothing is."""
    new_logprobs, new_ids = step.logprobs, step.token_ids
    logprobs = None if begun.logprobs is None or new_logprobs is None else (*begun.logprobs, *new_logprobs[1:])
    ids = None if logprobs is None or begun.token_ids is None or new_ids is None else (*begun.token_ids, *new_ids[1:])
    return replace(step, logprobs=logprobs, token_ids=ids)


_EMPTY_STEP = (
    "end steps with what the model puts between them (--step-end), use step_stop='cut' (--step-stop cut) or, if a chat "
    "template drops the last separator, mode='completions' (--mode completions)"
)


def pieces(text: str, separator: str, start: int = 0) -> list[Piece]:
    """The steps in `text[start:]`. A separator with only white space before it closes nothing, so no step is empty.

    `"a\\n\\n\\n\\nb"` is `"a"` and `"\\n\\nb"`: joined by the separator the steps are again what was written.
    """
    found: list[Piece] = []
    at = text.find(separator, start) if separator else -1
    while at >= 0:
        if text[start:at].strip():
            found.append(Piece(start, at, True))
            start = at + len(separator)
        at = text.find(separator, at + len(separator))
    if text[start:].strip():
        found.append(Piece(start, len(text), False))
    return found


def token_starts(text: str, tokens: Sequence[str], spare: int = 0) -> list[int] | None:
    """Where each token begins in the text, or `None` if the tokens do not spell it, but for the last `spare` characters.

    The last ones may run past the end (eos, the rest of a stop string). A token whose leading space the server dropped
    (SentencePiece vocabularies) is found too; a character broken over several tokens is not.
    """
    starts: list[int] = []
    cursor = 0
    for token in tokens:
        rest = text[cursor : cursor + len(token) + 1]
        starts.append(cursor)
        if rest.startswith(token) or token.startswith(rest):
            cursor += len(token)
        elif rest == " " + token:
            cursor += len(rest)
        else:
            return None
    return starts if cursor >= len(text) - spare else None
