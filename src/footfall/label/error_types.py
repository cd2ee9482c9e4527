"""PathFinder-PRM's three labels of a step (arXiv 2505.19706): A its mathematics, B its consistency, C that it leads on.

    rating +1 → (1, 1, 1),   0 → (1, 1, 0),   −1 → what a judge says, asked again while it says (1, 1, 1), three times in all

The step's value is 1 if and only if all three are; A and B are the aspects `math` and `consistency`, which train the objective
`error-types`. A step of which the judge denies three times what the rating says has no label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged, failures_of

KINDS = ("math", "consistency", "progress")
"""Aspects of a judge that types errors; one without `progress` says nothing against it."""
DENIED = Unjudged(Reason.UNDECIDED, "rated wrong, and no judge says what is")
Labels = tuple[float, ...]


def three_labels(rating: float, said: Iterable[Labels | None]) -> Labels | None:
    """(A, B, C) of a rated step; `said` is what a judge answers each time it is asked, None where that cannot be read."""
    if rating > 0:
        return (1.0, 1.0, 1.0)
    if rating == 0:
        return (1.0, 1.0, 0.0)
    return next((labels for labels in said if labels is not None and 0 in labels), None)


@dataclass(frozen=True)
class ErrorTypes:
    """Ratings in {1, 0, −1} by one judge, and the kind of each error by others, each asked where those before did not say."""

    ratings: Judge
    attempts: tuple[Judge, ...]

    @property
    def name(self) -> str:
        return f"error-types({self.ratings.name};{','.join(judge.name for judge in self.attempts)})"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Those that it is made of: what they cost is what it costs."""
        return self.ratings, *self.attempts

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Whether each step is good in all, with `math` and `consistency` as aspects."""
        rated = self.ratings.judge(trajectories)
        found = [[None if r is None else three_labels(r, ()) for r in said.values] for said in rated]
        costs = [said.cost for said in rated]
        for judge in self.attempts:
            open_ = [
                n for n, (labels, said) in enumerate(zip(found, rated, strict=True))
                if any(label is None and r is not None for label, r in zip(labels, said.values, strict=True))
            ]  # fmt: skip
            for n, typed in zip(open_, judge.judge([trajectories[n] for n in open_]), strict=True):
                costs[n] += typed.cost
                for k, rating in enumerate(rated[n].values):
                    if found[n][k] is None and rating is not None:
                        found[n][k] = three_labels(rating, [_said(typed, k)])
        return [self._judgement(*row) for row in zip(trajectories, rated, found, costs, strict=True)]

    def _judgement(self, trace: Trajectory, rated: Judgement, found: list[Labels | None], cost: Cost) -> Judgement:
        columns = {
            kind: tuple(None if labels is None else labels[k] for labels in found) for k, kind in enumerate(KINDS[:2])
        }
        values = tuple(None if labels is None else float(all(labels)) for labels in found)
        known = rated.failures or (None,) * len(values)
        lacking = [
            None if value is not None else why if rating is None else DENIED
            for value, why, rating in zip(values, known, rated.values, strict=True)
        ]
        return Judgement(
            trace.id, values, self.name, aspects=columns, failures=failures_of(lacking), cost=cost
        ).check(trace)  # fmt: skip


def _said(typed: Judgement, step: int) -> Labels | None:
    labels = [typed.aspects.get(kind, (1.0,) * len(typed.values))[step] for kind in KINDS]
    known = tuple(label for label in labels if label is not None)
    return known if len(known) == len(KINDS) else None
