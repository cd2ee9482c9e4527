"""Trainers of language models whose batches are planned before they begin: `transformers.Trainer`, and TRL's on top of it.

    rate of update k of K   lr · min((k + 1) / rise, (K − k) / (K − rise)),   rise = warmup · K, 1 at least

The batches of all epochs are one sequence, so a run that goes on skips those that it has had. Every weight decays, norms and
biases too. `LossTrainer` lowers any loss of a batch; `footfall.train.sft` is TRL's `SFTTrainer` on the same plan.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from footfall.loading import quiet
from footfall.train.checkpoints import Kept, Saves, last_checkpoint, stopping_between_updates
from footfall.train.finite import Finite
from footfall.train.trainer import Progress, Reporter, own_randomness


@dataclass(frozen=True)
class Plan:
    """The batches of each epoch, as indices of rows, and how the weights follow."""

    epochs: Sequence[Sequence[Sequence[int]]]
    lr: float
    warmup: float = 0.05
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    seed: int = 0
    checkpointing: bool = False
    """Activations are computed twice instead of kept."""

    @property
    def updates(self) -> int:
        return sum(map(len, self.epochs))

    def rate(self, update: int) -> float:
        """What the learning rate is multiplied by."""
        rise = max(1, round(self.warmup * self.updates))
        return min((update + 1) / rise, max(0.0, (self.updates - update) / max(1, self.updates - rise)))

    def means(self, losses: Sequence[float]) -> tuple[float, ...]:
        """The mean loss of each epoch."""
        ends = list(accumulate(map(len, self.epochs)))
        return tuple(fmean(losses[end - len(own) : end]) for own, end in zip(self.epochs, ends, strict=True))


class Keeping(NamedTuple):
    """Where checkpoints of a run lie, after how many updates there is one (None: by the clock), and who is told."""

    folder: Path
    steps: int | None = None
    told: Callable[[], None] = lambda: None


def arguments(plan: Plan, folder: Path, cpu: bool) -> dict[str, Any]:
    """The plan in the words of `TrainingArguments`: quiet, no workers, no loggers, the loss of every update in the log."""
    return {
        "output_dir": str(folder), "num_train_epochs": 1, "learning_rate": plan.lr, "max_grad_norm": plan.max_grad_norm,
        "seed": plan.seed, "use_cpu": cpu, "save_strategy": "no", "save_total_limit": 2, "logging_steps": 1,
        "logging_nan_inf_filter": False, "report_to": "none", "disable_tqdm": True, "remove_unused_columns": False,
        "dataloader_pin_memory": not cpu, "gradient_checkpointing": plan.checkpointing, "bf16": False,
    }  # fmt: skip


class Planned(Finite, Trainer):
    """A Trainer, or one of TRL's behind it, that takes the batches of a plan in their order."""

    model: Any

    def __init__(self, plan: Plan, **given: Any) -> None:
        self.plan = plan
        # Of several GPUs that nobody launched processes for, one is used.
        given["args"]._n_gpu = min(1, given["args"].n_gpu)
        super().__init__(**given)
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> DataLoader[Any]:
        batches = [list(batch) for batch in chain.from_iterable(self.plan.epochs)]
        rows: Any = self.train_dataset
        pinned = self.args.dataloader_pin_memory
        return DataLoader(rows, batch_sampler=batches, collate_fn=self.data_collator, pin_memory=pinned)

    def create_optimizer(self, *given: Any) -> Any:
        weights = self.model.parameters()
        self.optimizer = torch.optim.AdamW(weights, lr=self.plan.lr, weight_decay=self.plan.weight_decay)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        own: Any = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(own, self.plan.rate)
        return self.lr_scheduler

    def _save(self, *given: Any, **named: Any) -> None:
        with quiet():
            super()._save(*given, **named)

    def create_model_card(self, *given: Any, **more: Any) -> None:
        """None in checkpoints: TRL's has its tags in another order in every process."""

    @property
    def losses(self) -> list[float]:
        """Of every update, those before a checkpoint too."""
        return [row["loss"] for row in self.state.log_history if "loss" in row]


class LossTrainer(Planned):
    """Lowers a loss that is a function of the indices of a batch; on CUDA its products are bfloat16."""

    def __init__(self, plan: Plan, loss_of: Callable[[Sequence[int]], Tensor], **given: Any) -> None:
        self.loss_of = loss_of
        rows = range(1 + max(chain.from_iterable(chain.from_iterable(plan.epochs))))
        super().__init__(plan, train_dataset=rows, data_collator=_units, **given)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Tensor | int | None = None
    ) -> Any:
        """Of the indices alone: the model is the function's own."""
        with torch.autocast(self.args.device.type, torch.bfloat16, enabled=self.args.device.type == "cuda"):
            loss = self.loss_of(inputs["units"].tolist())
        return (loss, {}) if return_outputs else loss

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: the batch is known by its indices alone."""
        return 0


def _units(batch: Sequence[int]) -> dict[str, Tensor]:
    return {"units": torch.tensor(batch)}


def run(
    make: Callable[[Path, list[TrainerCallback]], Planned], progress: Progress | None, keeping: Keeping | None
) -> tuple[float, ...]:
    """Train to the end of the plan, from the last whole checkpoint where runs are kept; the mean loss of each epoch.

    `make` is given the folder and the callbacks of the trainer. The model is left in evaluation mode.
    """
    callbacks: list[TrainerCallback] = [] if progress is None else [Reporter(progress)]
    with ExitStack() as stack:
        checkpoint = None
        if keeping is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            folder, saves = keeping.folder, Saves(keeping.steps)
            checkpoint = last_checkpoint(folder)
            callbacks += [saves, Kept(keeping.told)]
            stack.enter_context(stopping_between_updates(saves))
        stack.enter_context(own_randomness())
        trainer = make(folder, callbacks)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    # accelerate leaves half precision around the forward pass.
    trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    trainer.model.eval()
    return trainer.plan.means(trainer.losses)


def fit_loss(
    model: Any,
    plan: Plan,
    loss_of: Callable[[Sequence[int]], Tensor],
    progress: Progress | None = None,
    keeping: Keeping | None = None,
) -> tuple[float, ...]:
    """Lower the loss of the plan's batches, in place; the mean of each epoch."""

    def make(folder: Path, callbacks: list[TrainerCallback]) -> Planned:
        args = TrainingArguments(**arguments(plan, folder, model.device.type == "cpu"))
        return LossTrainer(plan, loss_of, model=model, args=args, callbacks=callbacks)

    return run(make, progress, keeping)
