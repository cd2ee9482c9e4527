"""Rollouts and groups: what they refuse, how traces become rollouts, and what every credit must keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footfall.policy.splitting import trajectory_from_ids
from footfall.registry import create, declared, parts
from footfall.rl.groups import (
    Chosen,
    Credit,
    Credited,
    Filter,
    Group,
    Rollout,
    at_ends,
    by_step,
    credited,
    dense,
    leave_one_out,
    padded,
    rollout,
    spread,
    standardised,
    to_go,
)
from footfall.rl.rewards import Reward
from footfall.types import AFTER_ERROR, Judgement, Problem, Reason, Step, Trajectory, Unjudged
from tests.render.test_render_trace import byte_level

CREDITS = list(parts("credit"))
FILTERS = list(parts("filter"))


def make(seed: int, outcome: float = 1.0, steps: int | None = None) -> Rollout:
    """A rollout that has everything, so that every credit can use it."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(1, 5)) if steps is None else steps
    lengths = rng.integers(1, 4, steps)
    tokens = int(lengths.sum())
    solved = rng.choice([0.0, 0.5, 1.0], steps)
    return Rollout(
        lengths, outcome, rng.uniform(0.05, 0.95, steps), float(rng.uniform()), ids=rng.integers(0, 3, tokens),
        old=-rng.exponential(size=tokens), reference=-rng.exponential(size=tokens), online=-rng.exponential(size=tokens),
        token_scores=rng.uniform(size=tokens), flow=rng.uniform(size=tokens), confidence=rng.uniform(size=steps),
        aspects={"solved": solved},
    )  # fmt: skip


def batch(seed: int, groups: int = 2, size: int = 4) -> list[Group]:
    rng = np.random.default_rng(seed)
    return [
        Group(tuple(make(int(rng.integers(1 << 30)), float(rng.integers(2))) for _ in range(size)))
        for _ in range(groups)
    ]


def flat(said: Sequence[Credited]) -> list[np.ndarray]:
    return [row for each in said for row in (*each.advantages, *each.weights)]


