"""Labels by how sure a PRM is: what it is sure of it labels itself, what it doubts another judge labels (cards: ssrm, actprm).

    Sure       SSRM's step: pseudo-labels of a PRM up to its first predicted error, if each has max(p, 1 − p) > confidence
    Doubted    ActPRM's step: the traces that an ensemble of heads is unsure of, labelled by a judge up to the first error
    FirstError PRM800K's form of labels: good before the first error, bad at it, nothing after it

Each is one round of its system over a file; the loops that train in between are `footfall.train.self_training` and
`footfall.train.active`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from footfall.judging import Traits, traits
from footfall.train.active import Uncertain, until_first_error
from footfall.train.self_training import pseudo_label
from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged


@dataclass(frozen=True)
class Sure:
    """Hard labels of a PRM that is sure of every step up to its first predicted error; other traces have none."""

    prm: Judge
    confidence: float = 0.8

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(
                f"confidence={self.confidence:g}: it is from 0.5 to below 1, for it is that of two choices"
            )

    @property
    def name(self) -> str:
        return f"ssrm({self.prm.name},confidence={self.confidence:g})"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Those that it asks: what they cost is what it costs."""
        return (self.prm,)

    @property
    def traits(self) -> Traits:
        return Traits((self.prm,), separators=traits(self.prm).separators)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [self._labelled(said) for said in self.prm.judge(trajectories)]

    def _labelled(self, said: Judgement) -> Judgement:
        sure = pseudo_label(said, self.confidence)
        if sure is not None:
            return replace(sure, judge=self.name, cost=said.cost)
        why = f"the PRM is not sure (above {self.confidence:g}) of every step up to its first predicted error"
        return _silent(said, self.name, Unjudged(Reason.UNDECIDED, why))


@dataclass(frozen=True)
class Doubted:
    """A judge's labels, up to the first error, of the traces that a PRM of several heads is unsure of; others have none."""

    prm: Judge
    judged_by: Judge
    confidence: float = 0.95
    spread: float = 0.005

    @property
    def name(self) -> str:
        rule = f"confidence={self.confidence:g},spread={self.spread:g}"
        return f"actprm({self.judged_by.name};{self.prm.name},{rule})"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Those that it asks."""
        return self.judged_by, self.prm

    @property
    def traits(self) -> Traits:
        return Traits((self.judged_by, self.prm), separators=traits(self.prm).separators)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        said = self.prm.judge(trajectories)
        unsure = Uncertain(self.confidence, self.spread).keep(trajectories, said)
        asked = iter(self.judged_by.judge([t for t, kept in zip(trajectories, unsure, strict=True) if kept]))
        why = Unjudged(Reason.NOT_ASKED, "the PRM is sure of this trace, so it is not worth a label")
        return [
            self._labelled(next(asked), read.cost) if kept else _silent(read, self.name, why)
            for read, kept in zip(said, unsure, strict=True)
        ]

    def _labelled(self, said: Judgement, read: Cost) -> Judgement:
        return replace(until_first_error(said), judge=self.name, cost=said.cost + read)


@dataclass(frozen=True)
class FirstError:
    """What a judge says, as people labelled PRM800K: 1 before the first step below `threshold`, 0 at it, none after it."""

    judged_by: Judge
    threshold: float = 0.5

    @property
    def name(self) -> str:
        return f"prm800k({self.judged_by.name},threshold={self.threshold:g})"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """Whom it asks."""
        return (self.judged_by,)

    @property
    def traits(self) -> Traits:
        return Traits((self.judged_by,), separators=traits(self.judged_by).separators)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        said = self.judged_by.judge(trajectories)
        return [replace(until_first_error(each, self.threshold), judge=self.name) for each in said]


def _silent(said: Judgement, judge: str, why: Unjudged) -> Judgement:
    n = len(said.values)
    reasons = tuple(said.failure(k) or why for k in range(n))
    return Judgement(said.trajectory_id, (None,) * n, judge, failures=reasons, cost=said.cost)
