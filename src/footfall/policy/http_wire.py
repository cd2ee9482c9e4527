"""The OpenAI wire format: a prefix to a request body, a reply to choices. Nothing here trusts the server.

Two endpoints are spoken. `completions` sends text (or token ids), `chat` sends messages, where a prefix with steps is
an unfinished assistant turn: `continue_final_message` and no `add_generation_prompt`, as vLLM and SGLang have it
(llama.cpp continues a final assistant message anyway, and gives it back in front of what it wrote).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from footfall.policy.http_client import AttemptError, ServerRefusedError
from footfall.policy.protocol import SamplingParams
from footfall.types import Json

Mode = Literal["completions", "chat"]
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
    return tuple(_get(_as(model, dict, "data"), "id", str, "data") for model in models)


def read_reply(payload: object, mode: Mode, n: int) -> Reply:
    """The `n` choices that were asked for, or `AttemptError`: a reply with fewer, more or doubled ones is no reply."""
    reply = _as(payload, dict, "the answer")
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
    if len(ids) != len(tokens):
        raise AttemptError(f"choices[] has {len(ids)} token_ids and the logprobs of {len(tokens)} tokens")
    return ids


def _row_ids(found: object) -> tuple[int, ...] | None:
    """llama.cpp tells the ids in the rows of its logprobs."""
    rows = found.get("content") if isinstance(found, dict) else None
    ids = [row.get("id") if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else []
    known = tuple(i for i in ids if isinstance(i, int))
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
        raise AttemptError(f"usage cannot be: {prompt:.3g} prompt tokens and {generated:.3g} completion tokens")
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise AttemptError(f"{where} holds {value!r} where a number belongs")
    return float(value)


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
        return [[_candidate(_at(r, "token"), _at(r, "id"), _at(r, "logprob")) for r in each] for each in rows]
    if isinstance(tables, list):
        found = [table.items() for table in tables if isinstance(table, dict)]
        return [[_candidate(text, None, value) for text, value in pairs] for pairs in found]
    return []


def _candidate(text: object, told: object, value: object) -> Candidate:
    """Ids are told as such (llama.cpp) or in words (`token_id:17`, for `IDS_IN_WORDS`)."""
    if not isinstance(text, str):
        raise AttemptError(f"top_logprobs holds {text!r}: {value!r} where a token and a number belong")
    in_words = _IN_WORDS.fullmatch(text)
    logprob = _number(value, f"top_logprobs: {text!r}")
    return Candidate(text, told if isinstance(told, int) else int(in_words[1]) if in_words else None, logprob)


class Told(NamedTuple):
    """One answer: its text and tokens, and the likeliest tokens in each place with their logprobs, ids where they are known."""

    text: str
    stopped: bool
    """The writer ended by itself, not at `max_tokens`."""
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    likeliest: tuple[tuple[tuple[int | None, float], ...], ...]
    usage: Usage | None


def read_told(payload: object, url: str, id_of: Callable[[str], int | None]) -> Told:
    """The answer in ids, or `ServerRefusedError` if the server at `url` never tells what is needed.

    `id_of` gives the id of a text that is the text of one token alone, for servers that tell texts only.
    """
    reply = read_reply(payload, "completions", 1)
    (choice,) = reply.choices
    places = likeliest_tokens(payload)
    if choice.tokens is None or choice.logprobs is None or len(places) != len(choice.tokens):
        raise ServerRefusedError(
            f"{url} gives no log-probabilities of the likeliest tokens in each place of an answer (logprobs=20), without which "
            "nobody knows where its model was unsure: start it so that it does, or take a model in this process as --policy"
        )
    ids = choice.token_ids
    if ids is None:
        known = [_candidate(text, None, 0.0) for text in choice.tokens]
        found = [id_of(each.text) if each.id is None else each.id for each in known]
        ids = tuple(i for i in found if i is not None)
        if len(ids) < len(found):
            raise ServerRefusedError(
                f"{url} does not tell the ids of the tokens that it writes (return_token_ids; vLLM and llama.cpp do)"
            )
    likeliest = tuple(
        tuple((id_of(each.text) if each.id is None else each.id, each.logprob) for each in place) for place in places
    )
    return Told(choice.text, choice.finish == "stop", ids, choice.logprobs, likeliest, reply.usage)


def _at(found: object, *keys: str | int) -> object:
    """`found[key][key]…`, or None if there is no such thing."""
    for key in keys:
        if isinstance(key, int):
            found = found[key] if isinstance(found, list) and len(found) > key else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found
