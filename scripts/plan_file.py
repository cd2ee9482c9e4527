"""A plan: the stages of an experiment, read from a TOML file of plain commands.

    include = ["other.toml"]                    # plans whose stages, words and settings this one has too
    [given]                                     # what the command line gives: another value is another experiment
    model = "policy and backbone: a hub id, a folder or a GGUF file"
    [places]                                    # the same, but only where something lies on this machine
    data = "folder with the benchmarks"
    [words]                                     # {loop} in a command is this text; of a table, {rows[arm]} its entry
    loop = "python -m scripts.loop"
    rows.mc = "monte-carlo --budget 5500000"
    [[stage]]
    name = "train-{arm}-{seed}"                 # one stage for each seed and arm
    each = { seed = [0, 1], arm = ["mc"] }
    after = "label-*"                           # stages that must be done, names or patterns
    run = "{loop} train --model {model} --out {out} --name {arm}-{seed} --seed {seed} --rows {rows[arm]}"
    makes = "prm-{arm}-{seed}/*"                # small files under {out}, patterns too: done is when all are there
    gpu = "shared"                              # or "whole": with no other beside it; or "none"
    gib = 40                                    # of its memory, which those that share it have to have together
    seconds = 120                               # a guess, until a stage of its kind was measured

A stage may also have `heavy`, what it makes that is too large to travel (weights); `keeps`, with what it goes on after it was
stopped; `least`, for one that goes on wherever it is stopped: it is begun when so many seconds are left; `like`, a name for all
that take alike long, where that is not the whole entry; and `reads`, the files it needs where those are not all that the stages
before it made.
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from footfall.damaged import naming
from footfall.types import content_key

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OUT = "out"
OPTIONS = ("plan", "seconds", "workers", "gib", "only", "then", "dry", "help")
"""Of `run` itself, beside what a plan is given."""
GPU = ("none", "shared", "whole")
_WORD = re.compile(r"\{([a-z][a-z0-9_-]*)(?:\[([a-z][a-z0-9_-]*)\])?\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "name": str, "run": str, "makes": str, "after": str, "heavy": str, "keeps": str, "reads": str, "gpu": str,
    "gib": (int, float), "seconds": (int, float), "least": (int, float), "like": str, "each": dict,
}  # fmt: skip
_NEEDED = ("name", "run", "makes", "gpu", "seconds")
_DEPTH = 8
"""Of words that name words."""


@dataclass(frozen=True)
class Stage:
    """One command, what it needs and what it makes."""

    name: str
    words: tuple[str, ...]
    """The command; {model}, {out} and the like are still in it."""
    makes: tuple[str, ...]
    heavy: tuple[str, ...]
    keeps: tuple[str, ...]
    reads: tuple[str, ...]
    """Files it needs; empty: all that those before it made."""
    after: tuple[str, ...]
    gpu: str
    gib: float
    """Of the GPU's memory, at its peak."""
    seconds: float
    least: float | None
    kind: str
    """What `like` says, or the name as the entry has it: stages of one kind take alike long."""
    key: str
    """Of its command and of all that it comes after."""

    @property
    def names(self) -> set[str]:
        """What of the given and the places its command names."""
        return {found[1] for word in self.words for found in _WORD.finditer(word)}

    def command(self, values: Mapping[str, str]) -> list[str]:
        """With what is given, each as one word or a part of one."""
        return [_WORD.sub(lambda found: values[found[1]], word) for word in self.words]


@dataclass(frozen=True)
class Plan:
    """Stages in the order of the file, and what the command line has to give them, with a line of explanation each."""

    stages: tuple[Stage, ...]
    given: Mapping[str, str]
    places: Mapping[str, str]

    def needing(self, patterns: Sequence[str]) -> tuple[Stage, ...]:
        """Stages of these names or patterns, and all that they come after, in order; without patterns, all."""
        wanted = {s.name for s in self.stages if any(fnmatch.fnmatchcase(s.name, p) for p in patterns or ["*"])}
        if unknown := [p for p in patterns if not any(fnmatch.fnmatchcase(s.name, p) for s in self.stages)]:
            raise ValueError(f"no stage is called {unknown[0]!r}; there are {', '.join(s.name for s in self.stages)}")
        by_name = {stage.name: stage for stage in self.stages}
        left = list(wanted)
        while left:
            new = [name for name in by_name[left.pop()].after if name not in wanted]
            wanted |= {*new}
            left += new
        return tuple(stage for stage in self.stages if stage.name in wanted)


def read_plan(file: Path) -> Plan:
    """The plan of a file; an error names the file, the stage and what is wrong with it."""
    with naming(file):
        found = _read(file, ())
        given, places = _texts(found, "given"), _texts(found, "places")
        if both := sorted({OUT, *found["words"]} & {*given, *places} | {*given} & {*places}):
            raise ValueError(f"{both[0]!r} is given, a place, a word or {OUT}: only one of them")
        if odd := [name for name in (*given, *places) if name in OPTIONS or not _WORD.fullmatch(f"{{{name}}}")]:
            raise ValueError(
                f"{odd[0]!r} cannot be given: a name is in small letters, and none of {', '.join(OPTIONS)}"
            )
        rows = [row for entry in found["stage"] for row in _expanded(entry, found["words"], {*given, *places, OUT})]
        return Plan(_linked(rows), given, places)


