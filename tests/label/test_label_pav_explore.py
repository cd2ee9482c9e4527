"""One step of policy improvement by resampling: what a reward makes of a policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from footfall.label.pav import explore
from footfall.policy.protocol import Completion, SamplingParams
from footfall.types import Cost, Problem, Step, Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld
from tests.label.scripted_policy import PROBLEM

WORLD = ArithmeticWorld()
START = Trajectory("t", PROBLEM)


@dataclass
class Coins:
    """Writes "a" or "b" by the parity of the sample's index, and ends after two steps."""

    finish: str = "end"
    name: str = "coins"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        assert params.until == "step"
        return [[self._write(prefix, i) for i in range(first, first + n)] for prefix in prefixes]

    def _write(self, prefix: Trajectory, index: int) -> Completion:
        if self.finish == "error":
            return Completion((), "error", index, error="busy")
        last = len(prefix.steps) == 1
        return Completion((Step("ab"[index % 2]),), "end" if last else "step", index, cost=Cost(calls=1))


def texts(trace: Trajectory) -> str:
    return "".join(step.text for step in trace.steps)


def test_a_strong_reward_takes_the_rewarded_step_and_none_leaves_the_policy_as_it_is() -> None:
    def likes_b(before: Trajectory, after: Trajectory) -> float:
        return 100.0 * (texts(after).count("b") - texts(before).count("b"))

    traces, cost = explore(Coins(), [START] * 5, likes_b)
    assert [texts(trace) for trace in traces] == ["bb"] * 5 and cost.calls == 5 * 2 * 4
    plain, _ = explore(Coins(), [START] * 200, lambda before, after: 0.0)
    share = sum(texts(trace).count("b") for trace in plain) / 400
    assert 0.4 < share < 0.6


def test_the_weight_of_a_step_is_the_exponential_of_its_reward() -> None:
    traces, _ = explore(Coins(), [START] * 1000, lambda before, after: float(texts(after)[-1] == "b"))
    share = sum(texts(trace).count("b") for trace in traces) / 2000
    assert abs(share - 0.7311) < 0.04, "e / (1 + e)"


def test_what_becomes_of_a_start_does_not_depend_on_the_others() -> None:
    """Each draws from a stream of its own; starts that are equal draw apart from each other."""
    starts = [Trajectory(f"t{i}", Problem(f"p{i}", f"What is {i} + 4?", "7")) for i in range(30)]

    def explored(starts: Sequence[Trajectory], seed: int = 0) -> dict[str, str]:
        found, _ = explore(Coins(), starts, lambda before, after: 0.0, params=SamplingParams(seed=seed))
        return {trace.id: texts(trace) for trace in found}

    whole = explored(starts)
    assert {name: text for start in starts for name, text in explored([start]).items()} == whole
    assert explored(starts[::-1]) == whole and explored(starts[7:]).items() <= whole.items()
    assert explored(starts, seed=1) != whole and len(set(whole.values())) == 4
    again, _ = explore(Coins(), [START] * 30, lambda before, after: 0.0)
    assert len(set(map(texts, again))) == 4


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_names_the_trace_and_the_step(reward: float) -> None:
    with pytest.raises(ValueError, match=f"trace 't', step 2: the highest reward is {reward}"):
        explore(Coins(), [START], lambda before, after: reward if len(before.steps) else 0.0)
    never_a, _ = explore(Coins(), [START] * 9, lambda before, after: -math.inf if texts(after)[-1] == "a" else 0.0)
    assert {texts(trace) for trace in never_a} == {"bb"}, "a step of the reward -inf is never drawn"


def test_a_trace_that_cannot_go_on_stays_where_it_is() -> None:
    traces, _ = explore(Coins(finish="error"), [START], lambda before, after: 0.0)
    assert traces == [START] and explore(Coins(), [], lambda before, after: 0.0) == ([], Cost())


def test_the_policys_own_values_make_it_better_and_the_seed_decides_the_traces() -> None:
    policy = ArithmeticPolicy()
    starts = [WORLD.prefix(problem) for problem in WORLD.problems(40, seed=3)]
    better, _ = explore(policy, starts, lambda before, after: 6 * policy.value(after), params=SamplingParams(seed=2))
    again, _ = explore(policy, starts, lambda before, after: 6 * policy.value(after), params=SamplingParams(seed=2))
    plain, _ = explore(policy, starts, lambda before, after: 0.0, params=SamplingParams(seed=2))
    assert better == again
    assert sum(map(policy.value, better)) > sum(map(policy.value, plain)) + 5
