"""Reward models compared in choosing: the worked numbers of the card multi-rm."""

from __future__ import annotations

import math

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Searcher, curve
from footfall.simulate import Noisy
from footfall.types import Problem, Step, Trajectory
from tests.search.coins import Coins, SeesCoins, problems


def test_card_check_1_the_share_of_yes() -> None:
    from footfall.reward.generative.critic import share_of_yes

    assert share_of_yes(-0.2, -1.8) == pytest.approx(0.832018, abs=1e-6)


@pytest.mark.parametrize(("steps", "expected"), [(5, 0.7738), (10, 0.5987), (20, 0.3585), (40, 0.1285)])
def test_card_check_2_independent_errors_add_up_with_length(steps: int, expected: float) -> None:
    right = tuple(Step(f"right {k}") for k in range(steps))
    traces = [Trajectory(f"t{i}", Problem(f"p{i}", "Toss."), right, separator="\n") for i in range(600)]
    said = Noisy(SeesCoins(), 0.0, 0.05, seed=1).judge(traces)
    share = sum(all(j.values) for j in said) / len(said)
    assert math.isclose(expected, 0.95**steps, abs_tol=5e-5)
    assert share == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 600))


def test_card_check_3_with_one_sample_every_rule_is_the_single_sample() -> None:
    params = SamplingParams(seed=1, max_tokens=100)
    results = Searcher(Coins(), SeesCoins(), BestOf(4, "best"), params=params, separator="\n").solve(problems(30))
    found = curve(results, [1, 4])
    assert len({tuple(column[0]) for column in found.correct.values()}) == 1
    assert len({tuple(column[1]) for column in found.correct.values()}) > 1