def _read(file: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """The tables of a file, after those of the files that it includes."""
    if file.resolve() in above:
        raise ValueError(f"{file.name} includes itself")
    own: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    if unknown := sorted({*own} - {"include", "given", "places", "words", "stage"}):
        raise ValueError(f"{file.name}: a plan has include, given, places, words and stage, not {unknown[0]}")
    found: dict[str, Any] = {"given": {}, "places": {}, "words": {}, "stage": []}
    for other in own.get("include", []):
        _add(found, _read(file.parent / other, (*above, file.resolve())))
    _add(found, own)
    return found


def _add(found: dict[str, Any], more: Mapping[str, Any]) -> None:
    for table in ("given", "places", "words"):
        for name, value in more.get(table, {}).items():
            known = found[table].setdefault(name, value)
            if isinstance(known, dict) and isinstance(value, dict):
                found[table][name] = {**known, **value}
            elif known != value:
                raise ValueError(f"{name!r} in [{table}] says two things: {known!r} and {value!r}")
    if not isinstance(stages := more.get("stage", []), list):
        raise ValueError("a stage begins with [[stage]], in two brackets")
    found["stage"] += stages


def _texts(found: Mapping[str, Any], table: str) -> dict[str, str]:
    return {name: str(told) for name, told in found[table].items()}


def _expanded(entry: Mapping[str, Any], words: Mapping[str, Any], open_: set[str]) -> Iterator[dict[str, Any]]:
    """The stages of an entry: one for each combination of its `each`, the first name of it slowest."""
    called = f"stage {entry.get('name', '?')!r}"
    if unknown := sorted({*entry} - {*_FIELDS}):
        raise ValueError(f"{called}: a stage has {', '.join(_FIELDS)}, not {unknown[0]}")
    if missing := [name for name in _NEEDED if name not in entry]:
        raise ValueError(f"{called}: it needs {missing[0]}")
    for name, kind in _FIELDS.items():
        if name in entry and not isinstance(entry[name], kind):
            raise ValueError(f"{called}: {name} is {entry[name]!r}, of another kind than it must be")
    if entry["gpu"] not in GPU or not 0 < entry["seconds"] < math.inf or not entry.get("least", 0) >= 0:
        raise ValueError(f"{called}: gpu is one of {', '.join(GPU)}, and seconds are positive")
    if not 0 <= entry.get("gib", 0) < math.inf or (entry.get("gib") and entry["gpu"] != "shared"):
        raise ValueError(f"{called}: gib are the memory of one that shares the GPU")
    if not entry["run"].split():
        raise ValueError(f"{called}: run is no command")
    each = entry.get("each", {})
    for values in itertools.product(*each.values()):
        own = dict(zip(each, map(str, values), strict=True))
        row = {k: _filled(v, words, own, open_, called) for k, v in entry.items() if isinstance(v, str)}
        if not _NAME.fullmatch(row["name"]):
            raise ValueError(f"{called}: {row['name']!r} is no name for a file")
        for part in ("makes", "heavy", "keeps", "reads"):
            _check_paths(row.get(part, "").split(), called)
        kind = row.pop("like", entry["name"])
        numbers = {"seconds": float(entry["seconds"]), "gib": float(entry.get("gib", 0))}
        yield row | numbers | {"kind": kind, "least": entry.get("least")}


def _filled(text: str, words: Mapping[str, Any], own: Mapping[str, str], open_: set[str], called: str) -> str:
    """Words by their texts, as long as there are any; what the command line gives stays."""

    def text_of(found: re.Match[str]) -> str:
        name, entry = found[1], found[2]
        known = own.get(name, words.get(name))
        if entry is not None:
            known = words[name].get(own.get(entry)) if isinstance(words.get(name), dict) else None
        if isinstance(known, str):
            return known
        if entry is None and name in open_:
            return found[0]
        raise ValueError(f"{called}: {found[0]} is neither a word of the plan nor given")

    for _ in range(_DEPTH):
        new = _WORD.sub(text_of, text)
        if new == text:
            return text
        text = new
    raise ValueError(f"{called}: words in {text[:80]!r} name each other without end")


def is_inside(path: str) -> bool:
    """Whether a path or pattern names something in the folder of results, and not that itself."""
    parts = PurePath(path).parts
    return bool(parts) and ".." not in parts and not PurePath(path).is_absolute()


def _check_paths(paths: Iterable[str], called: str) -> None:
    for path in paths:
        if not is_inside(path) or _WORD.search(path):
            raise ValueError(f"{called}: {path!r} is no path inside the folder of results")


def _linked(rows: Sequence[Mapping[str, Any]]) -> tuple[Stage, ...]:
    """Stages that know which come before them; the same stage twice, of plans that include one another, is one."""
    by_name: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if by_name.setdefault(row["name"], row) != row:
            raise ValueError(f"two stages are called {row['name']!r}")
    made: dict[str, Stage] = {}

    def make(name: str, above: tuple[str, ...]) -> Stage:
        if name in above:
            raise ValueError(f"stages wait for each other: {' → '.join((*above[above.index(name) :], name))}")
        if name not in made:
            row = by_name[name]
            before = [make(other, (*above, name)) for other in _after(row, by_name)]
            words, makes = tuple(shlex.split(row["run"])), tuple(row["makes"].split())
            made[name] = Stage(
                name, words, makes, tuple(row.get("heavy", "").split()), tuple(row.get("keeps", "").split()),
                tuple(row.get("reads", "").split()),
                tuple(stage.name for stage in before), row["gpu"], row["gib"], row["seconds"], row["least"], row["kind"],
                content_key([*words, "", *(stage.key for stage in before)]),
            )  # fmt: skip
        return made[name]

    return tuple(make(name, ()) for name in by_name)


def _after(row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for pattern in row.get("after", "").split():
        matching = [name for name in names if fnmatch.fnmatchcase(name, pattern) and name != row["name"]]
        if not matching:
            raise ValueError(f"stage {row['name']!r} comes after {pattern!r}, which is no stage")
        found += [name for name in matching if name not in found]
    return found
