"""Steps in proportion to reward: the worked numbers of the card, and draws that follow them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from footfall.policy.protocol import Completion, SamplingParams, sample_seed
from footfall.search import Budget, Method, Searcher
from footfall.search.gflownet import GFlowNet, proportions
from footfall.types import Cost, Judgement, SearchResult, Step, Trajectory
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=4, max_tokens=100)


def test_draws_are_in_proportion_however_the_rewards_are_scaled() -> None:
    for scale in (1.0, 0.5, 1.5):
        assert proportions([0.6 * scale, 0.2 * scale]) == pytest.approx([0.75, 0.25])


def test_temperature_sharpens_and_zero_is_the_maximiser() -> None:
    assert proportions([0.6, 0.2], temperature=0.5) == pytest.approx([0.9, 0.1])
    assert proportions([0.2, 0.6, 0.6], temperature=0) == [0, 1, 0]
    assert proportions([0.0, 0.0]) == [0.5, 0.5], "the floor leaves no reward of zero"


@dataclass
class Routes:
    """One step out of a, b, c with given chances, then an answer that is right."""

    weights: tuple[float, ...] = (0.5, 0.25, 0.25)
    name: str = "routes"

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        return [[self._one(prefix, params, index) for index in range(first, first + n)] for prefix in prefixes]

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        if prefix.steps:
            return Completion((Step("The answer is 1."),), "end", index, cost=Cost(generated_tokens=5, calls=1))
        [letter] = Random(sample_seed(params, prefix, index)).choices("abc", self.weights)
        return Completion((Step(letter),), "step", index, cost=Cost(generated_tokens=5, calls=1))


@dataclass
class Rewards:
    """r = .6 for a, .2 for b and c, 1 for the answer."""

    name: str = "rewards"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        worth = {"a": 0.6, "b": 0.2, "c": 0.2}
        return [Judgement(t.id, tuple(worth.get(s.text, 1.0) for s in t.steps), self.name) for t in trajectories]


def routes(method: Method, n: int = 40) -> Counter[str]:
    results = Searcher(Routes(), Rewards(), method, params=PARAMS, separator="\n").solve(problems(n))
    return Counter(t.steps[0].text for r in results for t, _ in r.candidates)


@pytest.mark.long
def test_with_many_proposals_steps_are_drawn_in_proportion_to_reward_whatever_the_policy_prefers() -> None:
    found = routes(GFlowNet(n=8, m=16))
    shares = [found[letter] / found.total() for letter in "abc"]
    assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.08)


@pytest.mark.long
def test_counting_alike_proposals_weighs_reward_by_the_policy() -> None:
    found = routes(GFlowNet(n=8, m=16, distinct=False))
    expected = [0.5 * 0.6, 0.25 * 0.2, 0.25 * 0.2]
    shares = [found[letter] / found.total() for letter in "abc"]
    assert shares == pytest.approx([e / sum(expected) for e in expected], abs=0.08)


def test_the_maximiser_finds_one_route() -> None:
    assert set(routes(GFlowNet(n=8, m=16, temperature=0), 4)) == {"a"}


def solve(method: Method, n: int, budget: Budget = Budget()) -> list[SearchResult]:
    return Searcher(Coins(0.5, 3), SeesCoins(), method, budget, PARAMS, "\n").solve(problems(n))


@pytest.mark.long
def test_wrong_steps_are_almost_never_drawn_while_a_right_one_is_proposed() -> None:
    results = solve(GFlowNet(n=4, m=4, distinct=False), 100)
    each = [right(t) for r in results for t, _ in r.candidates]
    assert len(each) == 400
    assert sum(each) / len(each) == pytest.approx((1 - 0.5**4) ** 3, abs=0.08)


def test_the_same_seed_draws_the_same() -> None:
    assert solve(GFlowNet(n=4), 5) == solve(GFlowNet(n=4), 5)


def test_a_budget_ends_it_with_what_is_finished() -> None:
    for result in solve(GFlowNet(n=4, m=2), 5, Budget(tokens=200)):
        assert result.stopped == "tokens" and result.cost.generated_tokens <= 210
    done = solve(GFlowNet(n=4, m=2, iterations=1), 5)
    assert all(len(r.candidates) == 4 and all(len(t.steps) == 3 for t, _ in r.candidates) for r in done)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"n": 0}, {"m": 0}, {"temperature": -1.0}, {"floor": 0.0}, {"iterations": 0}):
        with pytest.raises(ValueError, match="gflownet needs"):
            GFlowNet(**wrong)
