"""UnPRM's orders of probing beside those it is compared with: step by step, and bisection."""

from __future__ import annotations

import pytest

from footfall.label.unprm import Order, Uncertain, probe_order
from tests.label.scripted_policy import Scripted, trace

EIGHT = trace(*(f"Step {k}." for k in range(7)), "The answer is 8.")


@pytest.mark.parametrize(
    ("order", "error", "probes"),
    [
        ("sequential", 5, 6),
        ("sequential", 0, 1),
        ("binary", 5, 3),
        ("binary", 0, 3),
        ("binary", 7, 3),
        ("sequential", 7, 7),
    ],
)
def test_orders_without_log_probabilities_are_exact_if_errors_are_never_repaired(
    order: Order, error: int, probes: int
) -> None:
    policy = Scripted(lambda k, i: "right" if k <= error else "wrong")
    (said,) = Uncertain(policy, order, weighted=False).judge([EIGHT])
    assert said.first_below(0.5) == error and said.aspects["probes"][0] == probes
    assert said.cost.calls == 72 + 16 + 16 * probes


def test_bisection_has_no_order_to_list() -> None:
    assert probe_order([3.0, 1.0, 2.0], "sequential") == [0, 1, 2]
    with pytest.raises(ValueError, match="bisection"):
        probe_order([1.0, 2.0], "binary")


def test_a_trace_of_one_step_needs_no_probe() -> None:
    policy = Scripted(lambda k, i: "right")
    for order in ("sequential", "binary"):
        (said,) = Uncertain(policy, order, weighted=False).judge([trace("The answer is 8.")])
        assert said.values == (0.0,) and said.aspects["probes"] == (0.0,)
