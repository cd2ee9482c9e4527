"""Settings from a file: `footfall COMMAND --config FILE`, in TOML or JSON, or those of an earlier run by its folder.

A key is an option's name; `set`, `option` and `map` may be tables. A table with a command's name holds for that command
alone, [lab.run] for `lab run`. What the command line says wins over the file. Since a file may come with somebody's data, it
cannot ask for what endangers the machine or its secrets: see `_refuse_unsafe`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args, get_type_hints

from footfall.commands import COMMANDS
from footfall.commands._values import check_values
from footfall.registry import safety_switches
from footfall.terminal import without_keys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES, _DEEPEST = 1 << 20, 50
_SHORT = re.compile(r"-[A-Za-z]")
_SETTINGS = ("set", "option")
"""Options that hold any number of name=value."""
_UNSAFE_FLAGS, _KEYS = ("api_key_env", "fresh"), ("api_key", "api_key_env")
_OWN_RAY = ("local", "auto")
"""Workers of this machine, or of the cluster that the user's own environment names."""


def with_file(kind: Any, command: str, words: list[str]) -> tuple[Any, list[str]]:
    """The configuration that the file named by the words makes the default, and the words to be put over it.

    The default is `tyro.MISSING_NONPROP`, none, where no file is named.
    """
    import tyro

    path = _named(words)
    if path is None:
        return tyro.MISSING_NONPROP, words
    fields_of = {option: name for name, option in renamed(kind).items()}
    values = _checked(path, command, [*(name for name, _ in options_of(kind)), *fields_of.values()])
    values = {fields_of.get(name, name): value for name, value in values.items()}
    pairs = [word for name in _SETTINGS if name in values for word in (f"--{name}", *_as_pairs(values.pop(name)))]
    if isinstance(values.get("map"), Mapping):
        values["map"] = _as_pairs(values["map"])
    return _filled(kind, values, str(path)), [*pairs, *words]


def with_defaults(parser: argparse.ArgumentParser, command: str, words: Sequence[str]) -> argparse.Namespace:
    """What the words and the file that they name say, for the small commands without a configuration of their own."""
    parser.add_argument(
        "--config", help="a file with options of this command, TOML or JSON; the command line wins over it"
    )
    known = [*vars(parser.parse_args([]))]
    if (path := _named(words)) is not None:
        parser.set_defaults(**_checked(path, command, known))
    return parser.parse_args(_hidden(known, words))


def _checked(path: Path, command: str, known: Sequence[str]) -> dict[str, Any]:
    """The file's options, which the command must have, and which a file may ask for."""
    values = read_settings(path, command)
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"`footfall {command} --help` has them all"
            raise ValueError(f"{path}: `footfall {command}` has no option {name!r}; {hint}")
    _refuse_unsafe(path, values)
    return values


def _named(words: Sequence[str]) -> Path | None:
    """The file after --config; the last one, as with any option."""
    found = None
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        flag, equals, value = word.partition("=")
        if flag == "--config" and (name := value if equals else after):
            found = Path(name).expanduser()
    return found


def read_settings(path: Path, command: str) -> dict[str, Any]:
    """The options in a file, by name; those that are null are left out."""
    if path.is_dir():
        path /= "config.json"
        if path.exists() and not path.is_file():  # one that is typed may be a pipe: <(…)
            raise ValueError(f"{path} is no plain file but a folder, pipe or device")
    with path.open("rb") as stream:
        source = stream.read(_MOST_BYTES + 1)
    if len(source) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES} bytes, which no configuration is")
    try:
        text = source.decode()
        # Dates, which options have none of, are texts.
        found = json.loads(json.dumps(tomllib.loads(text), default=str) if path.suffix == ".toml" else text)
    except (ValueError, RecursionError) as error:
        what = "JSON" if path.suffix != ".toml" else "TOML"
        known = path.suffix in (".toml", ".json")
        hint = (
            "" if known else "; options are read from TOML (a name that ends in .toml) or JSON, not from YAML or others"
        )
        raise ValueError(f"{path} is no {what}: {error}{hint}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no table of options")
    if _is_deep(found):
        raise ValueError(f"{path} is nested more than {_DEEPEST} levels deep, which no configuration is")
    if {"command", "config", "versions"} <= found.keys():
        return _of_run(path, found, command)
    own = {name: value for name, value in found.items() if name not in COMMANDS or not isinstance(value, dict)}
    last = command.split()[-1]
    for word in command.split():  # the table of a command of `lab` lies within that of `lab`
        found = found[word] if isinstance(found.get(word), dict) else {}
        own |= {name: value for name, value in found.items() if word == last or not isinstance(value, dict)}
    return {name.replace("-", "_"): value for name, value in own.items() if value is not None}


def _of_run(path: Path, found: Mapping[str, Any], command: str) -> dict[str, Any]:
    """What a run's config.json holds, without the facts that the run put beside its options."""
    if found["command"] != command:
        raise ValueError(f"{path} is of a run of `footfall {found['command']}`, not of `footfall {command}`")
    if not isinstance(found["config"], dict):
        raise ValueError(f"{path} holds no table of options")
    facts = ("data_key", "files")
    return {name: value for name, value in found["config"].items() if value is not None and name not in facts}


