"""A judge that errs at given rates: what a critic would say of a world's traces, with the truth known.

Of each step the truth says right (1) or wrong (0). With probability `false_positive` a wrong step passes as right, with
probability `false_negative` a right one is called wrong, with probability `silent` nothing is said. What happens at a step
depends on the seed and the text up to there alone, so the same trace is always judged the same, in any batch. A critic
writes before it says anything: `price` is what that counts for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from footfall.registry import Declared, register
from footfall.study_rows import VOTES, StudyRow, label_row
from footfall.types import Cost, Judge, Judgement, Reason, Trajectory, Unjudged, content_key, failures_of
from footfall.worlds import TruthJudge
from footfall.worlds.judges import truth_of


def chance(*parts: object) -> float:
    """A number in [0, 1) that is drawn by content: the same for the same parts."""
    return int(content_key("chance", *parts)[:13], 16) / 16**13


@dataclass(frozen=True)
class Noisy:
    """Flips what another judge says. A step that the other left unlabelled stays so, with its reason."""

    truth: Judge = field(default_factory=TruthJudge)
    false_positive: float = 0.1
    """Share of the wrong steps that are called right."""
    false_negative: float = 0.1
    """Share of the right steps that are called wrong."""
    silent: float = 0.0
    seed: int = 0
    price: int = 0
    """Generated tokens that a trace costs for each of its steps."""

    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError(f"price is a number of tokens, not {self.price}")
        for name in ("false_positive", "false_negative", "silent"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, not {getattr(self, name)}")

    @property
    def name(self) -> str:
        """Its error rates and seed, and whose truth it bends."""
        rates = f"fp={self.false_positive:g},fn={self.false_negative:g},silent={self.silent:g}"
        priced = f",price={self.price}" if self.price else ""
        return f"noisy({rates},seed={self.seed}{priced},{self.truth.name})"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The truth of each step, with errors drawn from the seed and the prefix."""
        said = self.truth.judge(trajectories)
        return [self._flip(t, judgement) for t, judgement in zip(trajectories, said, strict=True)]

    def _flip(self, trajectory: Trajectory, truth: Judgement) -> Judgement:
        values: list[float | None] = []
        failures: list[Unjudged | None] = []
        for k, true in enumerate(truth.check(trajectory).values):
            key = trajectory.prefix(k + 1).key
            if true is None:
                failures.append(truth.failure(k) or Unjudged(Reason.UNCHECKABLE, "no truth is known"))
                values.append(None)
            elif chance(self.seed, key, "silent") < self.silent:
                failures.append(Unjudged(Reason.UNDECIDED, "the noisy judge is silent"))
                values.append(None)
            else:
                rate = self.false_negative if true >= 0.5 else self.false_positive
                wrong = chance(self.seed, key, "flip") < rate
                failures.append(None)
                values.append(float((true >= 0.5) != wrong))
        cost = truth.cost + Cost(generated_tokens=self.price * len(values))
        return Judgement(trajectory.id, tuple(values), self.name, failures=failures_of(failures), cost=cost)


def _critic(place: int, percent: int) -> StudyRow:
    """A critic of a study that is wrong on so many percent of the steps; the dial is how many of its votes are counted."""
    return label_row(
        place, f"critic-{percent}", "votes", VOTES, kind="stand-in",
        make=lambda setting, n: setting.votes(percent / 100, int(n)),
    )  # fmt: skip


@register("labeller", "noisy", Declared(study=(_critic(100, 30), _critic(101, 20), _critic(102, 10))))
def noisy(
    false_positive: float = 0.1,
    false_negative: float = 0.1,
    silent: float = 0.0,
    seed: int = 0,
    world: str = "arithmetic",
    price: int = 0,
) -> Noisy:
    """The truth of a world with given error rates: a stand-in for a critic."""
    return Noisy(truth_of(world), false_positive, false_negative, silent, seed, price)
