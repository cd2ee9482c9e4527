"""A place for the reference answer in a PRM's input (AURORA's reverse verification): filled where there is one, and said to be
empty where there is none, in the very words that the model was trained with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from footfall.label.prompted import NO_REFERENCE
from footfall.types import Judged, Message, Problem

__all__ = ["both_views", "reference_view"]

_LINE = "\n\nReference answer: "


def reference_view(problem: Problem, shown: bool = True) -> Problem:
    """The problem with the reference answer behind its question; without one, or not `shown`, with the fixed sentence."""
    line = _LINE + (problem.answer if shown and problem.answer is not None else NO_REFERENCE)
    if isinstance(problem.prompt, str):
        return replace(problem, prompt=problem.prompt + line)
    if not problem.prompt:
        return replace(problem, prompt=(Message("user", line.strip()),))
    *before, last = problem.prompt
    return replace(problem, prompt=(*before, replace(last, content=last.content + line)))


def both_views(rows: Sequence[Judged]) -> list[Judged]:
    """Each row with its reference in view and without: the same steps, the same labels, two inputs."""
    views = []
    for trajectory, judgement in rows:
        for shown in (True, False):
            name = f"{trajectory.id}/{'with' if shown else 'without'}-reference"
            seen = replace(trajectory, id=name, problem=reference_view(trajectory.problem, shown))
            views.append(Judged(seen, None if judgement is None else replace(judgement, trajectory_id=name)))
    return views
