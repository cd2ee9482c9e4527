"""Two judges side by side: the values of one, and what the other says as an aspect (card: birm).

BiRM learns two things of a step: the chance to reach the right answer from it (Monte Carlo values), and whether the step is
right (a critic's verdicts). `Beside` writes both into one judgement; the objective `value-and-reward` reads them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from footfall.label.consensus import judge_by_name
from footfall.policy.protocol import Policy, SamplingParams
from footfall.registry import Declared, register
from footfall.types import Judge, Judgement, Trajectory


@dataclass(frozen=True)
class Beside:
    """What `values` says, with the values of `other` as the aspect of that name. A step may have the one without the other."""

    values: Judge
    other: Judge
    aspect: str = "reward"

    @property
    def name(self) -> str:
        return f"beside({self.values.name};{self.aspect}={self.other.name})"

    @property
    def judges(self) -> tuple[Judge, Judge]:
        """Those that it is made of: what they cost is what it costs."""
        return self.values, self.other

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """The first judge's values, with the other's as an aspect."""
        pairs = zip(self.values.judge(trajectories), self.other.judge(trajectories), trajectories, strict=True)
        return [self._joined(one.check(t), two.check(t)) for one, two, t in pairs]

    def _joined(self, one: Judgement, two: Judgement) -> Judgement:
        aspects = {**one.aspects, self.aspect: two.values}
        return replace(one, judge=self.name, aspects=aspects, cost=one.cost + two.cost)


@register(
    "labeller",
    "beside",
    Declared(
        unmeasured="its values are those of another row, with a second judge as an aspect",
        systems={"birm": {"judges": "monte-carlo,critic", "aspect": "reward"}},
    ),
)
def beside(
    policy: Policy,
    judges: str = "monte-carlo,critic",
    aspect: str = "reward",
    params: SamplingParams = SamplingParams(),
) -> Beside:
    """Two judges, with a comma between: the first gives the values, the second the aspect `reward` (labels of BiRM).

    Both take the same policy and sampling parameters, so far as they take any; others are put together in Python:
    `Beside(a, b)`.
    """
    names = [name.strip() for name in judges.split(",")]
    if len(names) != 2:
        raise ValueError(f"judges names two judges with a comma between, not {judges!r}")
    values, other = (judge_by_name(name, policy=policy, params=params) for name in names)
    return Beside(values, other, aspect)
