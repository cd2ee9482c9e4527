"""Every filter on the worked numbers of its paper or card: what it keeps of a batch, and what it must leave."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.registry import create
from footfall.rl.filters import consistency, damped, refuse_empty, removed, task_values
from footfall.rl.groups import Group, Rollout
from tests.rl.test_rl_credits import close, ends, steps


def prof_group() -> Group:
    right, wrong = (0.9, 0.4, 0.8, 0.55, 0.7), (0.2, 0.6, 0.35)
    return Group(tuple(steps(v, v, outcome=y) for values, y in ((right, 1.0), (wrong, 0.0)) for v in values))


def test_prof_balances_what_it_keeps() -> None:
    c = [
        consistency(np.array([v, v]), y, 0.5625)
        for v, y in zip((0.9, 0.4, 0.8, 0.55, 0.7, 0.2, 0.6, 0.35), [1.0] * 5 + [0.0] * 3, strict=True)
    ]
    assert c == close([0.675, -0.325, 0.475, -0.025, 0.275, 0.725, -0.075, 0.425])
    ((at, weights),) = create("filter", "prof")([prof_group()])
    assert at == 0 and weights.tolist() == [1, 0, 1, 0, 0, 1, 0, 1]
    assert consistency(np.array([0.9]), 1.0, 0.5, penalty=0.3) == close(0.5)


@pytest.mark.parametrize(
    ("right", "wrong", "count", "lost"),
    [(0, 8, 4, (0, 4)), (8, 0, 4, (4, 0)), (1, 7, 4, (0, 4)), (2, 2, 1, (0, 1)), (4, 3, 4, (2, 2)), (5, 3, 9, (5, 3))],
)
def test_how_many_prof_removes_of_each(right: int, wrong: int, count: int, lost: tuple[int, int]) -> None:
    # (4 - 3 + 4) / 2 = 2.5 and (2 - 2 + 1) / 2 = 0.5 are rounded to the even number.
    found = removed(list(range(right)), list(range(wrong)), count)
    assert (len(found[0]), len(found[1])) == lost


@pytest.mark.parametrize("name", ["prof", "band", "spread", "vspo"])
def test_a_filter_must_leave_something_to_compare(name: str) -> None:
    refuse_empty(create("filter", name), 8)
    if name == "prof":
        refuse_empty(create("filter", name, remove=2), 4)
        with pytest.raises(ValueError, match="keeps 1 of a group's 5 rollouts"):
            refuse_empty(create("filter", name, remove=4), 5)
    else:
        refuse_empty(create("filter", name), 2)


@pytest.mark.parametrize(
    ("name", "options"),
    [("prof", {"remove": -1}), ("band", {"low": 0.9}), ("band", {"high": 1.5}), ("vspo", {"most": 0})],
)
def test_settings_that_no_filter_can_mean_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"want|or more|at least"):
        create("filter", name, **options)


def test_prof_may_draw_the_wrong_ones() -> None:
    kept = {
        create("filter", "prof", wrong_at_random=True, seed=seed)([prof_group()])[0].weights.tobytes()
        for seed in range(20)
    }
    assert len(kept) == 3, "one of three wrong ones goes; the right ones are always the same"


def test_groups_by_accuracy_and_by_spread() -> None:
    groups = [Group(tuple(ends(*row))) for row in ((1, 1, 1, 1), (0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1, 0))]
    assert [at for at, _ in create("filter", "band")(groups)] == [2, 3]
    assert [at for at, _ in create("filter", "band", low=0.5)(groups)] == [3]
    assert [at for at, _ in create("filter", "spread")(groups)] == [2, 3]


def test_the_difficulty_of_vspo_is_greatest_where_half_is_right() -> None:
    rows = [np.array([1.0] * k + [0.0] * (8 - k)) for k in (0, 2, 4, 7, 8)]
    assert [task_values([row])[0] for row in rows] == close([0, 0.75, 1, 0.4375, 0])


def test_vspo_refills_the_batch_from_groups_that_teach() -> None:
    rows = [[1.0] * 8, [0.0] * 8, [1.0] * 2 + [0.0] * 6, [1.0] * 4 + [0.0] * 4]
    values = task_values([np.array(row) for row in rows])
    assert values[:2].tolist() == [0, 0] and values[2] / values[3] == close(0.75 * math.sqrt(0.1875) / 0.5)
    groups = [Group(tuple(ends(*row))) for row in rows]
    chosen = create("filter", "vspo")(groups)
    assert len(chosen) == 4 and {at for at, _ in chosen} == {2, 3}
    assert create("filter", "vspo")(groups[2:]) != [] and all(
        (w == 1).all() for _, w in create("filter", "vspo")(groups[2:])
    )
    assert create("filter", "vspo")(groups[:2]) == []
    assert create("filter", "vspo")([Group(tuple(ends(*[0.3] * 7)))]) == [], "whose std is a rounding"


def test_one_vspo_filter_draws_every_batch_anew_and_the_same_batch_alike() -> None:
    """A run has one filter for all of its batches. A hard group and an even one replace a dead one, 0.22 to 0.78."""
    keep, chance = create("filter", "vspo"), np.random.default_rng(0)
    drawn = []
    for update in range(600):
        hard, dead, _ = chance.permutation(3)
        right = {hard: 1, dead: 0}
        rows = [
            [Rollout(chance.integers(1, 9, 2), float(i < right.get(k, 4))) for i in chance.permutation(8)]
            for k in range(3)
        ]
        chosen = [at for at, _ in keep([Group(tuple(row), f"{update}") for row in rows])]
        again = create("filter", "vspo")([Group(tuple(row), "another name") for row in rows])
        assert chosen == [at for at, _ in again], "a resumed run chooses as it did"
        drawn.append(chosen.count(hard) - 1)
    values = task_values([np.array([1.0] * n + [0.0] * (8 - n)) for n in (1, 4)])
    assert np.mean(drawn) == pytest.approx(values[0] / values.sum(), abs=0.05)


@pytest.mark.parametrize("outcomes", [(1.0, 2.0), (-1.0, 1.0), (-0.2, 0.4)])
@pytest.mark.parametrize("name", ["prof", "band", "vspo"])
def test_outcomes_that_are_no_shares_of_right_are_refused(name: str, outcomes: tuple[float, float]) -> None:
    """A band of accuracies means nothing for logits, sums or ±1; the spread of outcomes does."""
    group = Group(tuple(steps(0.2, 0.9, outcome=R) for R in outcomes))
    with pytest.raises(ValueError, match=r"an outcome is .* wants outcomes in \[0, 1\]: pay by the answer"):
        create("filter", name)([group])
    assert len(create("filter", "spread")([group])) == 1


def test_prof_keeps_right_ones_by_an_outcome_of_more_than_a_half() -> None:
    """As c is positive where steps and outcome go together; a judge's outcome is seldom 1."""
    group = Group(tuple(replace(each, outcome=0.1 + 0.8 * float(each.outcome or 0)) for each in prof_group().rollouts))
    assert create("filter", "prof")([group])[0].weights.tolist() == [1, 0, 1, 0, 0, 1, 0, 1]


@settings(deadline=None)
@given(st.integers(1, 50))
def test_a_group_that_is_used_often_has_a_bounded_influence(times: int) -> None:
    assert times * damped(times) == close(math.sqrt(min(times, 4)))
