"""Accumulation: an update of several batches is the update of one batch that holds them all, whatever the loss is a mean of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from footfall.reward.prm import PRM
from footfall.train.config import TrainConfig
from footfall.train.data import Example, make_examples
from footfall.train.losses import soft_bce_loss, traces
from footfall.train.objectives import Objective, make_objective, probability
from footfall.train.trainer import StepTrainer, evaluate, training_arguments
from footfall.types import Judged, Judgement
from tests.reward.tiny_models import byte_tokenizer, decoder, trace

torch.set_num_threads(1)


def trace_mean(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Each trace weighs the same, however many of its steps are labelled."""
    each = [soft_bce_loss(logits[n : n + 1], targets[n : n + 1], mask[n : n + 1]) for n in range(len(mask))]
    return torch.stack(each).mean()


BY_TRACE = Objective("by-trace", trace_mean, probability, lambda label: label > 0.5, items=traces)
OBJECTIVES = {
    "by-trace": BY_TRACE,
    "soft-bce": make_objective("soft-bce", {}),
    "mse": make_objective("mse", {}),
    "value-and-reward": make_objective("value-and-reward", {}),
    "bradley-terry": make_objective("bradley-terry", {"centering": 0.01}),
}


def fresh(objective: Objective) -> PRM:
    return PRM.from_backbone(decoder(), byte_tokenizer(), columns=objective.columns, seed=1)


def some_examples(model: PRM, objective: Objective) -> list[Example]:
    """Six traces of 1 to 5 steps with labels that differ, two of each problem; pairs are labelled at their ends."""
    rows = []
    for i in range(6):
        t = trace(*(f"{i} + {k}" for k in range(1 + (2 * i) % 5)), id=f"t{i}", prompt=f"q{i // 2}")
        values: list[float | None] = [(i + k) % 4 / 3 for k in range(len(t.steps))]
        if objective.together == 2:
            values = [*[None] * (len(values) - 1), float(i % 2)]
        aspects = {name: tuple(values) for name in objective.beside}
        rows.append(Judged(t, Judgement(t.id, tuple(values), "toy", aspects=aspects)))
    return make_examples(rows, model, objective, "error")[0]


def updated(objective: Objective, folder: Path, batch_size: int, accumulation: int) -> dict[str, Tensor]:
    """The weights after one step of plain gradient descent over all examples."""
    model = fresh(objective)
    examples = some_examples(model, objective)
    config = TrainConfig(
        epochs=1, batch_size=batch_size, accumulation=accumulation, warmup=0.0, max_grad_norm=1e9, device="cpu"
    )
    args = training_arguments(config, 0.5, folder, updates=1, cuda=False)
    args.optim = "sgd"  # Adam hides a gradient that is too large
    trainer = StepTrainer(model, objective, args, examples)
    trainer.train()
    assert trainer.state.global_step == 1
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


@pytest.mark.long
@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_unequal_batches_make_the_update_of_one_batch_that_holds_both(name: str, tmp_path: Path) -> None:
    objective = OBJECTIVES[name]
    whole = updated(objective, tmp_path, 6, 1)
    start = fresh(objective).state_dict()
    assert any(not torch.equal(tensor, start[name]) for name, tensor in whole.items()), "something was learned"
    for other in (updated(objective, tmp_path, 4, 2), updated(objective, tmp_path, 2, 3)):
        for name, tensor in whole.items():
            assert torch.allclose(other[name], tensor, atol=2e-6), name


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_held_out_loss_does_not_depend_on_how_it_is_batched(name: str) -> None:
    objective = OBJECTIVES[name]
    model = fresh(objective)
    examples: Sequence[Example] = some_examples(model, objective)
    losses = [evaluate(model, examples, objective, budget)["loss"] for budget in (1, 200, 100_000)]
    assert losses[1:] == pytest.approx([losses[0]] * 2, abs=1e-6)
