"""Self-consistency: a vote that is over is not gone on with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.policy.protocol import SamplingParams
from footfall.search import BestOf, Budget, Searcher, SelfConsistency
from footfall.search.self_consistency import chance_of_lead
from footfall.types import SearchResult
from tests.search.coins import Coins, problems

PARAMS = SamplingParams(seed=1, max_tokens=100)


def solve(method: SelfConsistency | BestOf, n: int, p: float, budget: Budget | None = None) -> list[SearchResult]:
    return Searcher(Coins(p), None, method, budget or Budget(), PARAMS, "\n").solve(problems(n))


def test_the_chance_of_a_lead_by_hand() -> None:
    """Four to none is 1 - 1/32, the first lead that is 95 % sure; an even vote is a coin."""
    assert chance_of_lead(4, 0) == 31 / 32 and chance_of_lead(3, 0) == 15 / 16
    assert chance_of_lead(5, 5) == 0.5


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_chances_of_two_answers_sum_to_one(first: int, second: int) -> None:
    assert chance_of_lead(first, second) + chance_of_lead(second, first) == pytest.approx(1)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_a_certain_stop_gives_the_answer_of_all_samples(batch: int, p: float) -> None:
    full, early = solve(BestOf(9, "majority"), 60, p), solve(SelfConsistency(9, batch, "certain"), 60, p)
    assert [r.answer for r in early] == [r.answer for r in full]
    assert sum(len(r.candidates) for r in early) < 9 * 60


def test_equal_answers_stop_after_four() -> None:
    assert {len(r.candidates) for r in solve(SelfConsistency(40, 1), 5, p=1.0)} == {4}


@pytest.mark.long
@pytest.mark.parametrize("stop", ["beta", "window"])
def test_most_answers_stay_with_a_fraction_of_the_samples(stop: str) -> None:
    full = solve(BestOf(40, "majority"), 100, 0.9)
    early = solve(SelfConsistency(40, 4, stop), 100, 0.9)  # type: ignore[arg-type]
    assert sum(a.answer == b.answer for a, b in zip(full, early, strict=True)) >= 90
    assert sum(len(r.candidates) for r in early) < 0.5 * 40 * 100


def test_a_window_stops_when_a_whole_batch_agrees() -> None:
    for result in solve(SelfConsistency(20, 4, "window"), 30, 0.8):
        answers = [t.answer for t, _ in result.candidates]
        batches = [set(answers[i : i + 4]) for i in range(0, len(answers), 4)]
        assert all(len(batch) > 1 for batch in batches[:-1]) and (len(batches[-1]) == 1 or len(answers) == 20)


def test_the_reason_is_written_down_and_a_budget_kept() -> None:
    result = solve(SelfConsistency(40, 1), 1, p=1.0)[0]
    assert [d.why for d in result.decisions if d.what == "enough"] == ["4 votes against 0: 0.969 sure"]
    for cut in solve(SelfConsistency(40, 2), 10, p=0.8, budget=Budget(tokens=60)):
        assert cut.policy_cost.generated_tokens <= 60 + 30


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="no stop is called 'never'"):
        SelfConsistency(stop="never")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 <= batch <= n"):
        SelfConsistency(2, 4)
