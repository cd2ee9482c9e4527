"""The blurred judge: the policy's values, moved by a known amount."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from footfall.metrics.steps import auc
from footfall.simulate import Blurred, blurred_value
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld, ExactValueJudge

TRACES = [trace for _, trace in ArithmeticWorld().traces(ArithmeticPolicy(), 400, seed=2)]


def test_a_value_moves_on_the_scale_of_logits() -> None:
    assert blurred_value(0.5, math.log(3), 0.1) == pytest.approx(0.75)
    assert blurred_value(1.0, 0.0, 0.1) == pytest.approx(0.9) and blurred_value(0.0, 0.0, 0.1) == pytest.approx(0.1)


def test_without_blur_it_is_the_exact_value_inside_the_floor() -> None:
    said, exact = (judge.judge(TRACES[:20]) for judge in (Blurred(ArithmeticPolicy(), 0.0), ExactValueJudge()))
    for mine, true in zip(said, exact, strict=True):
        assert mine.values == pytest.approx([min(max(v or 0.0, 0.1), 0.9) for v in true.values])


def test_finished_solutions_are_told_apart_as_stated() -> None:
    ends = [said.values[-1] or 0.0 for said in Blurred(ArithmeticPolicy()).judge(TRACES)]
    stated = NormalDist().cdf(math.sqrt(2) * math.log(9) / 2)
    assert stated == pytest.approx(0.94, abs=0.005)
    assert auc(ends, [bool(trace.correct) for trace in TRACES]) == pytest.approx(stated, abs=0.03)


def test_the_same_text_has_the_same_value_and_another_seed_another() -> None:
    judge = Blurred(ArithmeticPolicy(), seed=1)
    again = Blurred(ArithmeticPolicy(), seed=1).judge(TRACES[5:6])[0]
    assert judge.judge(TRACES[:10])[5].values == again.values
    assert judge.judge([TRACES[5].prefix(1)])[0].values == again.values[:1]
    assert Blurred(ArithmeticPolicy(), seed=2).judge(TRACES[5:6])[0].values != again.values


def test_reading_and_writing_cost() -> None:
    cost = Blurred(ArithmeticPolicy(), price=30).judge(TRACES[:1])[0].cost
    assert (cost.generated_tokens, cost.scored_tokens) == (30, len(TRACES[0].text.split()))


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"sigma": -1.0}, {"floor": 0.5}, {"price": -1}):
        with pytest.raises(ValueError, match="must not be negative"):
            Blurred(ArithmeticPolicy(), **wrong)
