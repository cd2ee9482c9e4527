"""How a training run is kept: when a checkpoint is written, which one is gone on from, how a run stops, what a full disk is.

A checkpoint is used whole or not at all: the Trainer's state is its last file. Which updates had one, and how often the run was
stopped, leaves no trace in the weights.
"""

from __future__ import annotations

import errno
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import TrainerCallback

SECONDS, SHARE, UPDATES = 20.0, 20, 200
"""By the clock: at least so many seconds between two checkpoints, and of the time one part in so many to write them. Several
processes cannot agree on a clock: they write one after so many updates."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Saves(TrainerCallback):
    """Asks for a checkpoint after every `steps` updates, None: by the clock; and after the update in which the user stops."""

    def __init__(self, steps: int | None) -> None:
        self.steps = steps
        self.asked_to_stop = self.stopped = False
        self._asked: float | None = None
        self._saved, self._took = time.monotonic(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.stopped = self.asked_to_stop and state.global_step < state.max_steps
        control.should_training_stop |= self.stopped
        if self.stopped or self._due(state.global_step, args.world_size):
            self._asked = time.monotonic()
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._saved = time.monotonic()
        if self._asked is not None:
            self._took, self._asked = self._saved - self._asked, None

    def _due(self, update: int, processes: int) -> bool:
        if self.steps is not None or processes > 1:
            return update % (self.steps or UPDATES) == 0
        return time.monotonic() - self._saved >= max(SECONDS, SHARE * self._took)


@contextmanager
def stopping_between_updates(saves: Saves) -> Iterator[None]:
    """Ctrl-C ends the run after the update it falls into, with a checkpoint; a second one at once. Raises KeyboardInterrupt."""
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not own or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        if saves.asked_to_stop:
            raise KeyboardInterrupt
        saves.asked_to_stop = True
        sys.stderr.write("footfall: stopping after this update, which is kept; Ctrl-C again stops at once\n")

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if saves.stopped:
        raise KeyboardInterrupt


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; what a kill or a full disk cut short is removed."""
    found = sorted(folder.glob("checkpoint-*"), key=update_of)
    for torn in [path for path in found if not _is_whole(path)]:
        shutil.rmtree(torn)
        found.remove(torn)
    return found[-1] if found else None


def update_of(checkpoint: Path) -> int:
    """The number of updates behind a checkpoint."""
    return int(checkpoint.name.partition("-")[2])


def _is_whole(checkpoint: Path) -> bool:
    weights = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
    if not any((checkpoint / name).is_file() for name in weights):
        return False
    needed = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json")
    if not all((checkpoint / name).is_file() for name in needed):
        return False
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


@contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """A file that could not be written to its end is one OSError, though torch and safetensors have errors of their own."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if not _is_full(error):
            raise
        free = shutil.disk_usage(folder).free / 2**20
        why = f"no space left to write to ({free:,.0f} MiB are free); make some, and the same command goes on where it can"
        raise OSError(errno.ENOSPC, why, str(folder)) from error


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in _FULL
    return any(f"(os error {code})" in str(error) for code in _FULL) or "inline_container" in str(error)
