"""What a world says of a step."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

__all__ = ["StepTruth", "first_wrong"]


class StepTruth(str, Enum):
    """The class of one step, given the steps before it."""

    RIGHT = "right"
    """True, and the trace is on the true path after it."""
    WRONG = "wrong"
    """An error is made here, or the step does no work."""
    CONSEQUENT = "consequent"
    """Right in itself, but built on an earlier error."""


def first_wrong(truths: Sequence[StepTruth]) -> int:
    """0-based index of the first error, -1 if there is none."""
    return next((i for i, truth in enumerate(truths) if truth is StepTruth.WRONG), -1)
