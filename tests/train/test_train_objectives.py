"""Objectives: the worked numbers of the Math-Shepherd card first."""

from __future__ import annotations

import math

import pytest
import torch

from footfall.registry import parts
from footfall.train.losses import bce_loss, ce_loss, mse_loss, soft_bce_loss
from footfall.train.objectives import ce, make_objective


def logit(p: float) -> torch.Tensor:
    return torch.tensor([[math.log(p / (1 - p))]])


ONE = torch.tensor([True])


def test_three_of_eight_right_as_a_soft_label() -> None:
    soft = torch.tensor([3 / 8])
    assert float(soft_bce_loss(logit(0.6), soft, ONE)) == pytest.approx(0.7642, abs=5e-5)
    assert float(soft_bce_loss(logit(0.375), soft, ONE)) == pytest.approx(0.6616, abs=5e-5)
    around = [float(soft_bce_loss(logit(p), soft, ONE)) for p in (0.3, 0.375, 0.45)]
    assert min(around) == around[1]


def test_three_of_eight_right_as_a_hard_label() -> None:
    assert float(bce_loss(logit(0.6), torch.tensor([3 / 8]), ONE, 0.0)) == pytest.approx(0.5108, abs=5e-5)
    assert float(bce_loss(logit(0.6), torch.tensor([0.0]), ONE, 0.0)) == pytest.approx(-math.log(0.4), abs=1e-6)
    assert float(bce_loss(logit(0.6), torch.tensor([3 / 8]), ONE, 0.5)) == pytest.approx(-math.log(0.4), abs=1e-6)


@pytest.mark.parametrize(
    ("z", "label", "loss"),
    [
        (1.2, 1.0, 0.263282),
        (0.3, 0.0, 0.854355),
        (0.725, 1.0, 0.39496),
        (0.725, 0.0, 1.11996),
        (1.5, 0.25, 1.326413),
        (1.5, 1.0, 0.201413),
    ],
)
def test_cross_entropy_has_the_numbers_of_the_cards_survey_agentprm_and_mm_prm(
    z: float, label: float, loss: float
) -> None:
    assert float(soft_bce_loss(torch.tensor([[z]]), torch.tensor([label]), ONE)) == pytest.approx(loss, abs=6e-6)
    if label in (0.0, 1.0):
        assert float(bce_loss(torch.tensor([[z]]), torch.tensor([label]), ONE, 0.5)) == pytest.approx(loss, abs=6e-6)
        two = torch.tensor([[-z / 2, z / 2]])  # the same as two classes
        assert float(ce_loss(two, torch.tensor([label]), ONE)) == pytest.approx(loss, abs=6e-6)


def test_a_soft_label_costs_its_own_entropy_at_least() -> None:
    assert float(soft_bce_loss(logit(0.25), torch.tensor([0.25]), ONE)) == pytest.approx(0.562335, abs=1e-6)


def test_squared_error_of_the_probability() -> None:
    assert float(mse_loss(logit(0.6), torch.tensor([0.375]), ONE)) == pytest.approx(0.050625, abs=1e-6)


def test_cross_entropy_of_named_classes() -> None:
    logits = torch.tensor([[1.0, 0.2, 2.0]])
    assert float(ce_loss(logits, torch.tensor([2.0]), ONE)) == pytest.approx(-math.log(0.652240), abs=1e-5)
    assert float(ce_loss(logits, torch.tensor([0.0]), ONE)) == pytest.approx(-math.log(0.239946), abs=1e-5)


@pytest.mark.parametrize("name", ["bce", "soft-bce", "mse", "ce"])
def test_an_unlabelled_step_has_no_part_in_loss_or_gradient(name: str) -> None:
    objective = make_objective(name, {})
    width = len(objective.classes) or 1
    logits = torch.randn(2, 3, width, generator=torch.Generator().manual_seed(0)).requires_grad_()
    targets = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    loss = objective.loss(logits, targets, mask)
    each = [objective.loss(logits[n, s][None], targets[n, s][None], ONE) for n, s in ((0, 0), (0, 1), (1, 0))]
    assert loss.item() == pytest.approx(sum(one.item() for one in each) / 3, abs=1e-6), (
        "the mean is over labelled steps"
    )
    (gradient,) = torch.autograd.grad(loss, logits)
    assert bool((gradient[~mask] == 0).all())
    assert bool((gradient[mask] != 0).all())
    other = torch.where(mask, targets, torch.full_like(targets, -100.0))
    assert objective.loss(logits, other, mask).item() == loss.item()
    assert objective.loss(logits, targets, torch.zeros_like(mask)).item() == 0.0


def test_a_mask_that_is_not_boolean_is_refused() -> None:
    with pytest.raises(TypeError, match="boolean"):
        soft_bce_loss(logit(0.5), torch.tensor([1.0]), torch.tensor([-100]))


def test_a_loss_of_one_output_refuses_a_head_of_two() -> None:
    with pytest.raises(ValueError, match="one output, not 2"):
        soft_bce_loss(torch.zeros(1, 2), torch.tensor([1.0]), ONE)


def test_labels_that_an_objective_cannot_take_are_refused() -> None:
    with pytest.raises(ValueError, match="no probability"):
        make_objective("soft-bce", {}).target(-1.0)
    with pytest.raises(ValueError, match="stands for no class"):
        ce().target(0.375)
    rated = ce({"bad": -1.0, "neutral": 0.0, "good": 1.0}, good=("neutral", "good"))
    assert [rated.target(v) for v in (-1.0, 0.0, 1.0)] == [0.0, 1.0, 2.0]
    assert [rated.is_good(v) for v in (-1.0, 0.0, 1.0)] == [False, True, True]
    with pytest.raises(ValueError, match="'fine' is not among"):
        ce(good=("fine",))


def test_the_four_objectives_are_listed() -> None:
    assert set(parts("objective")) >= {"bce", "soft-bce", "ce", "mse"}
