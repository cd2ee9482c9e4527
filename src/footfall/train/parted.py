"""Checkpoints that DeepSpeed parted: as many processes read them as they are, another number as a universal checkpoint.

ZeRO keeps the optimizer in a part a process, and reads it by as many. DeepSpeed's own tool makes one of the parts that any
number reads; it lies beside them in the checkpoint for as long as that is kept, and is made anew each time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from footfall.formats.atomic import remove_folder
from footfall.scale.processes import agreed, count, is_main

_WHOLE = ".universal"
"""It begins with a dot, so that no object store is given it."""
_AGAIN = "or pass --fresh to train anew"


def ready_to_go_on(checkpoint: Path, trainer: Any) -> None:
    """See to it that the trainer can go on from a checkpoint, with its optimizer; an error if it cannot.

    The Trainer would go on from the weights alone, without a word, where DeepSpeed is not what wrote the rest.
    """
    if not trainer.is_deepspeed_enabled:
        check_stage(checkpoint, None)
        return
    settings = trainer.accelerator.state.deepspeed_plugin.hf_ds_config.config
    parts = check_stage(checkpoint, int(settings["zero_optimization"]["stage"]))
    if parts not in (0, count()):
        if is_main():
            _make_whole(checkpoint)
        agreed(None)  # where the others wait
        settings["checkpoint"] = {**settings.get("checkpoint", {}), "load_universal": True}
        trainer.add_callback(_Groups(checkpoint / _WHOLE))


def check_stage(checkpoint: Path, stage: int | None) -> int:
    """An error unless the ZeRO `stage` (None: no DeepSpeed) is one that reads this checkpoint; how many parts it has."""
    folders = list(checkpoint.glob("global_step*"))
    if stage is None and folders:
        raise ValueError(f"{checkpoint} was written with DeepSpeed: go on with it, {_AGAIN}")
    if stage is not None and not folders:
        raise ValueError(f"{checkpoint} was written without DeepSpeed: go on without it, {_AGAIN}")
    parts = len(list(checkpoint.glob("global_step*/*_optim_states.pt")))
    weights_too = any(checkpoint.glob("global_step*/*zero_pp_rank_*_model_states.pt"))
    written = "3" if weights_too else "1 or 2" if parts else "0"
    if stage is not None and str(stage) not in written:
        raise ValueError(f"{checkpoint} was written with ZeRO stage {written}: go on with that, not {stage}, {_AGAIN}")
    return parts


def _make_whole(checkpoint: Path) -> None:
    """By DeepSpeed's tool, from within the folder: it takes the letters of paths for patterns."""
    (folder,) = checkpoint.glob("global_step*")
    if (checkpoint / _WHOLE).exists():
        remove_folder(checkpoint / _WHOLE)
    words = ["--input_folder", folder.name, "--output_folder", _WHOLE, "--inject_missing_state", "--no_strict"]
    tool = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", *words]
    done = subprocess.run(tool, cwd=checkpoint, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        parts = len(list(folder.glob("*_optim_states.pt")))
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ValueError(
            f"{checkpoint} was written by {parts} processes with DeepSpeed, whose ds_to_universal could not make one of "
            f"their parts ({why}): go on with as many, {_AGAIN}"
        )


class _Groups(TrainerCallback):
    """Gives each group of parameters its own settings and its own count of updates again: ZeRO-3 gives all groups those of the
    first, and one count that each of them would raise."""

    def __init__(self, whole: Path) -> None:
        self.whole = whole

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        import torch

        kept = torch.load(self.whole / "zero" / "optimizer_state.pt", map_location="cpu", weights_only=False)
        optimizer = given["optimizer"]
        for group, own in zip(optimizer.param_groups, kept["param_groups"], strict=True):
            group.update({name: value for name, value in own.items() if name != "params"})
        for each in optimizer.state.values():
            if torch.is_tensor(each.get("step")):
                each["step"] = each["step"].clone()
