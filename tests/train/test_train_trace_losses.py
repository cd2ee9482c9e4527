"""Losses that look along a trace, on the worked numbers of their cards: pqm, tdrm, sprm-metastone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from footfall.reward.readout import MeanOfHeads
from footfall.train.objectives import fitted_to, make_objective
from footfall.train.trace_losses import (
    cosine_reward,
    q_ranking_loss,
    self_agreement_loss,
    step_and_trajectory_loss,
    td_loss,
    td_targets,
)


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float32)


def ranking(q: Tensor, right: Tensor, margin: float = 4.0) -> float:
    return float(q_ranking_loss(q.unsqueeze(-1), right, torch.ones_like(right, dtype=torch.bool), margin))


def test_pqm_s_worked_losses() -> None:
    q, right = row(1, 2, -1, -3), row(1, 1, 0, 0)
    assert ranking(q, right) == pytest.approx(2.323857, abs=1e-5)
    assert ranking(q, right, 2.0) == pytest.approx(0.992657, abs=1e-5)
    assert ranking(row(1, 2), row(1, 1)) == pytest.approx(0.360436, abs=1e-5)
    assert ranking(row(-1, -3), row(0, 0)) == pytest.approx(3.169846, abs=1e-5)
    assert ranking(row(4, 6, -6, -8), right) == pytest.approx(0.097765, abs=1e-5)
    both = torch.cat([q, row(4, 6, -6, -8)])
    assert ranking(both, right.expand(2, 4)) == pytest.approx((2.323857 + 0.097765) / 2, abs=1e-5), "a mean of traces"


def test_pqm_s_worked_loss_is_a_mean_of_three_terms() -> None:
    """One for the question's own value, one a right step; of a trace cut before a term the others are the same."""
    question = ranking(row(-1, -3), row(0, 0))
    first = 2 * ranking(row(1, -1, -3), row(1, 0, 0)) - question
    second = 3 * ranking(row(1, 2, -1, -3), row(1, 1, 0, 0)) - first - question
    assert (question, first, second) == pytest.approx((3.169846, 2.277979, 1.523744), abs=1e-5)


def test_pqm_ranks_right_steps_by_order_and_is_anchored_at_the_question_s_own_value() -> None:
    q, right = row(1, 2, -1, -3), row(1, 1, 0, 0)
    assert ranking(row(2, 1, -1, -3), right) > ranking(q, right)
    assert ranking(row(1, 2, -2, -4), right) < ranking(q, right)
    assert ranking(q + 1, right) != pytest.approx(ranking(q, right), abs=0.1)
    huge = ranking(row(60, 90, 80, -90), right)
    assert math.isfinite(huge) and huge > 10, "exp(Q + ζ) would overflow half precision"


def test_a_step_without_a_label_has_no_part_in_a_ranking() -> None:
    logits = row(1, 7, 2, -1, -3).unsqueeze(-1).requires_grad_()
    mask = torch.tensor([[True, False, True, True, True]])
    loss = q_ranking_loss(logits, row(1, 1, 1, 0, 0), mask, 4.0)
    assert loss.item() == pytest.approx(2.323857, abs=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert bool((gradient[~mask] == 0).all()) and bool(gradient.isfinite().all())
    assert make_objective("q-ranking", {}).is_good(0.125), "one success in eight is Math-Shepherd's right step"


def test_tdrm_s_worked_targets_loss_and_gradient() -> None:
    mask = torch.ones(1, 3, dtype=torch.bool)
    values, rewards = row(0.7, 0.5, 0.9), row(0.1, 0.2, 0)
    assert float(td_targets(values, rewards, mask, 0.8, 2)[0, 0]) == pytest.approx(0.836)
    assert float(td_targets(row(0.7, 0.9, 0.5), rewards, mask, 0.8, 1)[0, 0]) == pytest.approx(0.82)
    assert float(td_targets(values, row(0.6, 0.5, 0), mask, 0.8, 2)[0, 0]) == 1.0, "clamped after adding"
    assert float(td_targets(values, rewards, mask, 0.8, 2)[0, 1]) == pytest.approx(0.92), "no step beyond the end"
    logits = values.logit().unsqueeze(-1).requires_grad_()
    targets = td_targets(values, rewards, mask, 0.8, 2)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0, 0], targets[:, 0])
    assert loss.item() == pytest.approx(0.495632, abs=1e-6)
    whole = td_loss(logits, row(0, 0, 1), mask, rewards, 0.8, 2)
    (gradient,) = torch.autograd.grad(whole, logits)
    assert 3 * float(gradient[0, 0, 0]) == pytest.approx(-0.136, abs=1e-6), "no gradient through the target"
    assert 3 * float(gradient[0, 2, 0]) == pytest.approx(0.9 - 1.0, abs=1e-6), "the end has its own label"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_step_without_a_label_has_no_part_in_td(n: int) -> None:
    """The trace is worth what it is without that step: no target is taken from the step's value, and it has none itself."""
    logits = row(9, 0.7, -9, 0.5, 0.9, 9).unsqueeze(-1).requires_grad_()
    mask = torch.tensor([[False, True, False, True, True, False]])
    td = make_objective("td", {"n": n})
    loss = td.loss(logits, row(0, 1, 0, 0.5, 1, 0), mask)
    alone = td.loss(logits[:, mask[0]].detach(), row(1, 0.5, 1), torch.ones(1, 3, dtype=torch.bool))
    assert loss.item() == pytest.approx(float(alone), abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert bool((gradient[~mask] == 0).all()) and bool((gradient[mask] != 0).all())


@pytest.mark.parametrize("n", [1, 2])
def test_td_with_no_rewards_and_no_discount_has_the_chance_of_the_end_as_its_fixed_point(n: int) -> None:
    """A prefix that two traces share, of which one ends right, is worth one half, however far ahead targets look."""
    logits = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=2.0)
    for _ in range(600):
        shown = logits[[0, 1, 0, 2]].reshape(2, 2, 1)
        ends, mask = torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.ones(2, 2, dtype=torch.bool)
        loss = td_loss(shown, ends, mask, torch.zeros(2, 2), 1.0, n)
        optimizer.zero_grad()
        torch.autograd.backward([loss])
        optimizer.step()
    assert logits.sigmoid().tolist() == pytest.approx([0.5, 1.0, 0.0], abs=0.01)


