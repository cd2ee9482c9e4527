"""Losses of reward models beside a policy and of heads for several objectives, on their papers' worked numbers."""

from __future__ import annotations

import pytest
import torch

from footfall.train.online import hindsight, implicit_outcome_loss, mix_heads, multi_head_dpo_loss, step_pair_loss

close = pytest.approx


def test_prime_takes_the_log_ratio_for_the_logit_of_a_right_outcome() -> None:
    assert implicit_outcome_loss(torch.tensor([6.0]), torch.tensor([1])).item() == close(0.55436, abs=1e-5)
    ratios = torch.zeros(2, requires_grad=True)
    (slope,) = torch.autograd.grad(implicit_outcome_loss(ratios, torch.tensor([1.0, 0.0])), ratios)
    assert slope[0] < 0 < slope[1]


def test_oprl_by_sum_and_by_mean() -> None:
    ratios, mask = torch.tensor([[4.0, 2.0, 9.0], [1.0, -3.0, 2.0]]), torch.tensor([[1.0, 1, 0], [1, 1, 1]])
    right = torch.tensor([True, False])
    assert step_pair_loss(ratios, mask, right, ["a", "a"], mean=False).item() == close(0.55436, abs=1e-5)
    assert step_pair_loss(ratios, mask, right, ["a", "a"]).item() == close(0.62096, abs=1e-5)


def test_oprl_pairs_within_a_task_only() -> None:
    ratios = torch.tensor([[4.0], [1.0]], requires_grad=True)
    loss = step_pair_loss(ratios, torch.ones(2, 1), torch.tensor([True, False]), ["a", "b"])
    assert loss.item() == 0 and not torch.autograd.grad(loss, ratios)[0].any()


def dpo(objectives: list[int], weights: list[float] | None = None) -> torch.Tensor:
    rows = torch.tensor([[-40.0, -45, -42, -44], [-30, -28, -31, -30]])[objectives]
    chosen, rejected, *behind = rows.T
    return multi_head_dpo_loss(chosen, rejected, behind[0], behind[1], torch.tensor(objectives), weights=weights)


def test_each_objective_of_mah_dpo_has_its_own_pairs() -> None:
    assert dpo([0]).item() == close(0.554355, abs=1e-5) and dpo([1]).item() == close(0.744397, abs=1e-5)
    assert dpo([0, 1]).item() == close(0.649376, abs=1e-5)
    assert dpo([0, 0, 1]).item() == close(0.649376, abs=1e-5), "objectives weigh alike, however many pairs they have"
    assert dpo([0, 1], [1.0, 0.0]).item() == close(0.554355, abs=1e-5)


def test_a_pair_moves_its_own_head_alone() -> None:
    hidden, heads = torch.randn(3, generator=torch.Generator().manual_seed(0)), torch.zeros(2, 4, 3, requires_grad=True)
    log_p = (heads[0] @ hidden).log_softmax(-1)
    none = torch.zeros(1)
    loss = multi_head_dpo_loss(log_p[:1], log_p[1:2], none, none, torch.tensor([0]))
    (slope,) = torch.autograd.grad(loss, heads)
    assert slope[0].any() and not slope[1].any()


def test_heads_are_mixed_by_weight() -> None:
    logits = torch.tensor([[2.0, 0, -1], [0, 1, 1]])
    assert mix_heads(logits, [0.5, 0.5]).tolist() == close([0.5065, 0.3072, 0.1863], abs=1e-4)
    assert mix_heads(logits, [3, 0]).tolist() == close([0.8438, 0.1142, 0.0420], abs=1e-4)
    assert mix_heads(logits, [0.25, 0.75]).tolist() == close([0.3045, 0.3910, 0.3045], abs=1e-4)
    with pytest.raises(ValueError, match="2 heads want as many weights"):
        mix_heads(logits, [1.0])


def test_hindsight_adds_where_a_step_led() -> None:
    rewards = [0.9, 0.8, 0.7, 0.95]
    assert hindsight(rewards, 1.0) == close([1.629, 1.61, 1.6, 1.95]) and hindsight(rewards, 0.0) == rewards
