"""Monte Carlo labels where the truth is known: the card's noise rates, and the exact values of the arithmetic world."""

from __future__ import annotations

import math

import numpy as np
import pytest

from footfall.answers import grade
from footfall.label.monte_carlo import MonteCarlo
from footfall.label.pav import best_of_k
from footfall.policy.protocol import SamplingParams
from footfall.types import Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import PROBLEM, Scripted

STANDARD_ERRORS = 4.0


@pytest.mark.parametrize(("recovery", "expected"), [(0.30, 0.9424), (0.05, 0.3366)])
def test_hard_labels_are_as_noisy_as_the_card_says(recovery: float, expected: float) -> None:
    """P(HE = 1) = 1 - (1 - recovery)^8: a wrong step often looks good, a right but hard one often looks bad."""
    assert best_of_k(recovery, 8) == pytest.approx(expected, abs=5e-5)
    n = 1000
    coins = np.random.default_rng(0).random((n, 8)) < recovery
    drawn = iter(coins.ravel())
    policy = Scripted(lambda k, index: "right" if next(drawn) else "wrong")
    traces = [Trajectory(f"t{i}", PROBLEM, (Step(f"A step, number {i}."),)) for i in range(n)]
    hard = [judgement.values[0] for judgement in MonteCarlo(policy, estimate="hard").judge(traces)]
    rate = sum(value == 1.0 for value in hard) / n
    assert abs(rate - expected) < STANDARD_ERRORS * math.sqrt(expected * (1 - expected) / n)


def test_soft_labels_are_the_exact_values_up_to_binomial_noise() -> None:
    world, policy, rollouts = ArithmeticWorld(), ArithmeticPolicy(), 200
    traces = [grade(trace) for _, trace in world.traces(policy, 12, seed=5)]
    said = MonteCarlo(policy, rollouts, params=SamplingParams(seed=7)).judge(traces)
    squares = []
    for trace, judgement in zip(traces, said, strict=True):
        for k, label in enumerate(judgement.values[:-1], 1):
            value = policy.value(trace.prefix(k))
            assert label is not None
            error = math.sqrt(max(value * (1 - value), 1 / rollouts) / rollouts)
            assert abs(label - value) < STANDARD_ERRORS * error
            squares.append(((label - value) / error) ** 2)
        assert judgement.values[-1] == float(world.graded(trace).correct or False)
    assert len(squares) > 30
    assert 0.4 < np.mean(squares) < 1.6, "the noise is that of independent rollouts, no more and no less"


def test_labels_come_closer_to_the_value_with_more_rollouts() -> None:
    world, policy = ArithmeticWorld(), ArithmeticPolicy()
    traces = [grade(trace) for _, trace in world.traces(policy, 20, seed=11)]
    error = {}
    for rollouts in (2, 8, 64):
        said = MonteCarlo(policy, rollouts).judge(traces)
        pairs = [
            (label, policy.value(trace.prefix(k)))
            for trace, judgement in zip(traces, said, strict=True)
            for k, label in enumerate(judgement.values[:-1], 1)
        ]
        error[rollouts] = np.mean([abs((label or 0.0) - value) for label, value in pairs])
    assert error[2] > 1.5 * error[8] > 1.5 * 1.5 * error[64]


def test_the_same_seed_gives_the_same_labels_whatever_is_judged_beside() -> None:
    world, policy = ArithmeticWorld(), ArithmeticPolicy()
    traces = [grade(trace) for _, trace in world.traces(policy, 6, seed=3)]
    labeller = MonteCarlo(policy, 8, params=SamplingParams(seed=1))
    together = [judgement.values for judgement in labeller.judge(traces)]
    assert [labeller.judge([trace])[0].values for trace in traces] == together
    other = MonteCarlo(policy, 8, params=SamplingParams(seed=2)).judge(traces)
    assert [judgement.values for judgement in other] != together
