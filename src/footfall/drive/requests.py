"""What a generator may ask the driver for.

A labeller's plan or a search is a generator for one trace or problem: it yields a request, is sent what came of it, and
returns its result. The driver (`footfall.drive.driver`) runs many side by side. What can be asked for is a class here, and the
driver has a phase of its round for it: `Write` and `Reread` are put to policies, `Score` to judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from footfall.types import Trajectory

ROOT = -1
"""The node of the empty prefix."""
Item: TypeAlias = int | Trajectory
"""A node of the tree that grows, or a trace that is in no tree (a critic's question, a fragment, another wording)."""
Until: TypeAlias = Literal["step", "end"]


@dataclass(frozen=True, slots=True)
class Write:
    """Write after nodes or traces: `n` samples each, one step or to the end. An item named twice gets different samples.

    A sample after a node becomes a node; one after a trace stays outside the tree.
    """

    items: Sequence[Item]
    n: int = 1
    until: Until = "step"
    score: bool = False
    """Judge what was written after nodes in the same breath: a sample with its judging is then one unit of the budget."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters that differ here, e.g. `{"temperature": 0, "max_tokens": 64}`."""
    policy: str = "policy"
    """Who writes, by role."""
    judge: str = "judge"
    """Who judges, if `score`, by role."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Noted at each new node, e.g. `{"role": "lookahead"}`."""
    first: Sequence[int] | None = None
    """The index of each item's first sample. `None`: those that the generator has not used yet."""


@dataclass(frozen=True, slots=True)
class Score:
    """Judge the paths to nodes, or traces that are in no tree."""

    items: Sequence[Item]
    partial: bool = False
    """The last step is unfinished: read as such by a judge that can (`Traits.judge_partial`)."""
    judge: str = "judge"
    """Who judges, by role."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What a policy thought before each token of traces, for one that can say (`footfall.label.edu_prm.TokenWriter`)."""

    items: Sequence[Item]
    policy: str = "policy"
    """Who wrote, by role."""


Request: TypeAlias = Write | Score | Reread


class Unit(NamedTuple):
    """One item of a request, or one sample of it: `slot` is the item's place, `sample` its index after the prefix `key`."""

    slot: int
    item: Item
    sample: int = 0
    key: str = ""


class BudgetSpent(Exception):
    """Thrown into a generator at its request when nothing is left. It may still answer with what it has."""
