"""What a language needs to say the arithmetic world: as many wordings as English has of each kind, in the same order.

So a problem or a step of one language is said in another by taking the wording at the same place. Each language but
English is a file of `languages/`; a new file there is a new language.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from footfall.worlds.arithmetic import problem as english
from footfall.worlds.arithmetic.problem import Scene, Symbol

_FOLDER = Path(__file__).with_name("languages")
LANGUAGES: tuple[str, ...] = ("en", *sorted(path.stem for path in _FOLDER.glob("*.json")))
"""The seven languages that multilingual PRMs are trained on."""

Table = Mapping[Symbol, tuple[str, ...]]


@dataclass(frozen=True)
class Wordings:
    """One language. `{n}` is a number; `{name}`, `{item}`, `{who}`, `{Who}` and `{whom}` the scene; `%s` an equation."""

    items: Mapping[str, str]
    she: tuple[str, str]
    """As the one who acts, and as the one who is given something."""
    he: tuple[str, str]
    plain: Table
    tricky: Table
    later: tuple[str, ...]
    openings: tuple[str, ...]
    questions: tuple[str, ...]
    first: tuple[str, ...]
    any: tuple[str, ...]
    by_symbol: Table
    again: tuple[str, ...]
    answer: str
    """With `%s` for the number."""
    names: Mapping[str, str] = field(default_factory=dict)
    """English names that are written otherwise."""
    joint: str = " "
    """What stands between two sentences of a problem."""

    def scene(self, scene: Scene) -> dict[str, str]:
        """The words for who has what."""
        if self is ENGLISH:
            return scene.words
        name, item = scene
        pronoun = english.NAMES.get(name)
        who, whom = self.she if pronoun == "she" else self.he
        return {"name": self.names.get(name, name), "item": self.items.get(item, item), "who": who,
                "Who": who[:1].upper() + who[1:], "whom": whom}  # fmt: skip


ENGLISH = Wordings(
    items={item: item for item in english.ITEMS},
    she=("she", "her"),
    he=("he", "him"),
    plain=english.PLAIN,
    tricky=english.TRICKY,
    later=english.LATER,
    openings=english.OPENINGS,
    questions=english.QUESTIONS,
    first=english.FIRST,
    any=english.ANY,
    by_symbol=english.BY_SYMBOL,
    again=english.AGAIN,
    answer=english.ANSWER,
)


@lru_cache(maxsize=16)
def words_of(language: str) -> Wordings:
    """The wordings of a language by its two letters."""
    if language not in LANGUAGES:
        raise ValueError(f"no language is called {language!r}; there are {', '.join(LANGUAGES)}")
    if language == "en":
        return ENGLISH
    return read_wordings(_FOLDER / f"{language}.json")


def read_wordings(path: Path) -> Wordings:
    """The wordings of a language's file, which must have the kinds that `Wordings` has."""
    tables = json.loads(path.read_text(encoding="utf-8"))
    known = {kind.name for kind in fields(Wordings)}
    wrong = sorted((known - {"names", "joint"} - tables.keys()) | (tables.keys() - known))
    if wrong:
        raise ValueError(f"{path}: {', '.join(wrong)} missing or unknown; a language has {', '.join(sorted(known))}")
    return check_wordings(Wordings(**{name: _frozen(table) for name, table in tables.items()}), path.stem)


def _frozen(table: object) -> Any:
    """Lists as tuples."""
    if isinstance(table, dict):
        return {key: _frozen(value) for key, value in table.items()}
    return tuple(table) if isinstance(table, list) else table


def check_wordings(words: Wordings, language: str) -> Wordings:
    """Itself, if it has as many wordings of each kind as English; an error that names the kind if not."""
    for kind in fields(Wordings):
        mine, other = getattr(words, kind.name), getattr(ENGLISH, kind.name)
        if kind.name == "names" or isinstance(mine, str):
            continue
        sizes = [_sizes(table) for table in (mine, other)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the language {language!r} has {sizes[0]} wordings of {kind.name}, English has {sizes[1]}"
            )
    return words


def _sizes(table: Mapping[str, object] | tuple[str, ...]) -> object:
    if isinstance(table, tuple):
        return len(table)
    return {key: len(value) if isinstance(value, tuple) else 1 for key, value in table.items()}
