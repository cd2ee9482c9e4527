"""What a language needs to say the arithmetic world: as many wordings as English has of each kind, in the same order.

So a problem or a step of one language is said in another by taking the wording at the same place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from footfall.worlds import _arithmetic_text as english
from footfall.worlds._arithmetic_program import Symbol

__all__ = ["ENGLISH", "Wordings", "check_wordings"]

Table = Mapping[Symbol, tuple[str, ...]]


@dataclass(frozen=True)
class Wordings:
    """One language. `{n}` is a number; `{name}`, `{item}`, `{who}`, `{Who}` and `{whom}` the scene; `%s` an equation."""

    names: Mapping[str, str]
    """English names that are written otherwise."""
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
    joint: str = " "
    """What stands between two sentences of a problem."""

    def scene(self, name: str, item: str) -> dict[str, str]:
        """The words for who has what."""
        if self is ENGLISH:
            return english.Scene(name, item).words
        pronoun = english.NAMES.get(name)
        who, whom = self.she if pronoun == "she" else self.he
        return {"name": self.names.get(name, name), "item": self.items.get(item, item), "who": who,
                "Who": who[:1].upper() + who[1:], "whom": whom}  # fmt: skip


ENGLISH = Wordings(
    names={},
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


def check_wordings(words: Wordings, language: str) -> Wordings:
    """Itself, if it has as many wordings of each kind as English; an error that names the kind if not."""
    for field in fields(Wordings):
        mine, other = getattr(words, field.name), getattr(ENGLISH, field.name)
        if field.name == "names" or isinstance(mine, str):
            continue
        sizes = [_sizes(table) for table in (mine, other)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the language {language!r} has {sizes[0]} wordings of {field.name}, English has {sizes[1]}"
            )
    return words


def _sizes(table: Mapping[str, object] | tuple[str, ...]) -> object:
    if isinstance(table, tuple):
        return len(table)
    return {key: len(value) if isinstance(value, tuple) else 1 for key, value in table.items()}
