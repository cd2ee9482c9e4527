"""Metrics and intervals: the worked numbers of the cards processbench and prmbench, then slow independent versions."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.metrics.intervals import bootstrap_mean, case_weights, from_resamples, paired_difference, wilson
from footfall.metrics.steps import (
    auc,
    average_precision,
    brier,
    calibration_error,
    first_error_f1,
    positive_calibration_error,
    prm_counts,
    prm_score,
    reliability,
)
from footfall.types import Judgement


def test_processbench_card_check_1() -> None:
    figures = first_error_f1([2, 1, 0, 4, 0, -1, -1, -1], [2, -1, 0, None, -1, 3, -1, -1])
    assert figures == pytest.approx((0.40, 2 / 3, 0.50))


@pytest.mark.parametrize(
    ("scores", "first"), [((0.9, 0.8, 0.49, 0.2), 2), ((0.5, 0.6), -1), ((0.1, 0.9), 0), ((None, 0.1), None)]
)
def test_processbench_card_check_2(scores: tuple[float | None, ...], first: int | None) -> None:
    assert Judgement("t", scores, "j").first_below(0.5) == first


def test_processbench_card_check_3_constant_predictors_get_nothing() -> None:
    assert first_error_f1([0, 2, -1], [-1, -1, -1]) == (0, 1, 0)
    assert first_error_f1([0, 2, -1], [0, 0, 0]) == (0.5, 0, 0)
    assert first_error_f1([1, -1], [0, 0]) == (0, 0, 0)  # the official script divides by zero here


def test_r_prm_card_a_judge_right_on_3_of_5_wrong_and_4_of_5_right_solutions() -> None:
    found = first_error_f1([2] * 5 + [-1] * 5, [2, 2, 2, 1, -1, -1, -1, -1, -1, 0])
    assert found == pytest.approx((0.6, 0.8, 0.685714), abs=1e-6)


def test_a_class_without_cases_has_no_figure() -> None:
    figures = first_error_f1([0, 2], [0, 2])
    assert figures.acc_err == 1
    assert math.isnan(figures.acc_cor) and math.isnan(figures.f1)


@pytest.mark.parametrize(
    ("labels", "said", "figures"),
    [
        ("++--+-+", "+++-+--", (0.75, 0.666667, 0.708333)),  # visualprm at .85, its neutral step dropped
        ("++--+-+", "+++-+-+", (0.888889, 0.8, 0.844444)),  # at .5
        ("++-+", "+--+", (0.8, 0.666667, 0.733333)),  # vrprm
        ("++--", "++-+", (0.8, 0.666667, 0.733333)),  # tim-prm
        ("+" * 8 + "-" * 4, "+" * 6 + "--" + "+---", (0.8, 0.666667, 0.733333)),  # mpbench
    ],
)
def test_macro_f1_of_the_cards_of_visual_and_multi_task_benchmarks(
    labels: str, said: str, figures: tuple[float, float, float]
) -> None:
    right, called_right = ([sign == "+" for sign in row] for row in (labels, said))
    assert prm_score(*prm_counts(right, called_right))[:3] == pytest.approx(figures, abs=1e-6)


def test_prmbench_card_check_1() -> None:
    case_a = prm_counts([True, True, False, False, False, True, True], [True, True, False, True, False, True, True])
    case_b = prm_counts([True, False, True, True], [True, False, True, False])
    pooled = tuple(a + b for a, b in zip(case_a, case_b, strict=True))
    assert pooled == (6, 1, 3, 1)
    figures = prm_score(*pooled)
    assert figures == pytest.approx((0.857143, 0.75, 0.803571, 9 / 11), abs=1e-6)


def test_prmbench_card_check_2_constant_judges_on_the_full_counts() -> None:
    errors, steps = 13149, 83371
    said_right = prm_score(tp=steps - errors, fp=errors, tn=0, fn=0)
    assert said_right == pytest.approx((0.914391, 0, 0.457195, 1 - errors / steps), abs=1e-6)
    assert prm_score(tp=0, fp=0, tn=errors, fn=steps - errors).score == pytest.approx(0.136231, abs=1e-6)


def test_prm_steps_beyond_the_given_labels_are_not_counted() -> None:
    assert prm_counts([True, False, True], [True, False]) == (1, 0, 1, 0)


scored = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


@given(scored)
def test_auc_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[int, bool]]) -> None:
    pairs = [(a > b) + 0.5 * (a == b) for a, right in rows if right for b, other in rows if not other]
    measured = float(auc([s for s, _ in rows], [right for _, right in rows]))
    assert measured == pytest.approx(np.mean(pairs)) if pairs else math.isnan(measured)


@given(scored, st.data())
def test_weights_count_a_row_as_often_as_they_say(rows: list[tuple[int, bool]], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    repeated = [row for row, k in zip(rows, times, strict=True) for _ in range(k)]
    weights = np.array([times], dtype=float)
    values, truth = np.array([s / 5 for s, _ in rows]), np.array([float(right) for _, right in rows])
    if not repeated:
        return
    again, says = np.array([s / 5 for s, _ in repeated]), np.array([float(right) for _, right in repeated])
    for metric in (auc, brier, average_precision):
        assert metric(values, truth, weights)[0] == pytest.approx(float(metric(again, says)), nan_ok=True)
    for error in (calibration_error, positive_calibration_error):
        assert error(values, truth, 10, weights)[0] == pytest.approx(float(error(again, says)), abs=1e-12)


def test_average_precision_by_hand() -> None:
    # From the top: right (P 1/1), wrong, right (P 2/3): (1 + 2/3) / 2.
    assert float(average_precision([0.9, 0.8, 0.7], [1, 0, 1])) == pytest.approx(5 / 6)


def test_brier_and_calibration_error_by_hand() -> None:
    values, truth = [0.95, 0.95, 0.15, 0.15], [1, 0, 0, 0.2]
    assert float(brier(values, truth)) == pytest.approx((0.05**2 + 0.95**2 + 0.15**2 + 0.05**2) / 4)
    # Bin [.9, 1]: |.95 - .5| with weight 1/2; bin [.1, .2]: |.15 - .1| with weight 1/2.
    assert float(calibration_error(values, truth)) == pytest.approx(0.5 * 0.45 + 0.5 * 0.05)


def test_positive_calibration_error_by_hand() -> None:
    """Of three bins two say more than is true: .95 of .5 in half of the rows, .15 of 0 in a quarter; .65 of 1 says less."""
    values, truth = [0.95, 0.95, 0.15, 0.65], [1, 0, 0, 1]
    assert float(positive_calibration_error(values, truth)) == pytest.approx(0.5 * 0.45 + 0.25 * 0.15)
    assert float(calibration_error(values, truth)) == pytest.approx(0.5 * 0.45 + 0.25 * 0.15 + 0.25 * 0.35)
    # Values that are never too high have none, and those that are never too low have nothing else.
    assert float(positive_calibration_error([0.65, 0.3], [1, 1])) == 0
    assert float(positive_calibration_error([0.65, 0.3], [0, 0])) == pytest.approx((0.65 + 0.3) / 2)


@given(scored)
def test_over_and_under_confidence_are_all_of_the_calibration_error(rows: list[tuple[int, bool]]) -> None:
    """PCE of p against y, and of 1 − p against 1 − y, which turns too high into too low, add up to the ECE."""
    values, truth = np.array([s / 5 * 0.9 + 0.05 for s, _ in rows]), np.array([float(right) for _, right in rows])
    over, under = positive_calibration_error(values, truth), positive_calibration_error(1 - values, 1 - truth)
    assert float(over + under) == pytest.approx(float(calibration_error(values, truth)), abs=1e-12)


def test_reliability_bins_hold_every_value_once() -> None:
    bins = reliability([0.0, 0.05, 0.1, 1.0], [0, 0, 1, 1])
    assert [(b.start, b.end, b.count) for b in bins] == [(0, 0.1, 2), (0.1, 0.2, 1), (0.9, 1.0, 1)]
    assert (bins[0].predicted, bins[0].observed) == (0.025, 0)


def test_metrics_refuse_what_they_cannot_measure() -> None:
    with pytest.raises(ValueError, match="sigmoid"):
        brier([1.5], [1])
    with pytest.raises(ValueError, match="shapes"):
        auc([0.1, 0.2], [1])
    with pytest.raises(ValueError, match="no step"):
        auc([], [])
    with pytest.raises(ValueError, match="2 labels but 1"):
        first_error_f1([0, 1], [0])


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_refused_rather_than_left_out_of_some_resamples(odd: float) -> None:
    with pytest.raises(ValueError, match=f"problem 1 has the value {odd:g}: leave out"):
        bootstrap_mean([1.0, odd, 0.0])
    with pytest.raises(ValueError, match="problem 2 has the value nan"):
        paired_difference([1.0, 0.0, math.nan], [1.0, 1.0, odd])


def test_a_bootstrap_interval_is_as_wide_as_the_normal_one() -> None:
    values = np.random.default_rng(1).random(400)
    interval = bootstrap_mean(values, seed=3)
    half = 1.96 * values.std() / 20
    assert interval.value == values.mean()
    assert (interval.low, interval.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=half / 8)
    assert interval == bootstrap_mean(values, seed=3)
    assert interval != bootstrap_mean(values, seed=4)


def test_a_bootstrap_over_more_cases_takes_no_more_memory() -> None:
    peaks = []
    for cases in (8_000, 32_000):
        values = np.random.default_rng(1).random(cases)
        tracemalloc.start()
        bootstrap_mean(values, resamples=256)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("at_once", [1, 1000, 4321])
def test_a_bootstrap_is_the_same_however_many_resamples_are_drawn_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(1).random(333)
    whole = bootstrap_mean(values, seed=3)
    monkeypatch.setattr("footfall.metrics.intervals._CASES_AT_ONCE", at_once)
    assert bootstrap_mean(values, seed=3) == whole


def test_pairing_takes_out_what_two_methods_share() -> None:
    difficulty = np.random.default_rng(0).normal(0, 10, 200)
    interval = paired_difference(difficulty + 1.0, difficulty)
    assert interval == pytest.approx((1, 1, 1))
    with pytest.raises(ValueError, match="same problems"):
        paired_difference([1, 2], [1])


def test_wilson_interval_by_hand() -> None:
    assert wilson(8, 10) == pytest.approx((0.8, 0.490162, 0.943318), abs=1e-6)
    for n in range(1, 60):
        assert wilson(0, n).low == wilson(0, n).value == 0 and wilson(n, n).high == wilson(n, n).value == 1, n


def test_resamples_keep_each_stratum_s_size_and_the_first_row_is_the_data() -> None:
    weights = case_weights(["a", "a", "b", "a", "b"], seed=0, resamples=50)
    assert weights.shape == (51, 5)
    assert (weights[0] == 1).all()
    assert (weights[:, [0, 1, 3]].sum(axis=1) == 3).all()
    assert (weights[:, [2, 4]].sum(axis=1) == 2).all()


def test_resamples_without_a_value_are_left_out_of_the_interval() -> None:
    assert from_resamples(np.array([0.5, math.nan, 0.5])) == (0.5, 0.5, 0.5)
