"""ER-PRM, PAV and relative progress: the numbers of their cards, and what each says of a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.label.monte_carlo import EntropyRegularised, MonteCarlo, entropy_regularised, er_prm, log_mean_exp
from footfall.label.pav import StepAdvantage, advantages, best_of_k, effective_reward, improvement, pav
from footfall.label.relative_progress import (
    RelativeProgress,
    progress_differences,
    progress_ratios,
    relative_progress,
    rollouts_for,
)
from footfall.policy.protocol import SamplingParams
from footfall.types import Judgement, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import FOUR_STEPS, Scripted, trace

WORLD = ArithmeticWorld()
rates = st.floats(0, 1)


def rights(*counts: int) -> Scripted:
    """After k steps (0: the problem itself) the first `counts[k]` rollouts are right."""
    return Scripted(lambda k, index: "right" if index < counts[k] else "wrong")


def near(found: Sequence[float | None], *expected: float | None) -> bool:
    """Equal to the four digits of the cards; an unlabelled step is no zero."""
    return len(found) == len(expected) and all(
        (a is None and b is None) or (a is not None and b is not None and abs(a - b) < 5e-5)
        for a, b in zip(found, expected, strict=True)
    )


# ER-PRM


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        (1, (0.1020, 0.3574, 0.6201, 0.8280)),
        (2, (0.1680, 0.4772, 0.7169, 0.8782)),
        (10, (0.7228, 0.8614, 0.9307, 0.9712)),
        (0.1, (0.0655, 0.2595, 0.5125, 0.7592)),
    ],
)
def test_entropy_regularised_values_are_those_of_the_card(eta: float, expected: tuple[float, ...]) -> None:
    for successes, value in zip((1, 4, 8, 12), expected, strict=True):
        assert entropy_regularised(successes / 16, eta) == pytest.approx(value, abs=5e-5)
        rewards = [1.0] * successes + [0.0] * (16 - successes)
        assert log_mean_exp(rewards, eta) == pytest.approx(value, abs=5e-5)
    assert entropy_regularised(0.0, eta) == 0 and entropy_regularised(1.0, eta) == 1


@given(rates, rates, st.floats(-900, 900), st.floats(-900, 900))
def test_the_label_rises_with_the_rate_and_with_eta_and_stays_in_bounds(p: float, q: float, a: float, b: float) -> None:
    value = entropy_regularised(p, a)
    assert 0 <= value <= 1
    assert (value >= p - 1e-12) if a > 0 else (value <= p + 1e-12)
    assert (entropy_regularised(q, a) - value) * (q - p) >= -1e-12
    assert (entropy_regularised(p, b) - value) * (b - a) >= -1e-7


def test_the_limits_are_soft_and_hard_monte_carlo_and_a_negative_eta_is_a_soft_minimum() -> None:
    assert entropy_regularised(0.3, 0.0) == 0.3 and entropy_regularised(0.3, 1e-9) == pytest.approx(0.3)
    assert entropy_regularised(0.75, 5e-324) == 0.75, "the smallest number there is"
    assert entropy_regularised(1 / 16, 1e6) == pytest.approx(1.0, abs=1e-5)
    assert entropy_regularised(0.5, -1) == pytest.approx(0.3799, abs=5e-5)
    assert entropy_regularised(0.5, -1e6) == pytest.approx(0.0, abs=1e-5)
    assert log_mean_exp([0.2, 0.4], 0) == pytest.approx(0.3) == log_mean_exp([0.2, 0.4], 1e-17)
    with pytest.raises(ValueError, match="between 0 and 1"):
        entropy_regularised(1.5, 1)


class Rates:
    """Success rates of two steps, and of the problem itself."""

    name = "rates"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        return [Judgement(t.id, (0.5, 0.5), self.name, initial=0.5) for t in trajectories]


def test_er_prm_transforms_the_value_before_the_first_step_too() -> None:
    (said,) = EntropyRegularised(Rates(), eta=1.0).judge([trace("One.", "Two.")])
    assert said.initial == said.values[0] == pytest.approx(0.6201, abs=5e-5)


def test_er_prm_transforms_monte_carlo_labels_and_keeps_outcome_cost_and_reasons() -> None:
    policy = Scripted(lambda k, i: "error: busy" if k == 3 else "right" if i < (8, 4, 0)[k - 1] else "wrong")
    plain = MonteCarlo(policy, 16).judge([FOUR_STEPS])[0]
    judge = er_prm(policy, 16, eta=2)
    (said,) = judge.judge([FOUR_STEPS])
    assert near(said.values, 0.7169, 0.4772, None, 1.0)
    assert said.failures == plain.failures and said.cost == plain.cost
    assert said.aspects["success_rate"] == plain.values and said.judge == judge.name != plain.judge
    assert EntropyRegularised(MonteCarlo(policy), 1.0).name != EntropyRegularised(MonteCarlo(policy), 2.0).name


# PAV


def test_the_prover_has_the_numbers_of_the_card() -> None:
    before, after = best_of_k(0.2, 4), best_of_k(0.3, 4)
    assert near((before, after), 0.5904, 0.7599)
    assert after - before == pytest.approx(0.1695)
    assert effective_reward(0.3, after - before, 0.5) == pytest.approx(0.38475)
    assert best_of_k(0.95, 4) - best_of_k(0.9, 4) == pytest.approx(9.4e-5, abs=5e-7)


@given(rates, st.lists(rates, min_size=1))
def test_the_policys_own_advantages_add_up_to_outcome_minus_value(start: float, values: list[float]) -> None:
    assert math.fsum(advantages(start, values)) == pytest.approx(values[-1] - start, abs=1e-9)


def test_progress_of_a_trace_under_best_of_four() -> None:
    policy = rights(2, 3, 3, 0)
    (said,) = pav(policy, rollouts=10).judge([trace("One.", "Two.", "Three.", "The answer is 8.")])
    assert near(said.values, 0.1695, 0.0, -0.7599, 0.0), "a rephrasing makes no progress"
    assert said.aspects["policy"] == (0.3, 0.3, 0.0, 0.0)
    assert said.aspects["effective"][0] == pytest.approx(0.38475)
    assert len(policy.asked) == 40, "the problem and three prefixes; the last step has its outcome"


def test_steps_after_the_first_pit_can_be_left_out() -> None:
    policy = rights(2, 0, 5, 5)
    judge = pav(policy, rollouts=10, until="first-error")
    (said,) = judge.judge([trace("One.", "Two.", "Three.", "The answer is 8.")])
    assert near(said.values, -0.5904, None, None, None) and len(policy.asked) == 20
    assert said.failures == (None, *["after the first error"] * 3)


def test_another_policy_can_be_the_prover() -> None:
    policy, prover = rights(2, 3, 3, 3), rights(5, 9, 9, 9)
    prover.name = "prover"
    (said,) = StepAdvantage(policy, prover, rollouts=10).judge([trace("One.", "Two.", "Three.")])
    assert near(said.values, 0.4, 0.0, 0.0)
    assert near(said.aspects["effective"], 0.5, 0.3, 0.3)
    assert said.cost.calls == 80 and "prover=prover" in said.judge


def test_failed_rollouts_leave_no_advantage_on_either_side() -> None:
    policy = Scripted(lambda k, i: "error: busy" if k == 1 else "right")
    (said,) = pav(policy, rollouts=2).judge([trace("One.", "Two.", "Three.")])
    assert said.values == (None, None, 0.0)
    assert said.failures[0] == "all 2 rollouts failed: busy"
    assert said.failures[1] == "the prefix before has no value: all 2 rollouts failed: busy"


def test_advantages_are_differences_of_the_exact_values() -> None:
    policy = ArithmeticPolicy()
    traces = [t for _, t in WORLD.traces(policy, 6, seed=2)]
    for t, said in zip(traces, pav(policy, k=1, rollouts=400).judge(traces), strict=True):
        exact = [policy.value(t.prefix(k)) for k in range(len(t.steps) + 1)]
        for k, value in enumerate(said.values):
            assert value == pytest.approx(exact[k + 1] - exact[k], abs=0.12)


def test_a_prover_is_worth_what_it_distinguishes_and_how_it_agrees() -> None:
    policy = [[0.2, -0.2], [0.1, -0.1]]
    found = improvement([[0.3, -0.3], [0.1, -0.1]], policy)
    assert found.distinguishes == pytest.approx((0.09 + 0.01) / 2)
    assert found.aligns == pytest.approx((0.06 + 0.01) / 2)
    assert improvement([[0.0, 0.0]], [[0.2, -0.2]]) == (0, 0), "a saturated prover is worth nothing"
    assert improvement([[-0.3, 0.3]], [[0.2, -0.2]]).aligns < 0
    with pytest.raises(ValueError, match="as many advantages"):
        improvement([[0.1]], [[0.1, 0.2]])


# Relative progress


def test_relative_progress_has_the_numbers_of_the_card() -> None:
    ratios = progress_ratios(0.5, [0.5, 0.45, 0.3, 0.0, 0.2])
    assert ratios == [1.0, pytest.approx(0.9), pytest.approx(0.6667, abs=5e-5), 0.0, 0.0]
    assert [int(ratio >= 0.8) for ratio in ratios] == [1, 1, 0, 0, 0]
    assert progress_differences(0.5, [0.5, 0.45, 0.0, 0.2])[2:] == [-0.45, 0.0]


@pytest.mark.parametrize(("rate", "rollouts"), [(0.09, 128), (0.1, 64), (0.89, 64), (0.9, 32), (1.0, 32)])
def test_harder_problems_get_more_rollouts(rate: float, rollouts: int) -> None:
    assert rollouts_for(rate) == rollouts


FIVE = trace("One.", "Two.", "Three.", "Four.", "Five.")


def said_of(policy: Scripted, trajectory: Trajectory = FIVE, **given: object) -> Judgement:
    settings: dict[str, object] = {"rollouts": 20, "pass_rollouts": 20, **given}
    return relative_progress(policy, **settings).judge([trajectory])[0]  # type: ignore[arg-type]


def test_the_judge_labels_the_cards_trace_and_rolls_nothing_out_after_a_zero() -> None:
    policy = rights(10, 10, 9, 6, 0, 4)
    said = said_of(policy)
    assert said.values == (1.0, 1.0, 0.0, 0.0, 0.0)
    assert said.aspects["success_rate"] == (0.5, 0.45, 0.3, 0.0, 0.0)
    assert len(policy.asked) == 5 * 20 == said.cost.calls
    soft = said_of(rights(10, 10, 9, 6, 0, 4), estimate="soft")
    assert near(soft.values, 1.0, 0.9, 2 / 3, 0.0, 0.0)
    differences = said_of(rights(10, 10, 9, 6, 0, 4), compare="difference", epsilon=-0.1)
    assert differences.values == (1.0, 1.0, 0.0, 0.0, 0.0), "a lost prefix is never good, however small the loss"


@pytest.mark.parametrize(("compare", "epsilon", "counts"), [("ratio", 0.8, (5, 4)), ("difference", -0.1, (4, 3))])
def test_a_step_on_the_very_border_is_good_whatever_the_last_digit(
    compare: str, epsilon: float, counts: tuple[int, int]
) -> None:
    n = 6 if compare == "ratio" else 10  # 4/6 of 5/6 is 0.7999999999999999, 0.3 − 0.4 is −0.10000000000000003
    policy = rights(*counts)
    said = said_of(policy, trace("One."), compare=compare, epsilon=epsilon, rollouts=n, pass_rollouts=n)
    assert said.values == (1.0,)


def test_a_finished_trace_ends_with_its_outcome() -> None:
    assert said_of(rights(10, 10, 10), trace("One.", "Two.", "The answer is 7.")).values == (1.0, 1.0, 1.0)
    assert said_of(rights(10, 10, 10), trace("One.", "Two.", "The answer is 8.")).values == (1.0, 1.0, 0.0)


def test_a_problem_never_solved_leaves_its_traces_unlabelled() -> None:
    policy = rights(0, 5, 5, 5, 5, 5)
    said = said_of(policy)
    assert said.values == (None,) * 5 and len(policy.asked) == 20
    assert said.failures[0] is not None and "never solves" in said.failures[0]


def test_failed_calls_leave_the_rest_unlabelled() -> None:
    policy = Scripted(lambda k, i: "error: busy" if k == 3 else "right")
    said = said_of(policy)
    assert said.values == (1.0, 1.0, None, None, None)
    assert said.failures[2:] == ("all 20 rollouts failed: busy",) * 3
    nobody = said_of(Scripted(lambda k, i: "error: busy"))
    assert nobody.values == (None,) * 5 and set(nobody.failures) == {"all 20 rollouts failed: busy"}


def test_the_judge_says_from_which_value_on_a_step_is_good() -> None:
    policy = rights(1)
    assert RelativeProgress(policy, compare="difference", epsilon=-0.1).threshold == 0.5
    assert RelativeProgress(policy, compare="difference", epsilon=-0.1, estimate="soft").threshold == -0.1


def test_the_budget_follows_the_pass_rate_of_each_problem() -> None:
    policy = Scripted(lambda k, i: "right")
    RelativeProgress(policy, pass_rollouts=4).judge([trace("One.")])
    assert len(policy.asked) == 4 + 32


def test_traces_judged_together_are_judged_as_alone() -> None:
    policy = ArithmeticPolicy()
    traces = [t for _, t in WORLD.traces(policy, 8, seed=1)]
    for judge in (
        RelativeProgress(policy, 8, 16, params=SamplingParams(seed=4)),
        StepAdvantage(policy, rollouts=8, until="first-error"),
        er_prm(policy, 8),
    ):
        assert [j.values for j in judge.judge(traces)] == [judge.judge([t])[0].values for t in traces]
