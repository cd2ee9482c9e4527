"""PRLCoder's dense rewards and Self-PRM's test of independence, on the worked numbers of their cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.label.consensus import chi_squared
from footfall.label.execution import outcome_rewards, process_rewards, shaped_rewards


def test_the_cards_five_tokens_with_two_lines() -> None:
    rewards = process_rewards(5, ends=[2, 4], values=[0.8, -0.6])
    assert rewards == [0, 0, 0.8, 0, -0.6]
    shaped = shaped_rewards(rewards, log_ratios=[0.1, 0, 0.2, -0.1, 0.3], beta=0.1)
    assert shaped == pytest.approx([-0.01, 0, 0.78, 0.01, -0.63])


@given(st.dictionaries(st.integers(0, 19), st.floats(-1, 1)))
def test_process_rewards_sum_to_the_values_of_the_lines(lines: dict[int, float]) -> None:
    ends = sorted(lines)
    rewards = process_rewards(20, ends, [lines[end] for end in ends])
    assert sum(rewards) == pytest.approx(sum(lines.values())) and len(rewards) == 20
    assert shaped_rewards(rewards, [3.0] * 20, beta=0.0) == rewards


def test_the_outcome_stands_at_the_last_token_alone() -> None:
    assert outcome_rewards(4, -1.0) == [0, 0, 0, -1]


@pytest.mark.parametrize("ends", [[5], [-1], [2, 2], [3, 1]])
def test_lines_end_one_after_the_other_within_the_tokens(ends: list[int]) -> None:
    with pytest.raises(ValueError, match="growing tokens from 0 to 4"):
        process_rewards(5, ends, [1.0] * len(ends))


def test_chi_squared_of_the_cards_table_is_20() -> None:
    assert chi_squared([[30, 10], [10, 30]]) == pytest.approx(20.0)
    assert chi_squared([[20, 20], [20, 20]]) == 0.0, "independent"
    assert chi_squared([[10, 0], [5, 0]]) is None, "if nobody is ever wrong, nothing can be said"
    assert chi_squared([]) is None


count = st.integers(1, 50)


@given(count, count, count, count)
def test_chi_squared_of_four_counts_is_the_closed_form(a: int, b: int, c: int, d: int) -> None:
    closed = (a + b + c + d) * (a * d - b * c) ** 2 / ((a + b) * (c + d) * (a + c) * (b + d))
    assert chi_squared([[a, b], [c, d]]) == pytest.approx(closed)
