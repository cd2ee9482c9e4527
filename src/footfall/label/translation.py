"""Step-labelled data in other languages: questions and steps are translated one by one, the labels are copied.

A translation with another number of steps, or with other numbers in a step or in the question, is none: the row is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from footfall.types import Judged, Trajectory
from footfall.worlds.multilingual import same_numbers, translate

Translator: TypeAlias = Callable[[Trajectory, str], Trajectory]
"""A trace and a language to the trace in that language."""


def translate_rows(
    rows: Sequence[Judged], languages: Sequence[str], translator: Translator = translate
) -> list[Judged]:
    """The rows, each in one of the languages by turns, so that their number stays the same but for what is dropped."""
    if not languages:
        raise ValueError("no language is given to translate into")
    found = []
    for i, (trajectory, judgement) in enumerate(rows):
        new = translator(trajectory, languages[i % len(languages)])
        if is_faithful(trajectory, new):
            found.append(Judged(new, None if judgement is None else replace(judgement, trajectory_id=new.id)))
    return found


def is_faithful(source: Trajectory, target: Trajectory) -> bool:
    """As many steps, and in the question and in each step the same numbers, whatever separates their decimals."""
    pairs = [(source.problem.text, target.problem.text)]
    pairs += [(old.text, new.text) for old, new in zip(source.steps, target.steps, strict=False)]
    return len(source.steps) == len(target.steps) and all(same_numbers(old, new) for old, new in pairs)
