"""What a judge declares of itself, in one place: whom it asks, what it writes at most, what it can read.

A judge needs no more than a name and `judge`. One that can say more of itself has a property `traits`:

    @property
    def traits(self) -> Traits:
        return Traits(threshold=0.5, at_most=self._at_most)

Of a judge without `traits` a plain attribute `threshold` counts as that trait. Whoever runs judges asks `traits(judge)` and
gets an answer from any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import NamedTuple, TypeAlias

from footfall.types import Judged, Judgement, Trajectory, Unjudged


class Bound(NamedTuple):
    """The most that judging one trace takes."""

    tokens: float
    """Generated."""
    calls: float
    choices: int = 0
    """Of the calls: those that are counted by what they read, the question and all that was written."""


UNKNOWN = Bound(math.inf, math.inf)


IdleSettings: TypeAlias = tuple[tuple[str, str], ...]
"""Settings that do nothing beside the others that a part was made with, and what they are for: `idle` of judges, searchers,
credits and filters, and of a reward. Who lets users name settings refuses one that was given (`refuse_idle`)."""


def idle_settings(*cases: tuple[bool, str, str]) -> IdleSettings:
    """Of settings and what they are for, those that do nothing."""
    return tuple((name, meant_for) for idle, name, meant_for in cases if idle)


def refuse_idle(part: object, asked: Container[str], what: str, spelled: Callable[[str], str]) -> None:
    """Refuse a setting that was asked for and does nothing beside the part's others; `spelled`: how its user said it."""
    for option, meant_for in getattr(part, "idle", ()):
        if option in asked:
            as_it_is = f": {part.name}" if hasattr(part, "name") else ""
            raise ValueError(
                f"{what} has no use for {spelled(option)} as it is set{as_it_is}; it is for {meant_for}; leave it out"
            )


@dataclass(frozen=True)
class Traits:
    """Parts and capabilities of a judge. What is left out has the meaning of a judge that says nothing."""

    parts: tuple[object, ...] | None = None
    """Judges and policies that it asks. `None`: those that its dataclass fields hold."""
    threshold: float | None = None
    """A step valued below is an error, by the judge's own account."""
    at_most: Callable[[int | None], Bound | None] | None = None
    """What it writes for a trace of so many steps (`None`: of any number); the result `None` is no limit. One that only reads
    needs no bound."""
    judge_partial: Callable[[Sequence[Trajectory]], list[Judgement]] | None = None
    """Reads traces whose last step is unfinished. Without it they are judged as if they were whole."""
    prepare: Callable[[Sequence[Trajectory]], Sequence[Trajectory]] | None = None
    """Cuts all traces of a data set anew before any of them is judged."""
    settle: Callable[[Sequence[Judged]], Sequence[Judged]] | None = None
    """Takes labels away when all rows of a data set have them, for what only shows then, as balance does."""
    refusal: Callable[[Trajectory], Unjudged | None] | None = None
    """Why a trace cannot be judged, whatever is asked about it."""
    separators: tuple[str, ...] = ()
    """What stood after each step of the traces it was trained on; if it is one, it reads all traces so (`as_trained`)."""
    trained_on: str | None = None
    """The content of the traces and labels that it was trained on (`footfall.train.data`), if it is known."""
    counts_tokens: bool = True
    """Whether the costs of its judgements hold the tokens that were read and written."""
    repeats: tuple[tuple[str, int], ...] = ()
    """How often it, or a labeller of trees, has one text written on: the settings that say so, and their numbers. Written
    greedily, all of these are the same."""
    compares: bool = False
    """Whether what it says of a trace depends on the others of its problem in the same call: they are never put to it apart."""


_SILENT = Traits()


def traits(judge: object) -> Traits:
    """What the judge declares; nothing if it declares nothing."""
    found = getattr(judge, "traits", None)
    if found is None:
        own = getattr(judge, "threshold", None)
        return Traits(threshold=float(own)) if isinstance(own, int | float) and not isinstance(own, bool) else _SILENT
    assert isinstance(found, Traits), f"{type(judge).__name__}.traits is a {type(found).__name__}, no Traits"
    return found


