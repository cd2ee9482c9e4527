"""VersaPRM: labels by the first bad step that a critic names, and the votes of the card."""

from __future__ import annotations

import pytest

from footfall.reward.generative.first_error import read_index
from footfall.search.votes import best, majority, weighted
from footfall.train.active import until_first_error
from footfall.types import Judgement


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ((1, 1, 0, 0, 0), (1.0, 1.0, 0.0, None, None)),
        ((1,) * 5, (1.0,) * 5),
        ((0, 1, 1, 1, 1), (0.0, None, None, None, None)),
    ],
)
def test_training_stops_after_the_first_bad_step(said: tuple[int, ...], values: tuple[float | None, ...]) -> None:
    assert until_first_error(Judgement("t", tuple(map(float, said)), "critic")).values == values


def test_an_index_that_names_no_step_is_no_label() -> None:
    assert [read_index(f"\\boxed{{{index}}}", 5) for index in (2, -1)] == [2, -1]
    assert isinstance(read_index("\\boxed{5}", 5), str)


def test_the_votes_of_the_card() -> None:
    answers, scores = ["A", "A", "B", "C"], [0.8, 0.5, 0.9, 0.4]
    winners = majority(answers).winner, best(scores), weighted(answers, scores).winner
    assert [answers[winner] for winner in winners if winner is not None] == ["A", "B", "A"]
    assert weighted(answers, scores).weights == pytest.approx({"A": 1.3, "B": 0.9, "C": 0.4})
    assert weighted(answers, [0.5] * 4).winner == majority(answers).winner
    assert (majority(["B"]).winner, best([0.2]), weighted(["B"], [0.2]).winner) == (0, 0, 0), "one sample, one choice"