def alike(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> None:
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


# What a rollout is.


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        ({"lengths": [2, 1], "rewards": [0.5]}, r"rewards has the shape \(1,\) where the rollout has 2"),
        ({"lengths": [2, 1], "old": [0.0, 0.0]}, r"old has the shape \(2,\) where the rollout has 3"),
        ({"lengths": []}, "at least one token"),
        ({"lengths": [0]}, "at least one token"),
        ({"lengths": [1, 1], "rewards": [0.5, float("nan")]}, "rewards of a rollout is not finite at 1"),
        ({"lengths": [1], "old": [-np.inf]}, "old of a rollout is not finite at 0"),
        ({"lengths": [1], "outcome": float("nan")}, "outcome of a rollout is nan"),
        ({"lengths": [1], "start": float("inf")}, "start of a rollout is inf"),
    ],
)
def test_a_rollout_whose_numbers_do_not_fit_is_refused(given_: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Rollout(**given_)


def test_an_outcome_by_a_judge_that_stops_at_the_first_error_is_no_lost_rollout() -> None:
    """They were paid by their answers instead, or left where these are not known."""
    trace = Trajectory("t", Problem("p", "?"), (Step("good"), Step("bad"), Step("worse")), correct=True)
    stopped = Judgement("t", (1.0, 0.2, None), "judge", failures=(None, None, AFTER_ERROR))

    class Silent:
        name = "silent"

        def judge(self, traces: Sequence[Trajectory]) -> list[Judgement]:
            return [stopped for _ in traces]

    for after_error, least, mean in ((0.0, 0.0, 0.4), (0.1, 0.1, 1.3 / 3), (None, None, None)):
        for how, wanted in (("min", least), ("mean", mean)):
            paid = Reward(create("credit", "spark"), Silent(), outcome=how, after_error=after_error)
            assert paid.rollout(trace, stopped).outcome == pytest.approx(wanted)


def test_a_completion_with_a_worthless_step_is_paid_by_log_prod_too() -> None:
    """Behind the first error of a judge that stops there every step is worth 0, which has no logarithm."""
    trace = Trajectory("t", Problem("p", "?", "1"), (Step("a"), Step("b"), Step("c")))
    said = Judgement("t", (0.5, 0.0, None), "silent", failures=(None, None, AFTER_ERROR))
    paid = Reward(create("credit", "grpo"), create("labeller", "truth-arithmetic"), outcome="log-prod")
    assert paid.outcome_of(trace, said) == pytest.approx(math.log(0.5) - 2 * 23.02585)


def test_from_steps_to_tokens_and_back() -> None:
    lengths = np.array([2, 0, 3])
    assert spread([1.0, 5.0, 2.0], lengths).tolist() == [1, 1, 2, 2, 2]
    assert at_ends([1.0, 5.0, 2.0], lengths).tolist() == [0, 6, 0, 0, 2]
    assert by_step(np.arange(5.0), lengths).tolist() == [1, 0, 9]
    assert to_go([1.0, 2.0, 4.0]).tolist() == [7, 6, 4] and to_go([1.0, 2.0, 4.0], 0.5).tolist() == [3, 4, 4]


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_the_sum_to_go_at_the_first_token_is_the_sum(rewards: list[float]) -> None:
    lengths = np.arange(1, len(rewards) + 1)
    assert to_go(at_ends(rewards, lengths))[0] == pytest.approx(sum(rewards), abs=1e-9)
    np.testing.assert_allclose(to_go(at_ends(rewards, lengths)), spread(to_go(rewards), lengths), atol=1e-9)


def test_a_trace_becomes_a_rollout_with_its_authors_and_its_end_token() -> None:
    steps = (
        Step("look", token_ids=(5, 6), logprobs=(-0.1, -0.2), observation="42", observation_ids=(7, 8, 9)),
        Step("so 42", token_ids=(10,), logprobs=(-0.3,)),
    )
    trace = Trajectory("t", Problem("p", "?"), steps, correct=True, tokenizer="v")
    said = Judgement("t", (0.9, 0.4), "judge", initial=0.5, token_values=((0.1, 0.2), (0.3,)))
    plain = rollout(trace, said)
    assert plain.lengths.tolist() == [5, 1] and plain.mask.tolist() == [True, True, False, False, False, True]
    assert plain.known("ids").tolist() == [5, 6, 7, 8, 9, 10]
    assert plain.known("old").tolist() == [-0.1, -0.2, 0, 0, 0, -0.3]
    assert (plain.outcome, plain.start) == (1.0, 0.5) and plain.known("rewards").tolist() == [0.9, 0.4]
    ended = rollout(trace, said, tail=1, old=np.zeros(7))
    assert ended.lengths.tolist() == [5, 2] and ended.mask[-1] and ended.ids is None


def test_completion_ids_of_a_trainer_become_a_rollout_token_for_token() -> None:
    tokenizer = byte_level()
    said, heard, then = (list(tokenizer.encode(text)) for text in ("look\nask\n", "[tool] 42", "so 42"))
    end = int(tokenizer.eos_token_id)
    ids, own = [*said, *heard, *then, end], [True] * len(said) + [False] * len(heard) + [True] * (len(then) + 1)
    trace, ends = trajectory_from_ids(
        Problem("p", "?"), [*ids, end, end], tokenizer, "\n", policy_mask=[*own, False, False]
    )
    made = rollout(trace, Judgement(trace.id, (0.9, 0.5, 0.1), "judge"), 1.0, tail=1, ids=ids, old=np.zeros(len(ids)))
    assert made.tokens == len(ids) and made.mask.tolist() == own and made.known("ids").tolist() == ids
    paid = np.flatnonzero(at_ends([1.0, 1.0, 1.0], made.lengths)).tolist()
    assert paid[0] == ends[0] and paid[1] == ends[1] + len(heard) and paid[2] == len(ids) - 1
    (credited_,) = create("credit", "grpo-process")([Group((made, make(1)))])
    assert len(credited_.advantages[0]) == len(ids) and not credited_.advantages[0][~made.mask].any()


def test_a_trace_without_ids_has_one_token_a_step_and_an_empty_one_has_its_end_token() -> None:
    trace = Trajectory("t", Problem("p", "?"), (Step("a"), Step("b")), correct=False)
    assert rollout(trace).lengths.tolist() == [1, 1] and rollout(trace).outcome == 0
    nothing = rollout(replace(trace, steps=()), Judgement("t", (), "judge"), 0.0, tail=1)
    assert nothing.tokens == 1 and nothing.rewards is None and "no step" in str(nothing.failure)


def test_an_unjudged_step_takes_the_whole_rollout_out_unless_the_judge_only_stopped_at_an_error() -> None:
    trace = Trajectory("t", Problem("p", "?"), (Step("a"), Step("b")))
    failed = Judgement("t", (0.9, None), "judge", failures=(None, Unjudged(Reason.CUT, "the reply was cut")))
    assert rollout(trace, failed, after_error=0.0).failure == "the reply was cut"
    stopped = Judgement("t", (0.1, None), "judge", failures=(None, AFTER_ERROR))
    assert rollout(trace, stopped).rewards is None
    assert rollout(trace, stopped, after_error=0.0).known("rewards").tolist() == [0.1, 0.0]


# Statistics.


def test_one_value_alone_is_compared_with_nothing() -> None:
    assert standardised([3.0]).tolist() == [0] and leave_one_out([3.0]).tolist() == [0]


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6))
def test_leave_one_out_is_each_less_the_mean_of_the_others(values: list[float]) -> None:
    wanted = [v - (sum(values) - v) / (len(values) - 1) for v in values]
    np.testing.assert_allclose(leave_one_out(values), wanted, atol=1e-9)


