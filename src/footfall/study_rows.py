"""What a study measures of a method: rows with a dial and budgets. Light, so that a method's own file can hold its rows.

A method declares its rows where it is registered (`footfall.registry.Declared.study`); a study collects them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["measured", "stand-in", "own traces", "reference"]
"""`stand-in`: a critic or tool of assumed quality takes part; `reference`: knows the truth or proves it, where that can
be done; `own traces`: labels what it writes itself, so that it cannot be held against the others."""

FREE = "free"
"""The dial of methods that have none and generate nothing."""
ROLLOUTS = (2.0, 4.0, 8.0, 16.0, 32.0)
VOTES = (1.0, 3.0, 5.0, 9.0)
NEVER = 0.01
"""The threshold of trees that call wrong what never succeeds: below every share of successes but 0."""
WIDTHS = (4, 16, 64)
"""What all searchers with a number of candidates are measured at; one sample for those that can take one."""


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A method, or a variant of it, with its dial and the budgets that it is measured at, from cheap to dear."""

    name: str = ""
    """Nothing: that of the method which declares the row."""
    part: str = ""
    """The registered name of the method; whoever collects rows fills it in."""
    dial: str = FREE
    budgets: Sequence[float] = (0.0,)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Settings beside the dial."""
    settings: Callable[[Any], Mapping[str, Any]] | None = None
    """All settings that a budget stands for, where they are not the dial as a whole number beside the fixed ones."""
    make: Callable[[Any, float], Any] | None = None
    """The method of a study's setting and a budget, where it is more than the registered part with these settings."""
    kind: Kind = "measured"
    threshold: float = 0.5
    """The labeller's own: a step valued below it is called wrong."""
    value: str | None = None
    """What estimates the value of the prefix: `values`, or the name of an aspect."""
    probability: bool = True
    """Whether labels lie in [0, 1], so that they can be calibrated."""
    logprobs: bool = False
    """Whether traces and rollouts need the log-probabilities of their tokens."""
    worlds: tuple[str, ...] | None = None
    """The only worlds that the method knows."""
    place: int = 1000
    """In the tables, among the rows of its kind, the lower the earlier; rows of one place stand by name."""

    @property
    def method(self) -> str:
        """The registered name of the method."""
        return self.part or self.name

    def at(self, budget: float) -> dict[str, Any]:
        """The settings of the registered part at a budget."""
        if self.settings is not None:
            return dict(self.settings(budget))
        return {**({} if self.dial == FREE else {self.dial: int(budget)}), **self.fixed}


def label_row(
    place: int = 1000, name: str = "", dial: str = "rollouts", budgets: Sequence[float] = ROLLOUTS, **more: Any
) -> StudyRow:
    """A labeller's row; rolls out unless it says otherwise."""
    return StudyRow(name, "", dial, budgets, place=place, **more)


def search_row(
    place: int = 1000, name: str = "", dial: str = "n", budgets: Sequence[int] = WIDTHS, **more: Any
) -> StudyRow:
    """A searcher's row; draws so many candidates unless it says otherwise. Settings by the name of a field are fixed."""
    own = {key: more.pop(key) for key in ("settings",) if key in more}
    return StudyRow(name, "", dial, budgets, fixed=more, place=place, **own)
