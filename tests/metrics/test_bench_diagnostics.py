"""Diagnostics of a judge, by hand: five traces, eleven judged steps with truth."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.metrics.cases import Case
from footfall.metrics.diagnostics import Confusion, diagnose
from footfall.metrics.intervals import wilson
from footfall.types import Judgement, Problem, Step, Trajectory

Row = tuple[tuple[float | None, ...], tuple[float | None, ...]]
"""Truth and values."""

ROWS: list[Row] = [
    ((1, 0, None), (0.9, 0.4, 0.8)),  # first error at 1, found
    ((0, 1), (0.7, 0.2)),  # first error at 0, missed
    ((1, 1), (1.0, 0.9)),  # none, and none is flagged
    ((1, 1, 1, 0), (0.9, 0.9, None, 0.1)),  # first error at 3; an unjudged step comes before
    ((1, None, 0), (1.0, 0.9, 0.3)),  # where the first error is, nobody knows
]


def diagnosed(rows: list[Row]) -> tuple[list[Case], list[Judgement]]:
    cases, said = [], []
    for i, (truth, values) in enumerate(rows):
        trajectory = Trajectory(str(i), Problem("p", "?"), tuple(Step("x") for _ in truth))
        cases.append(Case("s", trajectory, Judgement(str(i), truth, "human")))
        said.append(Judgement(str(i), values, "judge"))
    return cases, said


def test_steps_are_counted_by_truth_and_verdict() -> None:
    found = diagnose(*diagnosed(ROWS), threshold=0.5)
    assert found is not None
    # Known and judged: .9r .4w | .7w .2r | 1r .9r | .9r .9r .1w | 1r .3w
    assert (found.steps, found.wrong, found.unjudged) == (11, 4, 1)
    assert found.confusion == Confusion(wrong_found=3, right_flagged=1, right_passed=6, wrong_missed=1)
    assert sum(found.confusion) == found.steps


def test_the_curve_has_precision_recall_and_f1_of_wrong_steps() -> None:
    found = diagnose(*diagnosed(ROWS), threshold=0.5)
    assert found is not None and len(found.curve) == 101
    at = {round(point.threshold, 2): point[1:] for point in found.curve}
    assert at[0.0] == (None, 0.0, 0.0)  # nothing is below 0, so there is no precision
    assert at[0.5] == pytest.approx((3 / 4, 3 / 4, 6 / 8))
    assert at[0.8] == pytest.approx((4 / 5, 1.0, 8 / 9))
    assert at[1.0] == pytest.approx((4 / 9, 1.0, 8 / 13))  # a value of 1 is not below 1


def test_a_value_at_the_threshold_is_not_below_it() -> None:
    found = diagnose(*diagnosed([((0, 1), (0.5, 0.5))]), threshold=0.5)
    assert found is not None
    assert found.confusion == Confusion(0, 0, 1, 1)


def test_reliability_is_by_bins_of_the_value() -> None:
    found = diagnose(*diagnosed([((1, 0), (0.95, 0.91)), ((0, 0), (0.05, 0.05))]), threshold=0.5)
    assert found is not None
    assert [(b.count, b.observed) for b in found.reliability] == [(2, 0.0), (2, 0.5)]
    assert [b.predicted for b in found.reliability] == pytest.approx([0.05, 0.93])
    assert found.ece == pytest.approx((2 * 0.05 + 2 * 0.43) / 4)


def test_signed_values_have_a_curve_over_their_range_and_no_calibration() -> None:
    found = diagnose(*diagnosed([((1, 0), (3.0, -2.0))]), threshold=0.0)
    assert found is not None
    assert (found.reliability, found.ece) == ((), None)
    assert (found.curve[0].threshold, found.curve[-1].threshold) == (-2.0, 3.0)
    assert found.confusion == Confusion(1, 0, 1, 0)


def test_first_errors_are_found_or_not_by_where_they_are() -> None:
    found = diagnose(*diagnosed(ROWS), threshold=0.5)
    assert found is not None
    assert [(p.label, p.n, p.found) for p in found.positions] == [("0", 1, 0), ("1", 1, 1), ("3-4", 1, 0)]
    assert found.no_error is not None and (found.no_error.n, found.no_error.found) == (1, 1)
    assert found.positions[1][3:] == tuple(wilson(1, 1))


@pytest.mark.parametrize(
    ("at", "label"), [(0, "0"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5-7"), (7, "5-7"), (8, "8+"), (40, "8+")]
)
def test_positions_are_binned_from_zero(at: int, label: str) -> None:
    truth = (1.0,) * at + (0.0,)
    found = diagnose(*diagnosed([(truth, truth)]), threshold=0.5)
    assert found is not None
    assert [(p.label, p.accuracy) for p in found.positions] == [(label, 1.0)] and found.no_error is None


def test_one_value_for_all_steps_still_gives_a_curve() -> None:
    found = diagnose(*diagnosed([((1, 0), (7.0, 7.0))]), threshold=0.5)
    assert found is not None and [p.threshold for p in found.curve] == [7.0]


def test_without_step_truth_there_is_nothing_to_diagnose() -> None:
    assert diagnose(*diagnosed([((None, None), (0.5, 0.5))]), threshold=0.5) is None
    assert diagnose(*diagnosed([((1.0, 0.0), (None, None))]), threshold=0.5) is None


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([k / 20 for k in range(21)])), min_size=1, max_size=30
    )
)
def test_the_curve_is_what_counting_at_each_threshold_gives(steps: list[tuple[float, float]]) -> None:
    truth, values = zip(*steps, strict=True)
    found = diagnose(*diagnosed([(truth, values)]), threshold=0.5)
    assert found is not None
    for point in found.curve:
        called = [value < point.threshold for value in values]
        hits = sum(c and t == 0 for c, t in zip(called, truth, strict=True))
        assert point.precision == (hits / sum(called) if any(called) else None)
        assert point.recall == (hits / truth.count(0.0) if 0.0 in truth else None)


def test_it_is_plain_json() -> None:
    found = diagnose(*diagnosed(ROWS), threshold=0.5)
    assert found is not None
    said = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert said["confusion"] == {"wrong_found": 3, "right_flagged": 1, "right_passed": 6, "wrong_missed": 1}
    assert said["curve"][0] == {"threshold": 0.0, "precision": None, "recall": 0.0, "f1": 0.0}
    assert said["positions"][0]["label"] == "0" and said["no_error"]["accuracy"] == 1.0
