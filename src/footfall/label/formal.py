"""Formal labels (FoVer, arXiv 2505.15960): a step is read, written as a formula, and put to a tool that can prove it.

    domain logic      premises ∧ ¬conclusion has no model                        Z3
    domain code       the program passes its tests, or one changed line mends it sandboxed Python
    anything else     every equation in the step holds or follows                exact arithmetic, computer algebra

Nobody is asked and nothing is sampled. The label is local: 1 for a step that is right by itself, even if it is built on an
earlier error; the final answer is compared with the reference. A step that cannot be read has no label, and the reason;
neither has one whose false equation may be meant otherwise (units, remainders, rounding).
An equation between numbers that is true may still be the wrong one to write: that is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from footfall.formal import verdicts
from footfall.registry import Declared, StudyRow, register
from footfall.simulate import chance
from footfall.tools import Sandbox
from footfall.types import Judged, Judgement, Reason, Trajectory, Unjudged, failures_of


@dataclass(frozen=True)
class Formal:
    """Labels steps by proof, computer algebra or execution, as the problem's domain asks."""

    sandbox: Sandbox = field(default_factory=Sandbox)

    @property
    def name(self) -> str:
        return "formal"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """Each step as a formula, put to the tool of the problem's domain."""
        return [self._judge(trajectory) for trajectory in trajectories]

    def _judge(self, trajectory: Trajectory) -> Judgement:
        said = verdicts(trajectory, self.sandbox)
        failures = failures_of(_unchecked(reason) if holds is None else None for holds, reason in said)
        return Judgement(
            trajectory.id,
            tuple(None if holds is None else float(holds) for holds, _ in said),
            self.name,
            rationales=tuple(None if holds is None else reason for holds, reason in said),
            failures=failures,
        ).check(trajectory)


_BALANCE = Unjudged(Reason.NOT_ASKED, "left out for balance")


def _unchecked(reason: str) -> Unjudged:
    return Unjudged(Reason.UNCHECKABLE, reason)


def balanced(rows: Sequence[Judged], seed: int = 0) -> list[Judged]:
    """As many right as wrong labels (FoVer trains on last steps that are balanced so): those to spare are taken away."""
    places = [(i, k, value) for i, row in enumerate(rows) for k, value in enumerate(_values(row)) if value is not None]
    sides = [[place for place in places if (place[2] >= 0.5) == right] for right in (True, False)]
    most = min(map(len, sides))
    kept = {
        (i, k)
        for side in sides
        for i, k, _ in sorted(side, key=lambda place: chance(seed, rows[place[0]].trajectory.id, place[1]))[:most]
    }
    return [_masked(i, row, kept) for i, row in enumerate(rows)]


def _values(row: Judged) -> tuple[float | None, ...]:
    return () if row.judgement is None else row.judgement.values


def _masked(i: int, row: Judged, kept: set[tuple[int, int]]) -> Judged:
    judgement = row.judgement
    if judgement is None:
        return row
    values = tuple(value if (i, k) in kept else None for k, value in enumerate(judgement.values))
    told = judgement.failures or (None,) * len(values)
    why = failures_of(
        reason or (None if value is not None else _BALANCE) for value, reason in zip(values, told, strict=True)
    )
    return Judged(row.trajectory, replace(judgement, values=values, failures=why))


@register(
    "labeller",
    "formal",
    Declared(
        study=(StudyRow(kind="reference", worlds=("arithmetic", "logic", "algebra", "code"), place=180),),
        systems={"fover": {}},
    ),
)
def formal() -> Formal:
    """Z3 on deductions, computer algebra on equations, execution on code (FoVer)."""
    return Formal()
