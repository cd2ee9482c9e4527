"""The contract between a search method and the searcher that runs it.

A method is written for one problem, as a generator: it yields requests, mostly through the helpers of its `Board`, is sent
what came of them, and returns its `Choice`. The searcher runs the generators of many problems side by side and puts what
they want in one round to the policy and to the judge as one batch. A method never sees another problem, draws random
numbers from `board.rng` alone, and so grows the same tree however many problems run together.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from footfall.types import Trajectory

if TYPE_CHECKING:
    from footfall.search.board import Board

__all__ = [
    "ROOT",
    "Ask",
    "BudgetSpent",
    "Choice",
    "Course",
    "Expand",
    "Method",
    "Request",
    "Score",
    "Wish",
    "described",
    "draws_independently",
]

ROOT = -1
"""The node of the empty prefix."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Expand:
    """Write after nodes: `n` samples each, one step or to the end. A node named twice gets different samples."""

    nodes: Sequence[int]
    n: int = 1
    until: Literal["step", "end"] = "step"
    score: bool = False
    """Judge what was written in the same breath: a sample with its judging is then one unit of the budget."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters that differ here, e.g. `{"temperature": 0, "max_tokens": 64}`."""
    policy: str = "policy"
    """Who writes, by role: "policy", or a key of the searcher's `helpers`."""
    judge: str = "judge"
    """Who judges, if `score`, by role."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Noted at each new node, e.g. `{"role": "lookahead"}`."""


@dataclass(frozen=True, slots=True)
class Score:
    """Judge the paths to nodes, or traces that are in no tree (fragments, other wordings)."""

    items: Sequence[int | Trajectory]
    partial: bool = False
    """The last step is unfinished: asked of `judge.judge_partial` where the judge has one, of `judge.judge` else."""
    judge: str = "judge"


@dataclass(frozen=True, slots=True)
class Ask:
    """Completions of any prefixes, outside the tree: a critic's words, another prompt, a rollout."""

    prefixes: Sequence[Trajectory]
    n: int = 1
    until: Literal["step", "end"] = "end"
    params: Mapping[str, Any] = field(default_factory=dict)
    policy: str = "policy"


Request: TypeAlias = Expand | Score | Ask


class BudgetSpent(Exception):
    """Thrown into a method at its request when nothing is left. It may still answer with what it has."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A method's answer: the node it chose, and the nodes it chose among with their scores."""

    node: int | None
    candidates: Sequence[int] = ()
    scores: Sequence[float | None] = ()
    answer: str | None = None
    """Only if it is not the one that the chosen trace states."""
    with_lost: bool = False
    """Put samples that failed or are empty behind the candidates, so that all that was drawn is there."""


Course: TypeAlias = Generator[Request, Any, Choice]
"""One problem's search."""
Wish: TypeAlias = Generator[Request, Any, R]
"""A part of a course that ends in an R: `children = yield from board.expand([node], 4)`."""


class Method(Protocol):
    """A way to search; its settings are its fields. Registered as `@register("searcher", NAME)`."""

    @property
    def name(self) -> str:
        """The method with its settings: two of one name search alike."""
        ...

    @property
    def judged(self) -> bool:
        """Whether it needs a judge. If not, none is asked, though there be one."""
        ...

    def search(self, board: Board) -> Course:
        """The search for one problem."""
        ...


def draws_independently(method: Method) -> bool:
    """Whether its candidates are independent samples of the policy, as many as it was told to draw, none selected.

    A method says so by an attribute `independent` that is true. One that steers, refines, or stops by what it has seen does not
    have it: the mean over its candidates is not the accuracy of one sample.
    """
    return bool(getattr(method, "independent", False))


def described(word: str, method: Any) -> str:
    """`beam-search(n=16,expansions=4)`: a name made of a dataclass's fields, for `Method.name`."""
    return f"{word}({','.join(f'{f.name}={getattr(method, f.name)}' for f in fields(method))})"
