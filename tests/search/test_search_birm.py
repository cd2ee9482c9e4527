"""BiRM's search rule: the worked numbers of the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from footfall.policy.protocol import SamplingParams
from footfall.search import BeamSearch, BestOf, BiRM, Budget, Method, Searcher
from footfall.search.birm import both_ways
from footfall.search.votes import aggregate
from footfall.types import Judgement, SearchResult, Trajectory
from tests.search.coins import Coins, SeesCoins, problems, right

PARAMS = SamplingParams(seed=5, max_tokens=100)
R, V = [0.9, 0.8, 0.2], [0.6, 0.7, 0.1]


@dataclass
class TwoHeads:
    """A value that tells nothing, and the truth in the aspect `reward`."""

    name: str = "two-heads"

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        seen = SeesCoins().judge(trajectories)
        return [replace(j, values=(0.5,) * len(j.values), judge=self.name, aspects={"reward": j.values}) for j in seen]


def solve(method: Method, n: int = 40, **roles: object) -> list[SearchResult]:
    return Searcher(Coins(0.5, 3), SeesCoins(), method, params=PARAMS, separator="\n", **roles).solve(problems(n))  # type: ignore[arg-type]


def test_card_check_prefix_scores_and_the_rival_that_wins_at_step_3() -> None:
    scores = [both_ways(V[:t], R[:t], beta=2.0) for t in (1, 2, 3)]
    assert scores == pytest.approx([2.4, 2.4, 1.366667], abs=1e-6)
    assert both_ways([0.0, 0.0, 0.5], [0.9] * 3, beta=2.0) == pytest.approx(2.3)


def test_card_check_beta_0_is_the_value_and_a_large_beta_the_mean_reward() -> None:
    assert both_ways(V, R, beta=0.0) == 0.1
    assert both_ways(V, [None, None, None], beta=0.0) == 0.1
    mean = aggregate(R, "mean")
    assert mean is not None
    assert both_ways(V, R, beta=1e9) == pytest.approx(1e9 * mean)


def test_an_empty_prefix_is_neutral_and_a_missing_number_gives_no_score() -> None:
    assert both_ways([], [], beta=2.0) == 0.0
    assert both_ways([0.5, None], [1.0, 1.0], beta=2.0) is None
    assert both_ways([0.5, 0.5], [None, 1.0], beta=2.0) is None
    with pytest.raises(ValueError, match="2 values but 1 rewards"):
        both_ways([0.5, 0.5], [1.0], beta=2.0)


def test_beta_0_searches_like_beam_search_by_the_last_value() -> None:
    mine, beam = solve(BiRM(8, 2, beta=0.0)), solve(BeamSearch(8, 4))
    assert [r.tree for r in mine] == [r.tree for r in beam]
    assert [r.answer for r in mine] == [r.answer for r in beam]


@pytest.mark.long
def test_with_as_many_beams_as_candidates_it_succeeds_like_best_of_n() -> None:
    mine, plain = solve(BiRM(4, 4), 600), solve(BestOf(4, "best"), 600)
    rate = [sum(right(r.chosen) for r in results) / 600 for results in (mine, plain)]
    assert rate == pytest.approx([1 - (1 - 0.125) ** 4] * 2, abs=0.08)


def test_the_reward_may_be_an_aspect_of_the_judge_or_another_judge() -> None:
    heads = Searcher(Coins(0.5, 3), TwoHeads(), BiRM(8, 2), params=PARAMS, separator="\n").solve(problems(40))
    other = Searcher(
        Coins(0.5, 3),
        TwoHeads(),
        BiRM(8, 2, reward="steps"),
        params=PARAMS,
        separator="\n",
        judges={"steps": SeesCoins()},
    ).solve(problems(40))
    blind = Searcher(Coins(0.5, 3), TwoHeads(), BiRM(8, 2, beta=0.0), params=PARAMS, separator="\n").solve(problems(40))
    assert [r.answer for r in heads] == [r.answer for r in other]
    assert sum(right(r.chosen) for r in heads) > sum(right(r.chosen) for r in blind) + 10


def test_a_budget_is_kept_and_what_ended_is_answered() -> None:
    results = Searcher(
        Coins(0.5, 3), SeesCoins(), BiRM(8, 2), Budget(tokens=200), SamplingParams(seed=1, max_tokens=10), "\n"
    ).solve(problems(5))
    assert all(r.cost.generated_tokens <= 210 and r.stopped == "tokens" for r in results)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="1 <= beams <= n"):
        BiRM(4, 5)
