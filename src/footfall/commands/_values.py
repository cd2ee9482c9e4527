"""Values from the command line against what a part's annotations want: a wrong one is refused in one line."""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

MANY = 1_000_000
"""Of what an option or setting counts there may be so many, whichever it is: a command that was asked for more would work until
it is stopped, or until memory ends."""
_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "timeout": (lambda x: x > 0, "more than 0 seconds"),
    "retries": (lambda x: 0 <= x <= 1000, "0 or more, and at most 1,000"),
    "concurrency": (lambda x: 1 <= x <= 100_000, "1 or more, and at most 100,000"),
    "temperature": (lambda x: x >= 0, "0 or more; 0 is greedy"),
    "top_p": (lambda x: 0 < x <= 1, "more than 0 and at most 1"),
    "top_k": (lambda x: x >= 0, "0 or more; 0 keeps all tokens"),
    "max_tokens": (lambda x: x >= 1, "1 or more"),
    "seed": (lambda x: 0 <= x < 1 << 63, "0 or more, and less than 2^63"),
    "seeds": (lambda x: x <= 10_000, "at most 10,000"),
    "lr": (lambda x: 0 <= x <= 100, "0 or more, and at most 100"),
    "online_lr": (lambda x: 0 <= x <= 100, "0 or more, and at most 100"),
    "beta": (lambda x: x >= 0, "0 or more"),
    "limit": (lambda x: x >= 1, "1 or more"),
    "show": (lambda x: x >= 0, "0 or more"),
    "max_length": (lambda x: x >= 1, "1 or more"),
    "patience": (lambda x: x >= 1, "1 or more"),
    "lora_rank": (lambda x: x >= 1, "1 or more"),
    "workers": (lambda x: 1 <= x <= 1024, "1 or more, and at most 1,024"),
    "ray_workers": (lambda x: 1 <= x <= 10_000, "1 or more, and at most 10,000"),
    "ray_cpus": (lambda x: 0 < x <= 10_000, "more than 0, and at most 10,000"),
    "ray_gpus": (lambda x: 0 <= x <= 1000, "0 or more, and at most 1,000"),
    "ray_memory": (lambda x: 0 < x <= MANY, "more than 0 GiB, and at most 1,000,000"),
    "ray_patience": (lambda x: x > 0, "more than 0 seconds"),
    "ray_opening": (lambda x: x > 0, "more than 0 seconds"),
}
"""What some options may be, whichever command has them; the parts behind them would say it in their own words."""
_OF_ANY_SIZE = {"seed", "token", "tokens", "budget", "limit", "chunk", "show"}
"""Words in the names of those that count nothing that is made."""
_LISTS = (tuple, list, frozenset, set, Sequence, Collection)


class _Wanted(NamedTuple):
    """Whether a value is of a kind, and the kind in words."""

    fits: Callable[[object], bool]
    words: str


def check_values(owner: str, factory: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, lists as tuples where the factory wants those; an error names the setting, its kind and the value.

    Objects (a policy that is opened already) pass; only what a command line can say is looked at.
    """
    hints = _hints(factory)
    checked: dict[str, Any] = {}
    for name, value in given.items():
        checked[name] = value
        if name not in hints or not _is_plain(value):
            continue
        wanted = _wanted(hints[name])
        if not wanted.fits(value):
            if wanted.words == _OBJECT:
                how = (
                    "--policy names a policy, for rl --judge-policy"
                    if name == "policy"
                    else "it is no number, word or list"
                )
                raise ValueError(f"{name} of {owner} cannot be given as {_said(value)}: {how}")
            raise ValueError(f"{name} of {owner} is {wanted.words}, not {_said(value)}")
        if _too_many(name, value):
            raise ValueError(f"{name} of {owner} is at most {MANY:,}, not {_said(value)[:40]}")
        if isinstance(value, list) and _is_tuple(hints[name]):
            checked[name] = tuple(value)
    return checked


def finite_fields(options: Mapping[str, Any]) -> None:
    """Refuse a flag whose number is none (nan and infinity mean nothing to any of them) or out of its range."""
    in_range(options)
    for name, value in options.items():
        if isinstance(value, dict):
            finite_fields(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"--{name.replace('_', '-')} {value}: a finite number is needed")
        elif _too_many(name, value):
            raise ValueError(f"--{name.replace('_', '-')} {str(value)[:40]}: it must be at most {MANY:,}")


def _too_many(name: str, value: object) -> bool:
    return isinstance(value, int) and value > MANY and _OF_ANY_SIZE.isdisjoint(name.split("_"))


def in_range(options: Mapping[str, Any], words: str = "") -> None:
    """Refuse a number that its option cannot be. `words` are those of a policy in one word, where options are no flags."""
    for name, (fits, wanted) in _RANGES.items():
        value = options.get(name)
        if isinstance(value, int | float) and (isinstance(value, int) or math.isfinite(value)) and not fits(value):
            shown = f"{value:g}" if isinstance(value, float) else str(value)[:40]
            said = f"{words!r}: {name} is" if words else f"--{name.replace('_', '-')} {shown}: it must be"
            raise ValueError(f"{said} {wanted}")


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters, those left out that are known to type checkers only."""
    made = factory.__init__ if inspect.isclass(factory) else factory
    found: dict[str, Any] = {}

    def holder() -> None: ...

    for name, kind in getattr(made, "__annotations__", {}).items():
        holder.__annotations__ = {name: kind}
        with suppress(NameError):
            found |= get_type_hints(holder, getattr(made, "__globals__", {}))
    return found


def _wanted(kind: Any) -> _Wanted:
    """What a type means for a value that came as JSON or as text."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        each = [_wanted(one) for one in inner]
        words = list(dict.fromkeys(one.words for one in each if one.words != _NO_VALUE))
        told = [word for word in words if word != _OBJECT] or words
        return _Wanted(lambda value: any(one.fits(value) for one in each), " or ".join(told))
    if origin is Literal:
        return _Wanted(lambda value: value in inner, f"one of {', '.join(map(str, inner))}")
    if origin in _LISTS or kind in _LISTS:
        item = _wanted(inner[0]) if inner else _Wanted(lambda value: True, "anything")
        return _Wanted(
            lambda value: isinstance(value, list) and all(map(item.fits, value)),
            f"a list, as in [{_EXAMPLES.get(item.words, '…')}], of {item.words} each",
        )
    return _SIMPLE.get(kind, _Wanted(lambda value: False, _OBJECT))


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple or any(get_origin(one) is tuple for one in get_args(kind))


def _is_plain(value: object) -> bool:
    """Whether JSON or text can say it."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | dict)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _said(value: object) -> str:
    return f"{value!r}" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else f"{value}"


_NO_VALUE = "null"
_OBJECT = "an object"
_SIMPLE: dict[Any, _Wanted] = {
    int: _Wanted(lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    float: _Wanted(_is_number, "a finite number"),
    bool: _Wanted(lambda value: isinstance(value, bool), "true or false"),
    str: _Wanted(lambda value: isinstance(value, str), "text"),
    Path: _Wanted(lambda value: isinstance(value, str), "text"),
    type(None): _Wanted(lambda value: value is None, _NO_VALUE),
    object: _Wanted(lambda value: True, "anything"),
    Any: _Wanted(lambda value: True, "anything"),
}
_EXAMPLES = {"a whole number": "8, 4, 2", "a finite number": "0.3, 0.7", "text": '"a", "b"'}
