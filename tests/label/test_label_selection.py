"""PRM800K: solution scores with a neutral class, and the choice of convincing wrong answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.label.selection import Rest, convincing_wrong, pick_by_problem
from footfall.search.votes import aggregate, chances_ok
from footfall.types import Problem, Step, Trajectory

POSITIVE, NEUTRAL = (0.7, 0.5, 0.9), (0.2, 0.3, 0.05)


def test_scores_of_the_cards_three_steps() -> None:
    with_neutral, without = chances_ok(POSITIVE, NEUTRAL), chances_ok(POSITIVE, NEUTRAL, "negative")
    assert aggregate(with_neutral, "prod") == pytest.approx(0.684)
    assert aggregate(without, "prod") == pytest.approx(0.315)
    assert aggregate(with_neutral, "min") == pytest.approx(0.8)
    assert aggregate(without, "min") == pytest.approx(0.5)
    assert chances_ok((0.5, None), (0.25, 0.2)) == (0.75, None)


@given(st.lists(st.floats(0.001, 1), min_size=2, max_size=8))
def test_a_product_never_exceeds_the_minimum_and_only_falls(values: list[float]) -> None:
    whole, before, least = (aggregate(v, h) for v, h in ((values, "prod"), (values[:-1], "prod"), (values, "min")))
    assert whole is not None and before is not None and least is not None
    assert whole <= least * (1 + 1e-9) and whole <= before * (1 + 1e-9)


def test_four_of_five_picks_are_the_wrong_answers_scored_highest_and_the_fifth_the_best_of_the_rest() -> None:
    scores = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.95, 0.1]
    correct = [False, False, True, False, False, False, True, False]
    assert convincing_wrong(scores, correct, 5) == [0, 1, 3, 4, 6]
    assert convincing_wrong(scores, correct, 5, wrong_share=1.0) == [0, 1, 3, 4, 5]
    assert convincing_wrong(scores, correct, 2, wrong_share=0.0) == [6, 0]


def test_who_has_no_score_or_outcome_is_not_picked_for_being_wrong() -> None:
    assert convincing_wrong([None, 0.2, 0.9], [False, False, None], 2, wrong_share=1.0) == [1, 2]
    assert convincing_wrong([0.3], [True], 4) == [0], "fewer, if there are fewer"


@pytest.mark.parametrize("rest", ["convincing", "random"])
def test_who_has_no_score_or_outcome_comes_last_in_the_rest(rest: Rest) -> None:
    scores, correct = [0.9, None, 0.2, 0.1, 0.15], [None, True, True, True, True]
    picked = convincing_wrong(scores, correct, 5, rest=rest, seed=1)
    assert set(picked[:3]) == {2, 3, 4} and set(picked[3:]) == {0, 1}


def test_the_rest_can_be_drawn_at_random() -> None:
    scores, correct = [i / 100 for i in range(40)], [True] * 40
    drawn = convincing_wrong(scores, correct, 5, rest="random", seed=3)
    assert drawn == convincing_wrong(scores, correct, 5, rest="random", seed=3)
    assert drawn != convincing_wrong(scores, correct, 5)


def test_picks_are_made_problem_by_problem() -> None:
    traces = [Trajectory(f"{p}{i}", Problem(p, p), (Step("s"),), correct=i > 1) for i in range(4) for p in "ab"]
    scores = [0.1 * i for i in range(8)]
    assert [t.id for t in pick_by_problem(traces, scores, 2, wrong_share=0.5)] == ["a1", "a3", "b1", "b3"]