def _is_deep(found: object) -> bool:
    level = [found]
    for _ in range(_DEEPEST):
        level = [inner for each in level if isinstance(each, dict | list)
                 for inner in (each.values() if isinstance(each, dict) else each)]  # fmt: skip
    return bool(level)


def _refuse_unsafe(path: Path, values: Mapping[str, Any]) -> None:
    """Code outside the sandbox, a key to send, runs thrown away, and a cluster at an address, whose objects would be unpickled
    here: only who types the command line can ask for these.
    """
    unsafe = [name for name in _UNSAFE_FLAGS if values.get(name)]
    unsafe += ["ray"] if values.get("ray", "local") not in _OWN_RAY else []
    names = "|".join(re.escape(name).replace("_", "[-_]") for name in (*safety_switches(), *_KEYS))
    said = re.compile(rf"(?:^|,)\s*({names})\s*(?:=|$)")
    unsafe += [hit[1] for text in _texts(values) if (hit := said.search(text))]
    if unsafe:
        flag = "--" + unsafe[0].replace("_", "-") if unsafe[0] in (*_UNSAFE_FLAGS, "ray") else unsafe[0]
        raise ValueError(f"{path}: {unsafe[0]} is not taken from a file; say {flag} on the command line if you want it")


def _texts(value: object) -> Iterator[str]:
    """All texts and keys within."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"{key}="
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _as_pairs(value: object) -> list[str]:
    """Words for the command line; none may be a flag there."""
    pairs = value
    if isinstance(value, Mapping):
        pairs = [f"{key}={inner if isinstance(inner, str) else json.dumps(inner)}" for key, inner in value.items()]
    if not isinstance(pairs, list) or not all(isinstance(pair, str) and "=" in pair for pair in pairs):
        raise ValueError(f'settings are a table, or a list of texts as in ["rollouts=8"], not {value!r}')
    if flags := [pair for pair in pairs if pair.startswith("-")]:
        raise ValueError(f"settings begin with a name, not with {flags[0][0]!r}: {flags[0]!r}")
    return pairs


def _groups(kind: Any) -> Iterator[tuple[Field[Any], Any]]:
    """The fields of a command's configuration with their types."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        yield each, hints[each.name]


def options_of(kind: Any) -> list[tuple[str, Any]]:
    """A command's options with their types; those of option groups stand beside its own."""
    named = renamed(kind)
    return [
        pair
        for each, hint in _groups(kind)
        for pair in (
            [(f.name, own) for f, own in _groups(hint)]
            if is_dataclass(hint)
            else [(named.get(each.name, each.name), hint)]
        )
    ]


def without_values_of_unknown(kind: Any, words: Sequence[str]) -> list[str]:
    """The words, but *** for what follows an option that the command has not, and for what looks like a key and is no file:
    the error that names them repeats what was typed."""
    return _hidden([name for name, _ in options_of(kind)], words)


def _hidden(options: Iterable[str], words: Sequence[str]) -> list[str]:
    known = {"help", *(name.replace("_", "-") for name in options)}
    kept: list[str] = []
    hidden = False
    for word in words:
        flag, equals, _ = word.partition("=")
        if word.startswith("--"):
            hidden = flag[2:].replace("_", "-") not in known
            kept.append(f"{flag}=***" if hidden and equals else word)
        elif _SHORT.match(word):
            hidden = word != "-h"
            kept.append(f"{word[:2]}***" if len(word) > 2 else word)
        else:
            kept.append("***" if hidden else word)
    # Path.exists raises where a name is too long.
    are_files = (any(map(os.path.exists, (word, word.partition("=")[2]))) for word in kept)
    return [word if is_file else without_keys(word) for word, is_file in zip(kept, are_files, strict=True)]


def renamed(kind: Any) -> dict[str, str]:
    """Options whose name is no name of a field, by field: `as`, which is a word of Python."""
    return {
        name: said.name
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for said in getattr(hint, "__metadata__", ())
        if getattr(said, "name", None)
    }


def _filled(kind: Any, values: Mapping[str, Any], owner: str) -> Any:
    """The configuration with these values; what has no default and is not given is still to be given."""
    import tyro

    own: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for each, hint in _groups(kind):
        if is_dataclass(hint):
            base: Any = each.default_factory() if each.default_factory is not MISSING else each.default
            inner = {f.name: values[f.name] for f in fields(hint) if f.name in values}
            own[each.name] = replace(base, **_typed(hint, inner, owner)) if inner else base
        elif each.name in values:
            given[each.name] = values[each.name]
        elif each.default is MISSING and each.default_factory is MISSING:
            own[each.name] = tyro.MISSING
    return kind(**own, **_typed(kind, given, owner))


def _typed(kind: Any, values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The values as the options have them, for a file knows no paths and writes 1 for 1.0."""
    hints = get_type_hints(kind)
    found = check_values(owner, kind, values)
    for name, value in found.items():
        wanted = {hints[name], *get_args(hints[name])}
        if Path in wanted:
            found[name] = Path(value)
        elif float in wanted and isinstance(value, int):
            found[name] = float(value)
    return found
