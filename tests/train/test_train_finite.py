"""A loss or a gradient that is no number stops a training before its weights are ruined, and ruined weights are not saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="could not import 'trl'")

import torch
from torch import Tensor

from footfall.train import train_prm
from footfall.train.checkpoints import last_checkpoint
from footfall.train.dpo import SilentDPO
from footfall.train.finite import Finite, NotFinite, refuse_ruined
from footfall.train.multi_head import MultiHeadDPOTrainer
from footfall.train.planned import Keeping, fit_loss
from footfall.train.sft import PlannedSFT, SilentSFT
from footfall.train.trainer import StepTrainer
from tests.reward.tiny_models import backbone_folder
from tests.train.test_train_multi_head import trainer as multi_head
from tests.train.test_train_planned import CONFIG, mean_loss, plan, small
from tests.train.test_train_prm import QUICK, toy_rows

torch.set_num_threads(1)
FAR_TOO_HIGH = 1e30


def counted(loss: Callable[[int, Tensor], Tensor], lm: Any) -> Callable[[Sequence[int]], Tensor]:
    """A loss of batches that is told how many updates there were before."""
    done = 0

    def loss_of(batch: Sequence[int]) -> Tensor:
        nonlocal done
        done += 1
        return loss(done - 1, mean_loss(lm, batch))

    return loss_of


def is_finite(lm: Any) -> bool:
    return all(bool(torch.isfinite(weight).all()) for weight in lm.parameters())


def test_a_prm_of_far_too_high_a_rate_is_an_error_and_no_model(tmp_path: Path) -> None:
    """It ran to the end before, and what it wrote valued every step NaN."""
    base, out = backbone_folder(tmp_path / "lm"), tmp_path / "run"
    with pytest.raises(NotFinite, match=r"update 1: the loss is nan; lower the learning rate, .*float32"):
        train_prm(toy_rows(), base, replace(QUICK, lr=FAR_TOO_HIGH, warmup=0.0, save_steps=1), out)
    assert not (out / "model").exists() and not (out / "result.json").exists()


def test_a_run_stops_before_the_update_that_would_ruin_it(tmp_path: Path) -> None:
    """Its last checkpoint is of the update before, and whole."""
    lm = small()
    bad = counted(lambda done, loss: loss * float("inf") if done == 2 else loss, lm)
    with pytest.raises(NotFinite, match="update 2: the loss is inf"):
        fit_loss(lm, plan(), bad, keeping=Keeping(tmp_path, 1))
    kept = last_checkpoint(tmp_path)
    assert kept is not None and kept.name == "checkpoint-2" and is_finite(lm)


def test_a_finite_loss_whose_gradient_is_not_stops_a_run_too() -> None:
    lm = small()
    # The slope of a root is infinite where it is 0.
    bad = counted(lambda done, loss: loss + (loss - loss).sqrt(), lm)
    with pytest.raises(NotFinite, match="update 0: the gradient's norm is nan"):
        fit_loss(lm, plan(), bad)
    assert is_finite(lm)


def test_weights_that_the_last_update_ruined_are_not_kept() -> None:
    """There is no update after it whose loss would tell."""
    lm, one = small(), replace(plan(), epochs=[[[0]]], lr=float("inf"))
    with pytest.raises(NotFinite, match=r"the weights .*\.weight are not finite any more, so nothing of them is saved"):
        fit_loss(lm, one, lambda batch: mean_loss(lm, batch))
    assert CONFIG.lr < 1, "the plan's own rate is an ordinary one"


def test_multi_head_dpo_stops_too(tmp_path: Path) -> None:
    made = multi_head(tmp_path)
    made.args.learning_rate = FAR_TOO_HIGH
    with pytest.raises(NotFinite, match=r"update \d: the (loss|gradient's norm) is (nan|inf); lower the learning rate"):
        made.train()


def test_every_trainer_looks_at_its_numbers() -> None:
    rl = pytest.importorskip("footfall.rl.trainer")
    for kind in (StepTrainer, PlannedSFT, SilentSFT, SilentDPO, MultiHeadDPOTrainer, rl.CreditTrainer):
        found = [each for each in kind.__mro__ if "training_step" in vars(each) or "_get_grad_norm" in vars(each)]
        assert Finite in found and all(each.__module__.startswith("footfall") for each in found[: found.index(Finite)])


def test_whole_numbers_and_weights_without_a_fault_pass() -> None:
    refuse_ruined([("counts", torch.tensor([1, 2])), ("weight", torch.ones(3))])
    with pytest.raises(NotFinite, match="the weights head are not finite"):
        refuse_ruined([("weight", torch.ones(3)), ("head", torch.tensor([1.0, torch.nan]))])
