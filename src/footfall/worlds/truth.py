"""What a world says of a step: its class, and the reason where it gives one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from footfall.types import Step

T = TypeVar("T")
S = TypeVar("S")


class StepTruth(str, Enum):
    """The class of one step, given the steps before it."""

    RIGHT = "right"
    """True, and the trace is on the true path after it."""
    WRONG = "wrong"
    """An error is made here, or the step does no work."""
    CONSEQUENT = "consequent"
    """Right in itself, but built on an earlier error."""


class Said(NamedTuple):
    """What a world makes of a step: its class, or `None` if it cannot be read, and why."""

    truth: StepTruth | None
    reason: str


class UnreadableError(Exception):
    """A text cannot be read; the message is the reason."""


def first_wrong(truths: Sequence[StepTruth]) -> int:
    """0-based index of the first error, -1 if there is none."""
    return next((i for i, truth in enumerate(truths) if truth is StepTruth.WRONG), -1)


def worst(found: list[Said]) -> Said:
    """A step is as bad as the worst thing it says; what could not be read leaves a step without error open."""
    for truth in (StepTruth.WRONG, None, StepTruth.CONSEQUENT, StepTruth.RIGHT):
        for said in found:
            if said.truth is truth:
                return said
    return Said(None, "the step says nothing that can be read")


def read_steps(read: Callable[[S, str], tuple[T, S]], state: S, steps: Sequence[Step]) -> tuple[list[T], S]:
    """What `read` makes of each step in the state that the steps before it left, and the state after the last one."""
    found = []
    for step in steps:
        said, state = read(state, step.text)
        found.append(said)
    return found, state
