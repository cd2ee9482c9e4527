"""What an algebra problem means: its equations, its kind and its solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias, cast, get_args

from footfall.types import Problem
from footfall.worlds._algebra_poly import Poly, constant
from footfall.worlds._algebra_relation import Relation, UnreadableError, read_relation

__all__ = ["Equations", "Kind", "algebra_of"]

Kind: TypeAlias = Literal["linear", "system", "quadratic"]


@dataclass(frozen=True)
class Equations:
    """The equations of one problem as they are written, and whether the text says them in words."""

    kind: Kind
    texts: tuple[str, ...]
    worded: bool
    answer: str
    solution: tuple[tuple[str, Fraction], ...]
    """The values of the unknowns; the roots of a quadratic one after the other."""

    given: tuple[Relation, ...] = field(init=False, repr=False, compare=False)
    meaning: Poly = field(init=False, repr=False, compare=False)
    """Of the first equation; for one unknown that is the whole problem."""

    def __post_init__(self) -> None:
        given = tuple(read_relation(text)[0] for text in self.texts)
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "meaning", given[0].meaning)

    @property
    def unknowns(self) -> tuple[str, ...]:
        return ("x", "y") if self.kind == "system" else ("x",)

    def holds(self, relation: Relation) -> bool:
        """Whether the relation has the problem's solutions: the same ones in one unknown, the one point in two."""
        if self.kind != "system":
            return relation.meaning == self.meaning
        values: dict[str, Poly] = {name: constant(value) for name, value in self.solution}
        return not relation.zero.at(**values).terms


def algebra_of(problem: Problem) -> Equations:
    """Read what `AlgebraWorld.problems` left in the problem's `meta`."""
    meta = problem.meta
    missing = [name for name in ("kind", "equations", "worded", "solution") if name not in meta]
    if missing:
        raise ValueError(
            f"problem {problem.id!r} is not of the algebra world: meta has no {missing[0]!r}; "
            "make problems with AlgebraWorld().problems(n, seed)"
        )
    if meta["kind"] not in get_args(Kind):
        raise ValueError(f"problem {problem.id!r}: meta['kind'] is {meta['kind']!r}; want one of {get_args(Kind)}")
    texts = tuple(str(text) for text in cast("Sequence[str]", meta["equations"]))
    solution = tuple(
        (str(name), Fraction(str(value))) for name, value in cast("Sequence[Sequence[str]]", meta["solution"])
    )
    if len(texts) != (2 if meta["kind"] == "system" else 1):
        raise ValueError(
            f"problem {problem.id!r}: meta['equations'] has {len(texts)}; want 2 for a system, otherwise 1"
        )
    try:
        return Equations(cast(Kind, meta["kind"]), texts, bool(meta["worded"]), str(problem.answer), solution)
    except UnreadableError as reason:
        raise ValueError(f"problem {problem.id!r}: meta['equations'] cannot be read: {reason}") from reason