@pytest.mark.parametrize("baseline", ["step", "total"])
def test_with_the_outcome_alone_dense_rewards_are_rloo(baseline: Any) -> None:
    group = [make(1, 1.0), make(2, 0.0), make(3, 1.0)]
    ends = [float(each.outcome or 0) * (np.arange(each.steps) == each.steps - 1) for each in group]
    rows = dense(group, ends, baseline)
    np.testing.assert_allclose([row[0] for row in rows], leave_one_out([1.0, 0.0, 1.0]))
    assert all(np.ptp(row) == 0 for row in rows)


def test_the_baseline_of_a_step_is_what_the_others_still_got_from_there() -> None:
    group = [Rollout(np.array([1, 1])), Rollout(np.array([1]))]
    rows = dense(group, [np.array([1.0, 2.0]), np.array([5.0])])
    assert [row.tolist() for row in rows] == [[-2, -3], [2]]
    assert [row.tolist() for row in dense(group, [np.array([1.0, 2.0]), np.array([5.0])], "none")] == [[3, 2], [5]]
    assert [row.tolist() for row in dense(group[:1], [np.array([1.0, 2.0])])] == [[0, 0]]


# What every credit keeps.


@pytest.mark.parametrize("name", CREDITS)
def test_a_credit_declares_what_it_needs(name: str) -> None:
    said = declared("credit", name)
    assert said.needs == create("credit", name).needs and said.paper is not None


@pytest.mark.parametrize("name", CREDITS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(4)))
def test_the_order_of_a_group_does_not_matter(name: str, seed: int, order: list[int]) -> None:
    groups, credit = batch(seed), create("credit", name)
    turned = [Group(tuple(group.rollouts[i] for i in order)) for group in groups]
    there, here = credit(turned), credit(groups)
    alike([row for each in there for row in each.advantages], [each.advantages[i] for each in here for i in order])
    alike([row for each in there for row in each.weights], [each.weights[i] for each in here for i in order])


