"""Tables that learn: what they are paid follows the losses of real reward models, and what is known to be hacked is hacked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from footfall.lab.recipe import Trial
from footfall.lab.shared import table_pairs
from footfall.lab.shared.readers import FlowReader, Probe
from footfall.lab.shared.tables import (
    JUDGES,
    ONLINE_SCALE,
    Sizes,
    Table,
    beginner,
    judge_table,
    learn,
    outcome_of,
    outcome_pulls,
    pair_pulls,
    train_all,
    way,
)
from footfall.rl.exact import FILLER, RIGHT, STOP, WRONG, Chain, expected, sample, solve
from footfall.rl.groups import Group, Rollout
from footfall.rl.monitors import Checkpoint
from footfall.train.online import implicit_outcome_loss, step_pair_loss

FEW = Sizes(updates=12, every=4, held_out=6)


def test_reward_models_that_learn_go_down_the_losses_of_prime_and_oprl() -> None:
    rng = np.random.default_rng(0)
    ratios, right, tasks = rng.normal(0, 1, 6), np.array([1.0, 0, 1, 0, 0, 1]), [0, 0, 0, 1, 1, 1]
    given = torch.tensor(ratios, requires_grad=True)
    torch.autograd.backward([implicit_outcome_loss(given, torch.tensor(right), ONLINE_SCALE)])
    assert given.grad is not None
    np.testing.assert_allclose(outcome_pulls(ratios, right), -given.grad.numpy())
    steps = rng.normal(0, 1, (6, 3))
    given = torch.tensor(steps, requires_grad=True)
    names = [str(task) for task in tasks]
    loss = step_pair_loss(given, torch.ones(6, 3), torch.tensor(right) > 0.5, names, ONLINE_SCALE)
    torch.autograd.backward([loss])
    assert given.grad is not None
    pulls = pair_pulls(steps.sum(axis=1), np.full(6, 3.0), right, tasks)
    np.testing.assert_allclose(np.repeat(pulls[:, None], 3, axis=1), -given.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("judge", JUDGES)
def test_every_judge_prefers_right_steps_and_only_one_likes_needless_ones_best(judge: str) -> None:
    chain, rng = Chain(5, 14), np.random.default_rng(1)
    logits = beginner(5, rng)[np.arange(6)].reshape(-1, 4)
    table, _ = judge_table(judge, chain, logits, rng)
    assert table.min() >= 0 and table.max() <= 1
    if judge != "values":
        assert table[..., WRONG].mean() < 0.5 < table[..., FILLER].mean()
        assert table[:, 2 * chain.depth, STOP].mean() > table[:, :4, STOP].mean()
    else:
        assert table[:, 2 * chain.depth, STOP].mean() > 0.8 > table[0, 0].mean()


def test_outcomes_are_learnt_from_and_the_same_seed_gives_the_same_run() -> None:
    first, again = (learn(way("grpo"), FEW, 3) for _ in range(2))
    assert first.end > first.before + 0.1 and not first.hacked
    np.testing.assert_array_equal(first.accuracy, again.accuracy)
    assert first.accuracy.shape == (4, 6)
    assert learn(way("clip-delta"), FEW, 3).before == first.before, "all ways begin with the same policy and problems"


def test_a_summed_step_reward_is_hacked_and_stopping_at_the_alarm_saves_accuracy() -> None:
    summed = replace(way("clip-delta", alpha=0.5, clip=False, difference=False), proxy="sum")
    run = learn(summed, replace(FEW, updates=24), 3)
    assert run.hacked and run.end < run.before and run.stopped > run.end
    bounded = learn(way("clip-delta", alpha=0.5), replace(FEW, updates=24), 3)
    assert bounded.end > run.end + 0.3 and bounded.wasted < run.wasted


def test_where_outcomes_are_unknown_a_credit_that_needs_them_leaves_the_policy_as_it_was() -> None:
    run = learn(replace(way("grpo"), answers=0.0), FEW, 0)
    assert run.end == pytest.approx(run.before, abs=1e-12)


def test_a_reward_model_beside_the_policy_learns_from_outcomes() -> None:
    learning, frozen = (learn(replace(way("prime"), learns=most), FEW, 3) for most in (None, 0))
    assert not np.array_equal(learning.accuracy, frozen.accuracy)
    assert learning.end > learning.before


def test_exact_accuracy_of_many_problems_at_once_is_that_of_each() -> None:
    chain, rng = Chain(5, 14), np.random.default_rng(2)
    logits = rng.normal(0, 1, (4, chain.states, 4))
    each = [solve(chain, row, chain.solved).value for row in logits]
    np.testing.assert_allclose(expected(chain, logits, chain.solved), each, rtol=1e-12)


def test_rlcms_probe_learns_how_often_forced_completions_are_right_and_says_so_beside_the_outcome() -> None:
    chain, rng = Chain(5, 14), np.random.default_rng(3)
    policy, problems = Table(beginner(32, rng), 0.05), [np.append(row, 32) for row in rng.integers(0, 32, (16, 5))]
    traces = [sample(chain, policy.logits(kinds), 8, rng) for kinds in problems]
    groups = [Group(tuple(Rollout(np.ones(len(t.states), np.int64), 1.0) for t in own)) for own in traces]
    probe = Probe(chain, problems, 0, forced=64)
    for _ in range(9):
        probe.read(policy, problems, traces, groups)
    rollouts = [each for group in probe.read(policy, problems, traces, groups) for each in group.rollouts]
    sure = np.concatenate([each.known("confidence")[:-1] for each in rollouts])
    shares = np.concatenate([each.aspects["solved"][:-1] for each in rollouts])
    assert np.corrcoef(sure, shares)[0, 1] > 0.2 and sure.mean() == pytest.approx(shares.mean(), abs=0.02)
    assert all(np.isnan(each.aspects["solved"][-1]) for each in rollouts), "nothing is forced after the answer"
    assert all(each.outcome == 1 for each in rollouts), "the outcome stays what it was"
    brier = Probe(chain, problems, 0, brier=True).read(policy, problems, traces, groups)[0].rollouts[0]
    off = np.nanmean((brier.known("confidence") - brier.aspects["solved"]) ** 2)
    assert brier.outcome == pytest.approx(1 - off)


def test_rlfrs_flow_finds_wrong_and_needless_steps_farther_from_right_solutions() -> None:
    chain, rng = Chain(5, 14), np.random.default_rng(4)
    policy, problems = Table(beginner(32, rng), 0.05), [np.append(row, 32) for row in rng.integers(0, 32, (16, 5))]
    traces = [sample(chain, policy.logits(kinds), 8, rng) for kinds in problems]
    groups = [Group(tuple(Rollout(np.ones(len(t.states), np.int64), 0.0) for t in own)) for own in traces]
    read = FlowReader(chain, problems, 0).read(policy, problems, traces, groups)
    flow = np.concatenate([each.known("flow") for group in read for each in group.rollouts])
    steps = np.concatenate([trace.actions for own in traces for trace in own])
    right = flow[steps == RIGHT].mean()
    assert flow[steps == WRONG].mean() > 1.1 * right and flow[steps == FILLER].mean() > 1.1 * right


def test_pairs_of_one_objective_leave_the_head_of_the_other_alone() -> None:
    chain, rng = Chain(5, 14), np.random.default_rng(5)
    first, kinds = beginner(32, rng), np.append(np.arange(5), 32)
    good, bad = sample(chain, first[kinds].reshape(-1, 4), 2, rng)
    _, (own, other) = table_pairs.dpo(first, [table_pairs.Compared(0, kinds, good, bad)], 2, 3, 0)
    assert not np.allclose(own.detach(), np.eye(4)) and np.allclose(other.detach(), np.eye(4), atol=0.01)


def test_more_policies_are_others_and_their_cost_counts() -> None:
    trial, ways = Trial(3, False, Path()), {"GRPO": way("grpo")}
    sizes = Sizes(updates=4)
    few, more = (train_all(trial, ways, sizes, count, first)["GRPO"] for count, first in ((2, 0), (3, 100)))
    assert len(few) == 2 and len(more) == 3 and not {each.before for each in few} & {each.before for each in more}
    assert all(each is again for each, again in zip(more, train_all(trial, ways, sizes, 2, 100)["GRPO"], strict=False))
    alone, beside = outcome_of({"GRPO": few}), outcome_of({"GRPO": few}, more)
    assert beside.cost.generated_tokens == alone.cost.generated_tokens + sum(
        each.cost.generated_tokens for each in more
    )


@pytest.mark.parametrize(
    ("accuracy", "proxies", "hacked"),
    [
        ([0.4, 0.6, 0.3], [1, 2, 3, 4], True),
        ([0.4, 0.6, 0.55], [1, 2, 3, 4], False),  # five points are no fall
        ([0.4, 0.6, 0.3], [1, 4, 3, 2], False),  # the reward fell too
        ([0.6, 0.4, 0.3], [1, 2, 3, 4], True),
    ],
)
def test_a_run_is_truly_hacked_if_accuracy_fell_while_the_reward_rose(
    accuracy: list[float], proxies: list[float], hacked: bool
) -> None:
    run = tuple(Checkpoint(i, {"proxy": proxy}, 8) for i, proxy in enumerate(proxies))
    learned = learn(way("grpo"), Sizes(updates=4, kinds=4, problems=8), 0)._replace(
        accuracy=np.array(accuracy)[:, None], run=run
    )
    assert learned.truly_hacked == hacked
