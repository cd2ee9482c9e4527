"""VersaPRM: labels by the first bad step, and the votes of the card."""

from __future__ import annotations

import pytest

from footfall.lab.shared.domains import DOMAINS, first_error_rows, first_errors, step_auc
from footfall.search.votes import best, majority, weighted
from footfall.types import Judgement, Problem, Step, Trajectory

TRACE = Trajectory("t", Problem("p", "?"), tuple(Step(str(k)) for k in range(5)))


@pytest.mark.parametrize(
    ("error", "values"), [(2, (1.0, 1.0, 0.0, None, None)), (-1, (1.0,) * 5), (0, (0.0, None, None, None, None))]
)
def test_training_stops_after_the_first_bad_step(error: int, values: tuple[float | None, ...]) -> None:
    (row,) = first_error_rows("critic", [TRACE], [error])
    assert row.judgement is not None and row.judgement.values == values


def test_the_votes_of_the_card() -> None:
    answers, scores = ["A", "A", "B", "C"], [0.8, 0.5, 0.9, 0.4]
    winners = majority(answers).winner, best(scores), weighted(answers, scores).winner
    assert [answers[winner] for winner in winners if winner is not None] == ["A", "B", "A"]
    assert weighted(answers, scores).weights == pytest.approx({"A": 1.3, "B": 0.9, "C": 0.4})
    assert weighted(answers, [0.5] * 4).winner == majority(answers).winner


def test_auc_counts_the_steps_up_to_the_first_error_only() -> None:
    said = [Judgement("t", (0.9, 0.8, 0.1, 0.0, 1.0), "prm"), Judgement("u", (0.7,), "prm")]
    assert step_auc(said, [2, -1]) == 1.0
    assert step_auc(said, [0, -1]) == 0.0


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_has_right_and_wrong_traces(domain: str) -> None:
    world, policy = DOMAINS[domain]
    traces = [trace for _, trace in world.traces(policy, 12, 0, "test")]
    assert len({error < 0 for error in first_errors(domain, traces)}) == 2
