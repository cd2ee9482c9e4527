"""PAV's rule for search: the value of a step and its progress under Best-of-K, by hand; what beam search keeps by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from footfall.judging import traits
from footfall.search import EffectiveReward
from footfall.types import Judge, Judgement, Problem, Reason, Step, Trajectory, Unjudged, failures_of


@dataclass(frozen=True)
class Says:
    """A judge that says these values of every trace."""

    values: tuple[float | None, ...]
    threshold: float = 0.5
    name: str = "says"
    failures: tuple[Unjudged | None, ...] = field(default=())
    initial: float | None = None

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [
            Judgement(t.id, self.values[: len(t.steps)], self.name, failures=self.failures, initial=self.initial)
            for t in trajectories
        ]


def said(judge: Judge, steps: int) -> Judgement:
    trace = Trajectory("t", Problem("p", "1 + 1?"), tuple(Step(f"step {k}") for k in range(steps)))
    return judge.judge([trace])[0].check(trace)


def test_a_step_has_its_value_and_its_progress_under_the_prover() -> None:
    """Best-of-2 of .5, .8, .2 are .75, .96, .36: progress .21 and −.6."""
    found = said(EffectiveReward(Says((0.8, 0.2)), k=2, alpha=0.5), 2)
    assert found.values == pytest.approx((0.8 + 0.105, 0.2 - 0.3))
    assert found.aspects["raw"] == (0.8, 0.2) and found.judge == "effective-reward(k=2,alpha=0.5,start=0.5,says)"


def test_of_two_steps_of_one_value_the_one_that_made_progress_is_worth_more() -> None:
    """Q alone cannot tell them apart."""
    rose, fell = (said(EffectiveReward(Says((before, 0.5))), 2).values[-1] for before in (0.2, 0.9))
    assert rose is not None and fell is not None and rose > 0.5 > fell


def test_without_weight_it_is_the_judge_itself_and_the_start_moves_first_steps_alike() -> None:
    assert said(EffectiveReward(Says((0.8, 0.2)), alpha=0.0), 2).values == (0.8, 0.2)
    low, high = (
        [said(EffectiveReward(Says((q,)), k=1, start=start), 1).values[0] or 0.0 for q in (0.3, 0.6)]
        for start in (0.1, 0.9)
    )
    assert low[1] - low[0] == pytest.approx(high[1] - high[0]) and low[0] > high[0]


def test_a_judge_that_values_the_bare_problem_says_where_progress_begins() -> None:
    own = said(EffectiveReward(Says((0.8,), initial=0.2), k=1, alpha=1.0), 1)
    assert own.values == pytest.approx((0.8 + 0.6,)) and own.initial is None
    with pytest.raises(ValueError, match="outside"):
        said(EffectiveReward(Says((0.8,), initial=1.2)), 1)


def test_a_step_without_a_value_stays_so_and_progress_goes_on_from_the_last_that_has_one() -> None:
    why = failures_of([None, Unjudged(Reason.NOT_ASKED, "no"), None])
    found = said(EffectiveReward(Says((0.5, None, 0.9), failures=why), k=1, alpha=1.0), 3)
    assert found.values == pytest.approx((0.5, None, 0.9 + 0.4)) and found.failures == why


def test_a_threshold_of_values_is_none_of_rewards_and_other_scales_are_refused() -> None:
    assert traits(Says((0.5,))).threshold == 0.5 and traits(EffectiveReward(Says((0.5,)))).threshold is None
    with pytest.raises(ValueError, match="outside"):
        said(EffectiveReward(Says((1.5,))), 1)
    with pytest.raises(ValueError, match="start"):
        EffectiveReward(Says((0.5,)), start=2.0)
