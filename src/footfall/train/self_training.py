"""Self-training: a model labels what nobody labelled, the labels it is sure of are trained on, and again (card: ssrm).

    π_0 ← labelled;   round t:  kept_t = {pseudo-labels of π_t with confidence > τ},   π_{t+1} ← labelled ∪ kept_t

A pair is asked in both orders, p = (P(a₁ ≻ a₂) + 1 − P(a₂ ≻ a₁)) / 2, with confidence max(p, 1 − p). A trace is labelled
up to its first predicted error and is kept iff every step up to there has max(p, 1 − p) > τ: `Sure` does so as a judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from footfall.judging import Traits, traits
from footfall.registry import Declared, register
from footfall.store import Run
from footfall.train.active import read_by, without_labels
from footfall.train.config import TrainConfig
from footfall.types import Cost, Judge, Judged, Judgement, Problem, Reason, Trajectory, Unjudged, content_key

M = TypeVar("M")
R = TypeVar("R")


class PairLabel(NamedTuple):
    """Who is preferred, and how sure the model is of it."""

    first: bool
    confidence: float

    def sure(self, confidence: float = 0.8) -> bool:
        """Whether the pair is kept."""
        return self.confidence > confidence


def pair_label(p_first: float, p_first_swapped: float) -> PairLabel:
    """The label of a pair from P(a₁ preferred), asked with a₁ in the first place and with a₁ in the second.

    The mean of the two has no liking for a place: with a₁ and a₂ swapped the label flips and the confidence stays.
    """
    for p in (p_first, p_first_swapped):
        if not 0 <= p <= 1:
            raise ValueError(f"{p} is no probability")
    p = (p_first + p_first_swapped) / 2
    return PairLabel(p > 0.5, max(p, 1 - p))


_PREDICTED = Unjudged(Reason.AFTER_ERROR, "after the first predicted error")


def pseudo_label(judgement: Judgement, confidence: float = 0.8, threshold: float = 0.5) -> Judgement | None:
    """What a PRM says of a trace as hard labels up to its first predicted error; `None` if it is not sure of all of them."""
    labels: list[float | None] = []
    for value in judgement.values:
        if value is None or not max(value, 1 - value) > confidence:
            return None
        labels.append(float(value >= threshold))
        if value < threshold:
            break
    if not labels:
        return None
    rest = len(judgement.values) - len(labels)
    reasons = (None,) * len(labels) + (_PREDICTED,) * rest if rest else ()
    name = f"self({judgement.judge},confidence={confidence:g})"
    return Judgement(judgement.trajectory_id, (*labels, *(None,) * rest), name, failures=reasons)


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
        """Whose labels, and from which confidence on."""
        return f"ssrm({self.prm.name},confidence={self.confidence:g})"

    @property
    def traits(self) -> Traits:
        """It asks the PRM, and reads what that one reads."""
        return Traits((self.prm,), separators=traits(self.prm).separators)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The PRM's labels up to its first error, for traces of whose every step it is sure."""
        return [self._labelled(said) for said in self.prm.judge(trajectories)]

    def _labelled(self, said: Judgement) -> Judgement:
        sure = pseudo_label(said, self.confidence)
        if sure is not None:
            return replace(sure, judge=self.name, cost=said.cost)
        why = f"the PRM is not sure (above {self.confidence:g}) of every step up to its first predicted error"
        return without_labels(said, self.name, Unjudged(Reason.UNDECIDED, why))


@dataclass(frozen=True)
class Taught(Generic[M, R]):
    """One model of the loop: what it was trained on besides the labelled rows."""

    model: M
    kept: tuple[R, ...]


def self_training(
    labelled: Sequence[R],
    fit: Callable[[int, Sequence[R], M | None], M],
    teach: Callable[[int, M], Sequence[R]],
    rounds: int,
) -> list[Taught[M, R]]:
    """The loop for any model. `fit(round, rows, model before)` trains, `teach(round, model)` gives the rows it is sure of.

    It ends early when nothing is kept, or when no more is kept than in the round before: there is nothing new to learn.
    """
    found: list[Taught[M, R]] = [Taught(fit(0, labelled, None), ())]
    for number in range(1, rounds + 1):
        kept = tuple(teach(number, found[-1].model))
        if len(kept) <= len(found[-1].kept):
            break
        found.append(Taught(fit(number, [*labelled, *kept], found[-1].model), kept))
    return found


@dataclass(frozen=True)
class SelfTrained:
    """The models of all rounds, the first from labelled rows alone, and how many pseudo-labelled traces each had."""

    folders: tuple[Path, ...]
    kept: tuple[int, ...]
    cost: Cost = field(default_factory=Cost)

    @property
    def folder(self) -> Path:
        """The last model."""
        return self.folders[-1]


def self_train_prm(
    labelled: Sequence[Judged],
    unlabelled: Sequence[Trajectory],
    backbone: str | Path,
    config: TrainConfig,
    out: str | Path,
    *,
    confidence: float = 0.8,
    rounds: int = 2,
    from_previous: bool = False,
    against: Sequence[Problem] = (),
    chunk: int = 64,
) -> SelfTrained:
    """A PRM from a few labelled traces and many without labels. Each round starts from the backbone again, or from the
    last model's weights (`from_previous`). The same call goes on with a loop that was killed.
    """
    from footfall.train.data import data_key
    from footfall.train.prm import train_prm
    from footfall.train.run import TrainResult

    out = Path(out)
    identity = {
        "labelled": data_key(labelled), "unlabelled": content_key([t.key for t in unlabelled]),
        "backbone": str(backbone), "confidence": confidence, "rounds": rounds, "from_previous": from_previous,
        "config": config.to_dict(),
    }  # fmt: skip
    with Run(out, "self-train", identity) as run:

        def fit(number: int, rows: Sequence[Judged], before: TrainResult | None) -> TrainResult:
            start = before.folder if from_previous and before is not None else backbone
            return train_prm(rows, start, config, out / f"model-{number:02d}", against=against)

        def teach(number: int, model: TrainResult) -> list[Judged]:
            said = read_by(model.folder, run, f"round-{number:02d}", unlabelled, config.device, chunk)
            found = zip(unlabelled, (pseudo_label(judgement, confidence) for judgement in said), strict=True)
            return [Judged(trace, label) for trace, label in found if label is not None]

        taught = self_training(labelled, fit, teach, rounds)
        cost = Cost.total([run.cost, *(each.model.cost for each in taught)])
        kept = tuple(len(each.kept) for each in taught)
        run.finish({"folder": taught[-1].model.folder.parent.name, "kept": kept, "cost": cost.to_dict()})
    return SelfTrained(tuple(each.model.folder for each in taught), kept, cost)


@register(
    "labeller",
    "ssrm",
    Declared(
        judges=("prm",),
        missing="--set prm=FOLDER, the PRM whose labels are taken where it is sure (--set confidence=0.8)",
        unmeasured="its labels are those of a PRM of yours",
    ),
)
def ssrm(prm: Judge, confidence: float = 0.8) -> Sure:
    """Labels of a PRM where it is sure of every step up to its first predicted error (SSRM)."""
    return Sure(prm, confidence)
