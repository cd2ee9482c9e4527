"""`transformers.Trainer` for PRMs: the loss is a mean over what the objective counts, batches are of like length.

What differs from the plain Trainer and why: the order of an epoch depends on seed and epoch alone, so that a resumed
run sees what the undisturbed one saw; a batch is parted among the processes, so that their number decides nothing but the time;
under accumulation and on several devices every item of the mean weighs the same; checkpoints hold only what is trained; a
checkpoint that lacks a trained weight is an error, not a warning.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_pt_utils import get_length_grouped_indices

from footfall.loading import pack
from footfall.metrics.steps import auc
from footfall.reward.heads import Heads
from footfall.reward.prm import PRM
from footfall.scale.processes import agreed, count
from footfall.train.checkpoints import Patience, ends_epoch
from footfall.train.config import TrainConfig
from footfall.train.data import Example, collate, members
from footfall.train.finite import Finite
from footfall.train.marked import by_own_marks
from footfall.train.objectives import Objective

Progress = Callable[[int, int], None]
"""Told the number of updates done and to do, after each update."""
Logged = Callable[[Mapping[str, float]], None]
"""Told figures of an update, and which: loss (the mean since it was last told), learning rate and norm of the gradient now and
then, or those of the held-out problems after each epoch."""


class LengthGrouped(Sampler[int]):
    """A shuffle that keeps like lengths together; epoch e of seed s is always the same.

    The batches are shuffled too: left as they are grouped, long traces would come before short ones again and again, and
    with them their share of wrong steps. `together` neighbours are one unit: they stay side by side, and in one batch if
    that holds whole units.
    """

    def __init__(
        self, lengths: Sequence[int], group: int, seed: int, epoch: Callable[[], int], together: int = 1
    ) -> None:
        self.lengths = list(lengths)
        self.group = group
        self.seed = seed
        self.epoch = epoch
        self.together = together

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch())
        longest = [max(self.lengths[i : i + self.together]) for i in range(0, len(self.lengths), self.together)]
        size = self.group // self.together
        units = get_length_grouped_indices(longest, size, generator=generator)  # type: ignore[no-untyped-call]
        whole = len(units) // size
        order = [*torch.randperm(whole, generator=generator).tolist(), whole]
        shuffled = [unit for batch in order for unit in units[batch * size : (batch + 1) * size]]
        return iter(members(shuffled, self.together))


class Shares(Sampler[list[int]]):
    """What one of several processes reads of each batch of rows; together they read the batch that one process would.

    Units of `together` rows are not parted. A process that has no share of a short batch reads the row `idle` instead.
    """

    def __init__(self, order: LengthGrouped, batch: int, idle: int, process: int = 0, processes: int = 1) -> None:
        self.order, self.batch, self.idle = order, batch, idle
        self.process, self.processes = process, processes

    def __len__(self) -> int:
        return math.ceil(len(self.order) / self.batch)

    def __iter__(self) -> Iterator[list[int]]:
        rows = list(self.order)
        for at in range(0, len(rows), self.batch):
            batch = rows[at : at + self.batch]
            yield share(batch, self.order.together, self.process, self.processes) or [self.idle]


def share(batch: Sequence[int], together: int, process: int, processes: int) -> list[int]:
    """Units ⌊u p / P⌋ to ⌊u (p + 1) / P⌋ of a batch's u units: shares differ by a unit at most."""
    units = len(batch) // together
    first, end = (units * k // processes * together for k in (process, process + 1))
    return list(batch[first:end])


def part_of_mean(loss: Tensor, items: Tensor, total: Tensor | int, processes: int) -> Tensor:
    """What a process adds to the mean over the `total` items of an update by its batch's mean over `items` of them.

    Gradients of the processes are averaged, not added: hence the factor P in  loss · items · P / total.
    """
    return loss * items * processes / total


class StepTrainer(Finite, Trainer):
    """Fits a `PRM` to examples under an objective."""

    def __init__(
        self,
        model: PRM,
        objective: Objective,
        args: TrainingArguments,
        train: Sequence[Example],
        held_out: Sequence[Example] = (),
        callbacks: Sequence[TrainerCallback] = (),
        head_lr: float | None = None,
        anchor: float = 0.0,
        packed: bool = False,
        batch_size: int | None = None,
    ) -> None:
        """`batch_size`: traces a forward pass of all processes together. None: as the arguments say, for one."""
        self.batch_size = batch_size or args.train_batch_size
        self.step_model, self.examples, self.held_out = model, train, held_out
        self.head_lr, self.anchor, self.packed = head_lr, anchor, packed
        super().__init__(
            model=model,
            args=args,
            train_dataset=train,
            eval_dataset=held_out,
            data_collator=partial(collate, pad_id=model.pad_id, packed=packed),
            callbacks=list(callbacks),
        )
        self.remove_callback(PrinterCallback)
        self.step_objective = objective
        # `compute_loss` divides by the items of the whole update: the Trainer must not divide again.
        self.model_accepts_loss_kwargs = True

    def create_optimizer(self, *given: Any) -> Any:
        """The Trainer's own; with `head_lr`, or a share of the gradient for the decoder, the head has groups of its own.

        Adam undoes a scaling of gradients, so the share is taken of the decoder's learning rate too.
        """
        optimizer, head = super().create_optimizer(*given), self.step_model.head
        if self.head_lr is None and head.gradient == 1:
            return optimizer
        ids = {id(p) for p in head.parameters()}
        for group in list(optimizer.param_groups):
            if own := [p for p in group["params"] if id(p) in ids]:
                group["params"] = [p for p in group["params"] if id(p) not in ids]
                lr = group["lr"] if self.head_lr is None else self.head_lr
                optimizer.add_param_group({**group, "params": own, "lr": lr})
            group["lr"] *= head.gradient
        return optimizer

    def _run_epoch(self, *given: Any, **named: Any) -> None:
        """None where the run goes on from a checkpoint at which its patience had run out."""
        if not self.control.should_training_stop:
            super()._run_epoch(*given, **named)  # type: ignore[no-untyped-call]

    def get_train_dataloader(self) -> DataLoader[Any]:
        """This process's shares of the batches; it knows them all, so nothing is handed out and none is read twice."""
        # A process without a share takes part with the shortest trace, which has no labels here.
        shortest = min(self.examples, key=lambda example: len(example.reading.ids))
        rows: Any = [*self.examples, shortest._replace(targets=(), labels=(), mask=(), beside=())]
        parts = self.args.process_index, self.args.world_size
        batches = Shares(self._get_train_sampler(), self.batch_size, len(self.examples), *parts)
        pinned = self.args.dataloader_pin_memory
        return DataLoader(rows, batch_sampler=batches, collate_fn=self.data_collator, pin_memory=pinned)

    def _get_train_sampler(self, train_dataset: Any = None) -> LengthGrouped:
        # Packed batches waste nothing on unlike lengths, and mixed ones are all about as large: each unit is its own group.
        whole = self.batch_size * self.args.gradient_accumulation_steps
        group = self.step_objective.together if self.packed else whole
        lengths = [len(example.reading.ids) for example in self.examples]
        return LengthGrouped(lengths, group, self.args.seed, self._epoch, self.step_objective.together)

    def _epoch(self) -> int:
        updates = self.state.max_steps // int(self.args.num_train_epochs)
        return self.state.global_step // max(1, updates)

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Tensor]], device: torch.device) -> Tensor:
        """What the loss is a mean over (labelled steps, traces, pairs) in all batches of one update, over all devices."""
        count = torch.stack([self.step_objective.items(batch["mask"]) for batch in batch_samples]).sum().to(device)
        total: Tensor = self.accelerator.gather(count).sum() if self.args.world_size > 1 else count
        return total

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """This batch's part of the mean over the update: Σ over its items / items of the update."""
        targets, mask = inputs.pop("targets"), inputs.pop("mask")
        logits = model(**inputs)
        loss = self.loss_of(logits, targets, mask) if len(mask) else 0 * logits.sum()
        head = self.step_model.head
        if self.anchor and isinstance(head, Heads):
            loss = loss + self.anchor * head.drift()
        if num_items_in_batch is not None:
            items = self.step_objective.items(mask)
            loss = part_of_mean(loss, items, num_items_in_batch, self.accelerator.num_processes)
        return (loss, logits) if return_outputs else loss

    def loss_of(self, logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """The loss of a batch, a mean over what the objective counts in it."""
        return self.step_objective.loss(logits, targets, mask)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Metrics of the held-out examples, through the same code that scores traces."""
        examples: Sequence[Example] = self.held_out if eval_dataset is None else eval_dataset
        found = agreed(evaluate(self.step_model, examples, self.step_objective))
        metrics = {f"{metric_key_prefix}_{k}": v for k, v in found.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        """Only the trained weights, as safetensors; the finished model is written by `PRM.save`."""
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        state = self.step_model.state_dict() if state_dict is None else state_dict
        trained = self._trained_names()
        kept = {name: tensor.detach().contiguous() for name, tensor in state.items() if name in trained}
        safetensors.torch.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})

    def whole_weights(self) -> dict[str, Tensor] | None:
        """The weights that FSDP or DeepSpeed has parted, on the main process; None where each process has them all."""
        if not self.is_fsdp_enabled and not self.is_deepspeed_enabled:
            return None
        found: dict[str, Tensor] = self.accelerator.get_state_dict(self.model_wrapped)
        return found

    def _trained_names(self) -> set[str]:
        return {name for name, p in self.step_model.named_parameters() if p.requires_grad}

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        missing = sorted(self._trained_names() & set(load_result.missing_keys))
        if missing or load_result.unexpected_keys:
            raise ValueError(
                f"the checkpoint belongs to another model: it lacks {missing[:3]} and has {load_result.unexpected_keys[:3]}"
            )


@torch.inference_mode()
def evaluate(
    model: PRM, examples: Sequence[Example], objective: Objective, token_budget: int | None = None
) -> dict[str, float]:
    """Loss, step ROC-AUC, accuracy at 0.5 and Brier score over the labelled steps.

    A value that training gives the labelled marks of its step is given the model's own here.
    """
    was_training = model.training
    model.eval()
    examples = by_own_marks(model, examples)
    loss, counted = 0.0, 0
    values: list[float] = []
    labels: list[float] = []
    size = objective.together
    lengths = [len(e.reading.ids) for e in examples]
    longest = [max(lengths[at : at + size]) for at in range(0, len(lengths), size)]
    for packed in pack(longest, max(1, (token_budget or model.token_budget) // size)):
        group = [examples[i] for i in members(packed, size)]
        batch = {name: tensor.to(model.device) for name, tensor in collate(group, model.pad_id).items()}
        targets, mask = batch.pop("targets"), batch.pop("mask")
        with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
            logits = model(**batch)
        items = int(objective.items(mask))
        loss += float(objective.loss(logits, targets, mask)) * items
        counted += items
        own = mask if mask.dim() == 2 else mask[..., 0]
        values.extend(model.readout.chances(logits)[own].tolist())
        labels.extend(label for e in group for label, m in zip(e.labels, e.mask, strict=True) if m)
    model.train(was_training)
    return {"loss": loss / max(1, counted), **step_metrics(values, labels, objective)}


def step_metrics(values: Sequence[float], labels: Sequence[float], objective: Objective) -> dict[str, float]:
    """ROC-AUC, accuracy at 0.5 and Brier score of values against labels."""
    good = [objective.is_good(label) for label in labels]
    metrics = {
        "accuracy_at_0.5": float(np.mean([(v > 0.5) == g for v, g in zip(values, good, strict=True)])),
        "brier": float(np.mean([(v - g) ** 2 for v, g in zip(values, good, strict=True)])),
        "steps": float(len(labels)),
    }
    return {"step_auc": float(auc(values, good)), **metrics} if 0 < sum(good) < len(good) else metrics


class Reporter(TrainerCallback):
    """Passes progress on."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.progress(state.global_step, state.max_steps)


def training_arguments(
    config: TrainConfig, lr: float, folder: Path, updates: int, cuda: bool, half: bool = True
) -> TrainingArguments:
    """A `TrainConfig` in the Trainer's words: quiet, no workers, no loggers, bfloat16 on CUDA only, and there with `half`."""
    by_epoch = "epoch" if config.patience is not None else "no"
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=math.ceil(config.batch_size / count()),
        gradient_accumulation_steps=config.accumulation,
        num_train_epochs=config.epochs,
        learning_rate=lr,
        lr_scheduler_type=config.schedule,
        warmup_steps=round(config.warmup * updates),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
        bf16=cuda and half,
        use_cpu=not cuda,
        gradient_checkpointing=config.gradient_checkpointing,
        eval_strategy=by_epoch,
        save_strategy=by_epoch,
        save_total_limit=2,
        load_best_model_at_end=config.patience is not None,
        metric_for_best_model="eval_loss" if config.patience is not None else None,
        greater_is_better=False if config.patience is not None else None,
        logging_steps=max(1, updates // 50),
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=cuda,
    )


class _Logger(TrainerCallback):
    """Passes on what the Trainer logs of the training itself."""

    def __init__(self, logged: Logged) -> None:
        self.logged = logged

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        if logs and "loss" in logs:
            names = {
                "loss": "loss",
                "learning_rate": "lr",
                "grad_norm": "grad_norm",
            }  # DeepSpeed without ZeRO has no norm
            facts = {own: float(logs[name]) for name, own in names.items() if name in logs}
            self.logged({"update": state.global_step, **facts})


class Measurer(TrainerCallback):
    """Measures on what is held out after each epoch, and passes the figures on; the training does not see it."""

    def __init__(self, measure: Callable[[], Mapping[str, float]], measured: Logged) -> None:
        self.measure, self.measured = measure, measured

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if ends_epoch(args, state):  # and not where the user stopped
            self.measured({"update": state.global_step, **self.measure()})


def callbacks_for(config: TrainConfig, progress: Progress | None, logged: Logged | None) -> list[TrainerCallback]:
    """Early stopping, progress and a log, where asked for."""
    callbacks: list[TrainerCallback] = []
    if config.patience is not None:
        callbacks.append(Patience(config.patience))
    if progress is not None:
        callbacks.append(Reporter(progress))
    if logged is not None:
        callbacks.append(_Logger(logged))
    return callbacks


@contextmanager
def own_randomness() -> Iterator[None]:
    """The Trainer seeds every global generator; the caller gets them back as they were."""
    python, array = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)