def test_rewards_of_td_fall_along_the_trace_by_a_cosine_and_right_steps_keep_their_value() -> None:
    at = torch.tensor([0.0, 1.0, 2.0])
    assert cosine_reward(at, torch.tensor(2.0), 0.2, 0.1).tolist() == pytest.approx([0.2, 0.15, 0.1])
    flat = make_objective("td", {"right": [0.2, 0.2]})
    sure = torch.full((1, 4, 1), 20.0)
    mask = torch.ones(1, 4, dtype=torch.bool)
    assert float(flat.loss(sure, torch.ones(1, 4), mask)) == pytest.approx(0.0, abs=1e-5), "0.2 + 0.16 + 0.64 = 1"
    with pytest.raises(ValueError, match="1 or more steps ahead"):
        make_objective("td", {"n": 0})


def test_sprm_s_worked_filter() -> None:
    logits = torch.tensor([[2.0, -1.0, 3.0], [-2.0, 0.5, 9.0]]).unsqueeze(-1).requires_grad_()
    targets = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    loss = self_agreement_loss(logits, targets, mask)
    assert loss.item() == pytest.approx(0.100814, abs=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient.squeeze(-1) != 0).tolist() == [[True, False, True], [True, False, False]]
    assert float(self_agreement_loss(torch.zeros(1, 2, 1), torch.ones(1, 2), mask[:1, :2])) == 0.0, "nothing is kept"
    with pytest.raises(ValueError, match=r"0\.375 is no outcome"):
        make_objective("self-agreement", {}).target(0.375)


def test_reasonflux_s_loss_is_a_mean_over_a_trace_s_steps_and_one_number_of_the_trajectory() -> None:
    values = torch.tensor([[[0.7, 0.9], [0.5, 0.9], [0.6, 0.5]], [[0.5, 0.2], [0.1, 0.1], [0.1, 0.1]]])
    targets = torch.tensor([[[0.5, 0.0], [0.5, 0.0], [0.9, 1.0]], [[0.0, 0.2], [0.0, 0.0], [0.0, 0.0]]])
    mask = torch.zeros(2, 3, 2, dtype=torch.bool)
    mask[0, :, 0], mask[0, 2, 1], mask[1, 0] = True, True, True
    loss = step_and_trajectory_loss(values.logit(), targets, mask, 1.0, 2.0)
    first, second = (0.04 + 0.0 + 0.09) / 3 + 2 * 0.25, 0.25 + 0.0
    assert loss.item() == pytest.approx((first + second) / 2, abs=1e-6)
    with pytest.raises(ValueError, match="step and final are weights"):
        make_objective("step-and-trajectory", {"step": 0, "final": 0})


@pytest.mark.parametrize("name", ["q-ranking", "td", "self-agreement", "soft-bce"])
def test_each_of_several_heads_is_fitted_along_the_trace_as_if_it_were_alone(name: str) -> None:
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    mask = torch.tensor([[True] * 4, [True, True, True, False]])
    objective = make_objective(name, {})
    together = fitted_to(objective, MeanOfHeads(members=3)).loss(logits, targets, mask)
    alone = [float(objective.loss(logits[..., head : head + 1], targets, mask)) for head in range(3)]
    assert float(together) == pytest.approx(sum(alone) / 3, abs=1e-6)
