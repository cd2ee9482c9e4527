"""Monte Carlo labels: the card's numbers, and what each rollout may and may not count for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.drive.rollouts import Tally
from footfall.label.monte_carlo import (
    MonteCarlo,
    hard_estimate,
    monte_carlo,
    soft_estimate,
    wilson_half_width,
)
from footfall.policy.protocol import SamplingParams
from footfall.types import Cost, Judgement, Trajectory
from tests.label.scripted_policy import FOUR_STEPS, PROBLEM, Scripted, successes, trace


def judge(labeller: MonteCarlo, trajectory: Trajectory = FOUR_STEPS) -> Judgement:
    (judgement,) = labeller.judge([trajectory])
    return judgement


def test_three_of_eight_is_375_soft_and_1_hard_and_none_of_eight_is_0() -> None:
    assert (soft_estimate(3, 8), hard_estimate(3, 8)) == (0.375, 1.0)
    assert (soft_estimate(0, 8), hard_estimate(0, 8)) == (0.0, 0.0)
    policy = successes(3, 0, 8)
    assert judge(MonteCarlo(policy)).values == (0.375, 0.0, 1.0, 1.0)
    assert judge(MonteCarlo(policy, estimate="hard")).values == (1.0, 0.0, 1.0, 1.0)


def test_counts_stand_beside_the_values() -> None:
    aspects = judge(MonteCarlo(successes(3, 0, 8), estimate="hard")).aspects
    assert aspects["successes"] == (3.0, 0.0, 8.0, None)
    assert aspects["rollouts"] == (8.0, 8.0, 8.0, None)


@given(st.lists(st.booleans(), min_size=1, max_size=32))
def test_hard_is_whether_soft_is_positive_and_only_grows_with_rollouts(rollouts: list[bool]) -> None:
    hard = [hard_estimate(sum(rollouts[:n]), n) for n in range(1, len(rollouts) + 1)]
    soft = [soft_estimate(sum(rollouts[:n]), n) for n in range(1, len(rollouts) + 1)]
    assert hard == [float(value > 0) for value in soft]
    assert hard == sorted(hard)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_that_of_wilson(counts: tuple[int, int]) -> None:
    """Its ends solve (p̂ - p)² = z² p(1 - p)/n, and lie within 0 and 1."""
    k, n = counts
    z2 = 1.959963984540054**2
    centre, half = (k + z2 / 2) / (n + z2), wilson_half_width(k, n)
    for p in (centre - half, centre + half):
        assert (k / n - p) ** 2 == pytest.approx(z2 * p * (1 - p) / n, abs=1e-9)
        assert -1e-9 <= p <= 1 + 1e-9


@pytest.mark.parametrize(("correct", "last"), [(True, 1.0), (False, 0.0)])
def test_the_last_step_is_labelled_by_the_outcome_and_never_completed(correct: bool, last: float) -> None:
    policy = successes(8, 8, 8)
    steps = ("First.", "Second.", "Third.", f"The answer is {'7' if correct else '9'}.")
    judgement = judge(MonteCarlo(policy), trace(*steps))
    assert judgement.values[-1] == last
    assert {text for text, _ in policy.asked} == {
        "First.\n\n",
        "First.\n\nSecond.\n\n",
        "First.\n\nSecond.\n\nThird.\n\n",
    }


def test_an_outcome_that_came_with_the_trace_is_believed() -> None:
    said_otherwise = replace(FOUR_STEPS, answer="seven", correct=False)
    assert judge(MonteCarlo(successes(8, 8, 8)), said_otherwise).values[-1] == 0.0
    without_answer = trace("First.", "So it is seven.", correct=True)
    assert judge(MonteCarlo(successes(4)), without_answer).values == (0.5, 1.0)


def test_a_trace_without_an_answer_is_completed_after_every_step() -> None:
    assert judge(MonteCarlo(successes(8, 2)), trace("First.", "Second.")).values == (1.0, 0.25)


def test_traces_with_one_step_or_none_need_no_rollouts() -> None:
    policy = successes()
    assert judge(MonteCarlo(policy), trace("The answer is 7.")).values == (1.0,)
    assert judge(MonteCarlo(policy), trace()).values == ()
    assert MonteCarlo(policy).judge([]) == []
    assert policy.asked == []


class TestFirstErrorMode:
    def test_steps_after_the_first_error_are_unjudged_and_cost_nothing(self) -> None:
        policy = successes(3, 0, 8)
        judgement = judge(MonteCarlo(policy, until="first-error"))
        assert judgement.values == (0.375, 0.0, None, None)
        assert judgement.failures == (None, None, "after the first error", "after the first error")
        assert judgement.aspects["rollouts"] == (8.0, 8.0, None, None)
        assert len(policy.asked) == 16 and judgement.cost == Cost(generated_tokens=64, calls=16)
        assert judgement.first_below(0.5) == 0 and judgement.first_below(0.01) == 1

    def test_a_trace_without_error_is_labelled_to_its_end(self) -> None:
        judgement = judge(MonteCarlo(successes(8, 1, 2), until="first-error"))
        assert judgement.values == (1.0, 0.125, 0.25, 1.0) and judgement.failures == ()

    def test_every_trace_stops_at_its_own_first_error(self) -> None:
        policy = Scripted(lambda k, index: "wrong" if k == 2 else "right")
        short, long = (
            trace("A.", "The answer is 7.", id="short"),
            trace("B.", "C.", "D.", "The answer is 7.", id="long"),
        )
        a, b = MonteCarlo(policy, rollouts=2, until="first-error").judge([short, long])
        assert a.values == (1.0, 1.0) and b.values == (1.0, 0.0, None, None)

    def test_a_step_whose_calls_all_failed_is_not_an_error_of_the_trace(self) -> None:
        policy = Scripted(lambda k, index: "error: time-out" if k == 1 else "right")
        judgement = judge(MonteCarlo(policy, rollouts=2, until="first-error"))
        assert judgement.values == (None, 1.0, 1.0, 1.0)
        assert judgement.failures == ("all 2 rollouts failed: time-out", None, None, None)


class TestFailures:
    def test_failed_calls_are_left_out_of_the_count(self) -> None:
        policy = Scripted(lambda k, index: "error: time-out" if index < 4 else "right" if index < 6 else "wrong")
        judgement = judge(MonteCarlo(policy))
        assert judgement.values == (0.5, 0.5, 0.5, 1.0) and judgement.failures == ()
        assert judgement.aspects["rollouts"] == (4.0, 4.0, 4.0, None)

    def test_a_step_whose_calls_all_failed_has_no_value_but_a_reason(self) -> None:
        judgement = judge(MonteCarlo(Scripted(lambda k, index: "error: server gone" if k == 2 else "wrong")))
        assert judgement.values == (0.0, None, 0.0, 1.0)
        assert judgement.failures == (None, "all 8 rollouts failed: server gone", None, None)

    def test_a_rollout_cut_at_its_token_limit_did_not_succeed(self) -> None:
        policy = Scripted(lambda k, index: "cut" if index < 6 else "right")
        judgement = judge(MonteCarlo(policy))
        assert judgement.values == (0.25, 0.25, 0.25, 1.0)
        assert judgement.aspects["unfinished"] == (6.0, 6.0, 6.0, None)

    @pytest.mark.parametrize("settings", [{"rollouts": 0}, {"round": 0}])
    def test_a_budget_of_nothing_is_refused(self, settings: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            MonteCarlo(successes(1), **settings)  # type: ignore[arg-type]

    def test_rollouts_that_would_stop_after_one_step_are_refused(self) -> None:
        with pytest.raises(ValueError, match="until='end'"):
            MonteCarlo(successes(1), params=SamplingParams(until="step"))


class TestAdaptiveBudget:
    def test_sure_steps_stop_early_and_doubtful_ones_use_the_whole_budget(self) -> None:
        policy = Scripted(lambda k, index: "right" if k == 1 or (k == 2 and index % 2) else "wrong")
        judgement = judge(MonteCarlo(policy, rollouts=32, half_width=0.15))
        assert judgement.aspects["rollouts"] == (12.0, 32.0, 12.0, None)
        assert judgement.values == (1.0, 0.5, 0.0, 1.0)
        assert wilson_half_width(12, 12) <= 0.15 < wilson_half_width(8, 8)

    def test_its_samples_are_the_first_ones_of_the_fixed_budget(self) -> None:
        adaptive, fixed = successes(32, 16, 0), successes(32, 16, 0)
        judge(MonteCarlo(adaptive, rollouts=30, half_width=0.15))
        judge(MonteCarlo(fixed, rollouts=30))
        assert set(adaptive.asked) < set(fixed.asked)
        assert len(adaptive.asked) == len(set(adaptive.asked)), "no sample is drawn twice"
        for text in {text for text, _ in adaptive.asked}:
            indices = [i for t, i in adaptive.asked if t == text]
            assert indices == list(range(len(indices)))

    def test_failed_calls_do_not_make_an_interval_narrow(self) -> None:
        policy = Scripted(lambda k, index: "error: time-out" if index < 12 else "right")
        judgement = judge(MonteCarlo(policy, rollouts=16, half_width=0.3))
        assert judgement.aspects["rollouts"] == (4.0, 4.0, 4.0, None)


class TestSharedPrefixes:
    def test_equal_prefixes_are_completed_once_and_charged_once(self) -> None:
        policy = successes(4, 2)
        twins = [
            trace("Same.", "Left.", "The answer is 7.", id="a"),
            trace("Same.", "Right.", "The answer is 7.", id="b"),
        ]
        a, b = MonteCarlo(policy).judge(twins)
        assert len(policy.asked) == len(set(policy.asked)) == 3 * 8
        assert (a.values, b.values) == ((0.5, 0.25, 1.0), (0.5, 0.25, 1.0))
        assert (a.cost.calls, b.cost.calls) == (16, 8)
        assert [j.trajectory_id for j in (a, b)] == ["a", "b"]

    def test_a_prefix_of_another_problem_is_another_prefix(self) -> None:
        policy = successes(4)
        here = trace("Same.", "The answer is 7.")
        MonteCarlo(policy).judge([here, replace(here, problem=replace(PROBLEM, id="p2"))])
        assert len(policy.asked) == 2 * 8


def test_judges_with_one_name_say_the_same() -> None:
    policy = successes(1)
    variants = [
        MonteCarlo(policy),
        MonteCarlo(policy, rollouts=16),
        MonteCarlo(policy, estimate="hard"),
        MonteCarlo(policy, until="first-error"),
        MonteCarlo(policy, half_width=0.1),
        MonteCarlo(policy, half_width=0.1, round=2),
        MonteCarlo(replace(policy, name="another")),
        *(MonteCarlo(policy, params=params) for params in [
            SamplingParams(seed=1), SamplingParams(temperature=0.7), SamplingParams(top_p=0.9),
            SamplingParams(top_k=5), SamplingParams(max_tokens=64)]),
    ]  # fmt: skip
    assert len({labeller.name for labeller in variants}) == len(variants)
    assert judge(variants[0], trace("A.", "The answer is 7.")).judge == variants[0].name


def test_the_registered_part_makes_the_same_labeller() -> None:
    policy = successes(1)
    assert monte_carlo(policy, rollouts=4, half_width=0.2) == MonteCarlo(policy, rollouts=4, half_width=0.2)


def test_a_tally_counts_what_was_asked_apart_from_what_was_rolled_out() -> None:
    tally = Tally()
    policy = Scripted(lambda k, index: ["right", "wrong", "cut", "error: gone"][index])
    tally.add(trace("A."), policy.sample([trace("A.")], 4)[0], "someone")
    assert (tally.successes, tally.rollouts, tally.unfinished, tally.asked) == (1, 3, 1, 4)
    assert tally.failure is not None and re.search("gone", tally.failure)
    assert tally.cost.calls == 4, "a failed call still cost something"
