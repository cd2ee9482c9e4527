"""TRL's own PRM trainer, to be compared with. TRL 1.13 is the last release that has one (huggingface/trl#7133 removed it):

    pip install --no-deps --target trl-1.13 trl==1.13.0
    PYTHONPATH=trl-1.13 python -m benchmarks.training --ways trl packed

It pads each batch to its longest trace and turns labels into integers with `int`, so that 0.9 becomes 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForTokenClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

LABELS = 2
IGNORED = -100
"""What TRL writes where there is no label."""


def trl_prm() -> Any:
    """The module, if the installed TRL has it."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    try:
        return import_module("trl.experimental.prm")
    except ImportError as error:
        raise SystemExit(
            "this TRL has no PRM trainer; 1.13 is the last that has: pip install --no-deps --target trl-1.13 trl==1.13.0, "
            "and put trl-1.13 first on PYTHONPATH"
        ) from error


def token_classifier(backbone: Any, device: torch.device) -> Any:
    """The backbone itself, not a copy, under the class that TRL trains; the head is fresh and float32."""
    config = type(backbone.config).from_dict({**backbone.config.to_dict(), "num_labels": LABELS})
    with torch.device("meta"):
        model: Any = AutoModelForTokenClassification.from_config(config)  # type: ignore[no-untyped-call]
    setattr(model, model.base_model_prefix, backbone)
    model.score = nn.Linear(config.hidden_size, LABELS, device=device)
    return model


def as_tokens(ids: Sequence[int], positions: Sequence[int], labels: Sequence[float]) -> dict[str, list[int]]:
    """A row that is tokenised already; its labels stand at the tokens at which steps are read."""
    marks = [IGNORED] * len(ids)
    for position, label in zip(positions, labels, strict=True):
        marks[position] = int(label)
    return {"input_ids": list(ids), "labels": marks}


def trl_trainer(
    model: Any,
    rows: Sequence[Mapping[str, Any]],
    tokenizer: Any,
    args: TrainingArguments,
    callbacks: Sequence[TrainerCallback] = (),
    rank: int | None = None,
) -> Trainer:
    """`PRMTrainer` with the settings that Footfall's trainer has; with a rank, the adapters of `add_lora` through TRL.

    Rows are as TRL takes them: prompt, completions and labels, or `as_tokens`.
    """
    import datasets

    prm, lora = trl_prm(), None
    if rank is not None:
        import peft

        lora = peft.LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", exclude_modules=["score"],
            modules_to_save=["score"], task_type="TOKEN_CLS",
        )  # fmt: skip
    same = {each.name: getattr(args, each.name) for each in fields(TrainingArguments) if each.init}
    datasets.disable_progress_bars()
    trainer: Trainer = prm.PRMTrainer(
        model=model,
        args=prm.PRMConfig(**same, max_length=None),
        train_dataset=datasets.Dataset.from_list([dict(row) for row in rows]),
        processing_class=tokenizer,
        callbacks=list(callbacks),
        peft_config=lora,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
