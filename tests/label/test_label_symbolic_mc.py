"""Symbolically guided Monte Carlo: the card's products, pairs and splits."""

from __future__ import annotations

import pytest

from footfall.label.monte_carlo import (
    fit_for_sft,
    parse_verdict,
    preference_pairs,
    react_steps,
    symbolic_mc,
    trajectory_score,
)
from footfall.policy.protocol import SamplingParams
from footfall.types import Judged, Judgement, Problem, Reason, Step, Trajectory, Unjudged
from footfall.worlds import LogicPolicy, LogicWorld

A, B, C = (0.9, 0.8, 0.95), (0.9, 0.4, 0.7), (0.6, 0.9, 0.9)


def test_products_and_pairs_are_those_of_the_card() -> None:
    scores = [trajectory_score(steps) for steps in (A, B, C)]
    assert scores == pytest.approx([0.684, 0.252, 0.486])
    assert preference_pairs(scores) == [(0, 1)]
    between = {(0, 1): 0.432, (2, 1): 0.234, (0, 2): 0.198}
    for pair, difference in between.items():
        assert pair in preference_pairs(scores, difference - 1e-6) and pair not in preference_pairs(
            scores, difference + 1e-6
        )


def test_siblings_of_the_card_srm_findings_are_a_pair_beyond_0_7() -> None:
    assert preference_pairs([0.9, 0.25], 0.7) == [] and preference_pairs([0.95, 0.2], 0.7) == [(0, 1)]


def test_the_product_punishes_length() -> None:
    assert trajectory_score([0.95] * 10) == pytest.approx(0.5987, abs=5e-5)


@pytest.mark.parametrize(
    ("steps", "correct", "kept"), [(A, True, True), (C, True, True), (B, True, False), (A, False, False)]
)
def test_sft_keeps_what_is_good_at_every_step_and_right_in_the_end(
    steps: tuple[float, ...], correct: bool, kept: bool
) -> None:
    trace = Trajectory("t", Problem("p", "?"), tuple(Step(str(k)) for k in range(3)), correct=correct)
    assert fit_for_sft(Judged(trace, Judgement("t", steps, "prm"))) is kept


def test_a_step_that_nobody_judged_is_not_fit() -> None:
    trace = Trajectory("t", Problem("p", "?"), (Step("a"),), correct=True)
    assert not fit_for_sft(
        Judged(trace, Judgement("t", (None,), "prm", failures=(Unjudged(Reason.TOO_LONG, "too long"),)))
    )


@pytest.mark.parametrize(
    "marks", ["Thought Action Observation Action Observation", "Action Observation Thought Action Observation"]
)
def test_traces_split_at_thoughts_and_at_second_actions(marks: str) -> None:
    text = "\n".join(f"{mark}: something" for mark in marks.split())
    steps = react_steps(text)
    assert len(steps) == 2 and "\n".join(steps) == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [("so [True]", "A"), ("[yes]", "A"), ("[false] no, [B]", "B"), ("[Uncertain]", "C"), ("[17]", "C"), ("true", "C")],
)
def test_the_last_bracket_is_the_answer(text: str, answer: str) -> None:
    assert parse_verdict(text) == answer


def test_every_step_but_the_last_gets_five_continuations() -> None:
    trace = next(trace for _, trace in LogicWorld().traces(LogicPolicy(), 1, seed=1))
    said = symbolic_mc(LogicPolicy(), params=SamplingParams(seed=1)).judge([trace])[0]
    assert set(said.aspects["rollouts"][:-1]) == {5.0} and said.values[-1] == float(bool(trace.correct))