@pytest.mark.parametrize("name", CREDITS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), lacking=st.integers(0, 3))
def test_a_rollout_without_what_is_needed_leaves_as_if_it_had_never_been_there(
    name: str, seed: int, lacking: int
) -> None:
    groups, credit = batch(seed), create("credit", name)
    why = Unjudged(Reason.FAILED_CALL, "the server fell over")
    rows = list(groups[0].rollouts)
    without: dict[str, Any] = dict.fromkeys(credit.needs)
    rows[lacking] = replace(rows[lacking], failure=why, **without)
    said = credit([Group(tuple(rows)), groups[1]])
    others = [each for i, each in enumerate(rows) if i != lacking]
    alone = credit([Group(tuple(others)), groups[1]])
    assert list(said[0].left) == [lacking]
    assert not said[0].advantages[lacking].any() and not said[0].weights[lacking].any()
    alike([row for i, row in enumerate(said[0].advantages) if i != lacking], alone[0].advantages)
    alike(said[1].advantages, alone[1].advantages)


@pytest.mark.parametrize("name", CREDITS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_what_the_environment_wrote_gets_nothing_and_padding_changes_nothing(name: str, seed: int) -> None:
    groups, credit = batch(seed), create("credit", name)
    rows = [
        replace(each, mask=np.random.default_rng(seed + i).random(each.tokens) < 0.7)
        for i, each in enumerate(groups[0].rollouts)
    ]
    (said, _) = credit([Group(tuple(rows)), groups[1]])
    for each, advantages, weights in zip(rows, said.advantages, said.weights, strict=True):
        assert not advantages[~each.mask].any() and not weights[~each.mask].any() and np.isfinite(advantages).all()
    width = max(each.tokens for each in rows)
    wide = padded(said.advantages, width + 3)
    np.testing.assert_array_equal(wide[:, :width], padded(said.advantages))
    assert not wide[:, width:].any()


@pytest.mark.parametrize("name", CREDITS)
def test_groups_of_one_of_none_and_of_equals_are_no_error(name: str) -> None:
    credit = create("credit", name)
    lone, empty, equal = Group((make(5),)), Group(()), Group((make(7), make(7), make(7)))
    for said in credit([lone, empty, equal]):
        assert all(np.isfinite(row).all() for row in flat([said]))
    assert credit([]) == []


def test_a_batch_is_no_narrower_than_its_rollouts() -> None:
    with pytest.raises(ValueError, match="3 tokens and the batch is 2 wide"):
        padded([np.zeros(3)], 2)


# Filters.


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_says_what_it_needs_and_weighs_every_rollout_of_the_groups_it_keeps(name: str) -> None:
    assert declared("filter", name).needs == create("filter", name).needs != ()
    assert declared("filter", name).paper is not None
    groups = batch(3, groups=6)
    for at, weights in create("filter", name)(groups):
        assert len(weights) == len(groups[at].rollouts) and (weights >= 0).all()
    assert create("filter", name)([]) == []


def test_what_a_filter_leaves_out_is_in_no_statistic() -> None:
    groups = batch(11, groups=1)
    keep = Filter((), lambda groups: [Chosen(0, np.array([1.0, 0.0, 2.0, 1.0]))])
    ((at, said),) = credited(groups, create("credit", "grpo"), keep)
    three = Group(tuple(each for i, each in enumerate(groups[0].rollouts) if i != 1))
    (alone,) = create("credit", "grpo")([three])
    assert at == 0 and list(said.left) == [1] and "filter" in said.left[1]
    np.testing.assert_allclose(said.advantages[2], 2 * alone.advantages[1])
    assert not said.advantages[1].any() and not said.weights[1].any()
    assert [at for at, _ in credited(groups, create("credit", "grpo"))] == [0]


def test_credits_and_filters_are_keys() -> None:
    """Of a cache or a table of runs, whatever their settings are."""
    made = [create(kind, name) for kind in ("credit", "filter") for name in parts(kind)]
    made += [create("credit", "grpo", scale="none"), create("credit", "rlcm", extra="brier")]
    assert len({each: i for i, each in enumerate(made)}) == len(made) and made[0] == replace(made[0])
    needs: Any = ["outcome"]
    assert hash(Credit(needs, made[0].rule)) and hash(Filter(needs, lambda groups: []))
