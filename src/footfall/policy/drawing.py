"""Graded traces from a policy: what sampling, searching and the demo all begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from footfall.answers import grade
from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Trajectory

__all__ = ["draw_traces", "finished"]


def draw_traces(
    policy: Policy, prefixes: Sequence[Trajectory], n: int, params: SamplingParams
) -> list[list[Trajectory]]:
    """`n` graded traces for each prefix, in order."""
    drawn = policy.sample(prefixes, n, params)
    return [[finished(prefix, c, policy.name) for c in row] for prefix, row in zip(prefixes, drawn, strict=True)]


def finished(prefix: Trajectory, completion: Completion, author: str) -> Trajectory:
    """The graded trace; a sample that failed has no verdict but its reason, for it is not a wrong solution."""
    written = completion.after(prefix, author)
    if completion.finish == "error":
        return replace(written, meta={**written.meta, "error": completion.error or "the policy gave no reason"})
    return grade(written)
