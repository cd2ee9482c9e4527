"""A server's answer with the likeliest tokens in every place of it, in ids. Nothing here trusts the server.

Ids are told as such (`token_ids` of vLLM, `id` of llama.cpp), in words (`token_id:17`, for `return_tokens_as_token_ids`), or a
token's text is looked up: it counts if it is the text of one token alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from footfall.policy._http_client import AttemptError, ServerRefusedError
from footfall.policy._http_wire import Choice, Usage, read_reply
from footfall.types import Json

__all__ = ["IDS_IN_WORDS", "Told", "read_told"]

IDS_IN_WORDS: Mapping[str, Json] = {"return_tokens_as_token_ids": True}
"""Field of a request: two tokens may have one text, and a text that stands twice in an object stands there once (vLLM)."""
_IN_WORDS = re.compile(r"token_id:(\d{1,9})")


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
    """The answer, or `ServerRefusedError` if the server at `url` never tells what is needed."""
    reply = read_reply(payload, "completions", 1)
    (choice,) = reply.choices
    places = _places(payload)
    if choice.tokens is None or choice.logprobs is None or len(places) != len(choice.tokens):
        raise ServerRefusedError(
            f"{url} gives no log-probabilities of the likeliest tokens in each place of an answer (logprobs=20), without which "
            "nobody knows where its model was unsure: start it so that it does, or take a model in this process as --policy"
        )
    likeliest = tuple(tuple((_id(name, id_of), value) for name, value in place) for place in places)
    usage = reply.usage
    return Told(choice.text, choice.finish == "stop", _ids(choice, url, id_of), choice.logprobs, likeliest, usage)


def _ids(choice: Choice, url: str, id_of: Callable[[str], int | None]) -> tuple[int, ...]:
    if choice.token_ids is not None:
        return choice.token_ids
    ids = [_id(name, id_of) for name in choice.tokens or ()]
    if None in ids:
        raise ServerRefusedError(
            f"{url} does not tell the ids of the tokens that it writes (return_token_ids; vLLM and llama.cpp do)"
        )
    return tuple(i for i in ids if i is not None)


def _places(payload: object) -> list[list[tuple[object, float]]]:
    """For each token the likeliest ones there. Completions has an object for each, llama.cpp (as chat) a list of rows."""
    logprobs = _at(payload, "choices", 0, "logprobs")
    content, tables = _at(logprobs, "content"), _at(logprobs, "top_logprobs")
    found: list[list[tuple[object, object]]] = []
    if isinstance(content, list):
        listed = [_at(row, "top_logprobs") for row in content]
        rows = [each for each in listed if isinstance(each, list)]
        found = [[(_named(row), _at(row, "logprob")) for row in each] for each in rows]
    elif isinstance(tables, list):
        found = [list(table.items()) for table in tables if isinstance(table, dict)]
    return [[(name, _number(name, value)) for name, value in place] for place in found]


def _named(row: object) -> object:
    own = _at(row, "id")
    return _at(row, "token") if own is None else own


def _id(name: object, id_of: Callable[[str], int | None]) -> int | None:
    if isinstance(name, int):
        return name
    in_words = _IN_WORDS.fullmatch(name) if isinstance(name, str) else None
    if in_words is not None:
        return int(in_words[1])
    return id_of(name) if isinstance(name, str) else None


def _number(name: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise AttemptError(f"top_logprobs holds {name!r}: {value!r} where a token and a number belong")
    return float(value)


def _at(found: object, *keys: str | int) -> object:
    """`found[key][key]…`, or None if there is no such thing."""
    for key in keys:
        if isinstance(key, int):
            found = found[key] if isinstance(found, list) and len(found) > key else None
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found