def parts_of(judge: object) -> tuple[object, ...]:
    """The judges and policies that a judge asks: those it declares, or those that its dataclass fields hold."""
    declared = traits(judge).parts
    if declared is not None:
        return declared
    return tuple(_held(judge)) if is_dataclass(judge) else ()


def _held(judge: object) -> Iterator[object]:
    for field in fields(judge):  # type: ignore[arg-type]
        value = getattr(judge, field.name)
        for each in value if isinstance(value, tuple | list) else (value,):
            if hasattr(each, "judge") or hasattr(each, "sample"):
                yield each


def all_parts(*judges: object) -> list[object]:
    """These judges and all that they are made of, each once."""
    found: dict[int, object] = {}
    waiting = [judge for judge in judges if judge is not None]
    while waiting:
        each = waiting.pop(0)
        if id(each) not in found:
            found[id(each)] = each
            waiting += parts_of(each)
    return list(found.values())


def compares(judge: object) -> bool:
    """Whether the judge, or one that it is made of, holds the traces of a problem against each other."""
    return any(traits(each).compares for each in all_parts(judge))


def chunks_of(judge: object, trajectories: Sequence[Trajectory], size: int) -> int | list[int]:
    """Traces a chunk of those that are put to the judge one chunk at a time, or how many each has.

    Where it compares those of a problem, no chunk ends among them: each goes on from as many as are wanted to where no problem
    does.
    """
    if size < 1 or not compares(judge):
        return size
    numbers: dict[str, int] = {}
    problems = [numbers.setdefault(t.problem.text, len(numbers)) for t in trajectories]
    last = {problem: place for place, problem in enumerate(problems)}
    sizes, begun, within = [], 0, 0
    for end, problem in enumerate(problems, 1):
        within = max(within, last[problem] + 1)
        if end == len(problems) or (end == within and end - begun >= size):
            sizes.append(end - begun)
            begun = end
    return sizes


def bound_of(judge: object, steps: int | None) -> Bound | None:
    """What judging a trace of so many steps writes at most; `None` if the judge says nothing, `UNKNOWN` if there is no limit.

    A judge around a single other one writes what that one does.
    """
    at_most = traits(judge).at_most
    if at_most is not None:
        return at_most(steps) or UNKNOWN
    inside = parts_of(judge)
    return bound_of(inside[0], steps) if len(inside) == 1 and hasattr(inside[0], "judge") else None


def read_partial(judge: object, trajectories: Sequence[Trajectory]) -> list[Judgement]:
    """Judge traces whose last step is unfinished, as such if the judge can."""
    read: Callable[[Sequence[Trajectory]], list[Judgement]] = traits(judge).judge_partial or judge.judge  # type: ignore[attr-defined]
    return read(trajectories)


def as_trained(separators: Sequence[str], trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The traces with the step end that a judge was trained with, if that is one only.

    A PRM reads a step's value at the step's end, so it must find there what it has always found. Steps that hold their own
    ends (the separator is empty) tell nothing of those of other traces.
    """
    if len(separators) != 1 or not separators[0]:
        return list(trajectories)
    return [t if t.separator == separators[0] else _separated(t, separators[0]) for t in trajectories]


def _separated(trajectory: Trajectory, separator: str) -> Trajectory:
    """Sampled ids hold the old separator, so they go."""
    steps = tuple(step.without_ids() for step in trajectory.steps)
    return replace(trajectory, steps=steps, separator=separator, tokenizer=None)


def forget(*owners: object) -> None:
    """Drop what judges and policies, and all that they are made of, have cached."""
    _tell("forget", owners)


def keep_nothing(*owners: object) -> None:
    """Tell judges, and all that they are made of, that what one call reads no other asks for again."""
    _tell("keep_nothing", owners)


def _tell(what: str, owners: Sequence[object]) -> None:
    for each in all_parts(*owners):
        told = getattr(each, what, None)
        if told is not None:
            told()
