"""FreePRM's pseudo labels (arXiv 2506.03570): every step is given the outcome of its solution.

They cost nothing and are wrong for the good steps of a wrong solution; the objective that goes with them absorbs that
noise. Only the last step's label is true: the aspect `pseudo` is 0 there and 1 before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from footfall.answers import grade
from footfall.drive.rollouts import unlabelled
from footfall.registry import Declared, StudyRow, register
from footfall.types import Judgement, Reason, Trajectory, Unjudged


@dataclass(frozen=True)
class OutcomeLabels:
    """ŷ_t = y for all t. A trace whose outcome is not known, or that states no answer, stays unlabelled."""

    name: str = "freeprm"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The outcome of the trace at every step; a trace without one has no label."""
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        n = len(trajectory.steps)
        trace = trajectory if trajectory.correct is not None else grade(trajectory)
        if trace.correct is None or (trace.answer is None and not trace.correct):
            lacking = "reference answer, so no outcome" if trace.correct is None else "answer in the trace"
            return unlabelled(trace, self.name, Unjudged(Reason.NO_REFERENCE, f"there is no {lacking}"))
        pseudo = tuple(float(k < n - 1) for k in range(n))
        return Judgement(trace.id, (float(trace.correct),) * n, self.name, aspects={"pseudo": pseudo})


@register("labeller", "freeprm", Declared(study=(StudyRow(place=90),)))
def freeprm() -> OutcomeLabels:
    """Every step has the outcome of its trace (FreePRM's pseudo labels)."""
    return OutcomeLabels()
