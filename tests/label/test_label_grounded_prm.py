"""GroundedPRM: the card's rewards, how values go up the tree, and what the tool's verdict does to a label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.label.formal import Formal
from footfall.label.grounded import Grounded, rollout_reward, uct, verdict_sum
from footfall.label.monte_carlo import MonteCarlo
from footfall.policy.protocol import SamplingParams
from footfall.types import Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

WORLD, POLICY = ArithmeticWorld(), ArithmeticPolicy()


@pytest.mark.parametrize(
    ("verdicts", "outcome", "reward"),
    [((1, 1, -1), 1, 0.7778), ((1, 1, -1), -1, 0.1111), ((), 1, 1.0), ((-1, -1), -1, -1.25)],
)
def test_rewards_are_those_of_the_card(verdicts: tuple[int, ...], outcome: int, reward: float) -> None:
    assert rollout_reward(verdicts, outcome) == pytest.approx(reward, abs=5e-5)


def test_ancestors_get_less_of_a_reward() -> None:
    reward = rollout_reward((1, 1, -1), 1)
    assert (0.9 * reward, 0.81 * reward) == pytest.approx((0.7, 0.63), abs=5e-5)


def test_earlier_verdicts_weigh_more() -> None:
    assert verdict_sum((-1, 1)) < verdict_sum((1, -1))


@given(st.lists(st.sampled_from((-1.0, 0.0, 1.0)), min_size=1, max_size=12))
def test_a_better_verdict_never_lowers_the_reward(verdicts: list[float]) -> None:
    better = [min(1.0, verdicts[0] + 1), *verdicts[1:]]
    assert rollout_reward(better, 1) >= rollout_reward(verdicts, 1) > rollout_reward(verdicts, -1)


def test_uct_prefers_what_was_seen_less_and_turns_around_for_wrong_paths() -> None:
    assert uct(0.5, visits=0, parent_visits=9) > uct(0.5, visits=5, parent_visits=9)
    assert uct(-1.0, 2, 9, sign=-1) > uct(1.0, 2, 9, sign=-1)


def slip() -> tuple[Trajectory, int]:
    """A trace with a false equation before its last step, and where that is."""
    for _, trace in WORLD.traces(POLICY, 60, seed=2):
        refuted = [k for k, value in enumerate(Formal().judge([trace])[0].values[:-1]) if value == 0]
        if refuted:
            return trace, refuted[0]
    raise AssertionError("no trace with a slip")


def test_a_refuted_step_is_never_labelled_right() -> None:
    trace, at = slip()
    for clean in (True, False):
        said = Grounded(POLICY, rollouts=4, clean=clean, params=SamplingParams(seed=1)).judge([trace])[0]
        assert said.aspects["verdict"][at] == -1.0 and said.values[at] in ((0.0, None) if clean else (0.0,))


def test_a_refuted_step_with_a_positive_value_is_dropped_with_the_reason() -> None:
    method = Grounded(POLICY)
    assert method._label(0.4, -1.0) == (None, "the tool refutes the step, but its value is positive")
    assert method._label(-0.4, 1.0) == (0.0, None)
    assert method._label(0.4, 0.0) == (1.0, None)


def test_it_costs_what_monte_carlo_costs() -> None:
    traces = [trace for _, trace in WORLD.traces(POLICY, 5, seed=3)]
    params = SamplingParams(seed=1)
    both = Grounded(POLICY, rollouts=4, params=params), MonteCarlo(POLICY, rollouts=4, params=params)
    fused, plain = (sum(said.cost.generated_tokens for said in judge.judge(traces)) for judge in both)
    assert fused == plain > 0


def test_an_unfinished_trace_has_rollouts_at_its_last_step_too() -> None:
    trace = next(trace for _, trace in WORLD.traces(POLICY, 1, seed=4)).prefix(1)
    said = Grounded(POLICY, rollouts=4).judge([trace])[0]
    assert len(said.values) == 1 and said.cost.calls == 4


def test_a_step_that_the_tool_cannot_read_is_judged_by_its_value() -> None:
    trace = next(trace for _, trace in WORLD.traces(POLICY, 1, seed=4))
    vague = Trajectory("v", trace.problem, (Step("Let us see."),), separator="\n")
    said = Grounded(POLICY, rollouts=8).judge([vague])[0]
    assert said.aspects["verdict"] == (0.0,) and said.values[0] in (0.0, 1.0)
