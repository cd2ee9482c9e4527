"""How a training run is kept: when a checkpoint is written, which one is gone on from, how a run stops, what a full disk is.

A checkpoint is used whole or not at all: its last file has the checksums of all others. Which updates had one, and how often
the run was stopped, leaves no trace in the weights.
"""

from __future__ import annotations

import errno
import json
import math
import re
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import TrainerCallback

from footfall.damaged import json_of
from footfall.formats import atomic_write
from footfall.formats.atomic import remove_folder
from footfall.hashing import checksum
from footfall.scale.objects import is_carried
from footfall.scale.processes import any_of, count, is_main

SECONDS, SHARE = 20.0, 20
"""By the clock: at least so many seconds between two checkpoints, and of the time one part in so many to write them."""
CHECKSUMS = "checksums.json"
_NAME = re.compile(r"checkpoint-\d{1,18}")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Saves(TrainerCallback):
    """Asks for a checkpoint after every `steps` updates, None: by the clock (of the main process, if there are several); and
    after the update in which the user stops."""

    def __init__(self, steps: int | None) -> None:
        self.steps = steps
        self.asked_to_stop = self.stopped = False
        self.at_rest = False
        """Whether all that was done is kept, so that the user need not wait for what is under way."""
        self._asked: float | None = None
        self._saved, self._took = time.monotonic(), 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        asked, due = any_of(self.asked_to_stop, is_main() and self._due(state.global_step))
        self.stopped = asked and state.global_step < state.max_steps
        control.should_training_stop |= self.stopped
        if self.stopped or due:
            self._asked = time.monotonic()
            control.should_save = True

    def begin(self) -> None:
        """What takes time from now on is the checkpoint that was asked for."""
        if self._asked is not None:
            self._asked = time.monotonic()

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.is_world_process_zero:
            seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")
        self._saved = time.monotonic()
        if self._asked is not None:
            self._took, self._asked = self._saved - self._asked, None

    def _due(self, update: int) -> bool:
        if self.steps is not None:
            return update % self.steps == 0
        return time.monotonic() - self._saved >= max(SECONDS, SHARE * self._took)


class EpochEnds(TrainerCallback):
    """Has the held-out loss measured where an epoch ends and nowhere else, also where the user stops, and before the checkpoint
    that is written there: a run that goes on from any checkpoint has measured as often as an undisturbed one. After `Saves`."""

    def __init__(self, saves: Saves) -> None:
        self.saves, self._due = saves, False

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if ends_epoch(args, state):
            self._due, control.should_save = control.should_save, False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        at_end = ends_epoch(args, state)
        control.should_evaluate &= at_end
        control.should_save = at_end and (control.should_save or self._due)
        self._due = False
        self.saves.begin()

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.saves.begin()


class Patience(TrainerCallback):
    """Stops after so many epochs without a lower held-out loss. They are counted in the log that every checkpoint has, so a run
    that goes on stops after the same update; and the best checkpoint is the one in this folder, wherever that lies now."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if state.best_global_step and best.is_dir():
            state.best_model_checkpoint = str(best)
        self.on_evaluate(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        losses = [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]
        control.should_training_stop |= without_lower(losses) >= self.epochs


def without_lower(losses: Sequence[float]) -> int:
    """How many losses there are after the lowest, the first of equal ones: 0.5, 0.3, 0.4, 0.3 has two."""
    lowest, waited = math.inf, 0
    for loss in losses:
        lowest, waited = (loss, 0) if loss < lowest else (lowest, waited + 1)
    return waited


def ends_epoch(args: Any, state: Any) -> bool:
    """Whether the last update was the last of an epoch."""
    return bool(state.global_step % (state.max_steps // int(args.num_train_epochs)) == 0)


class Kept(TrainerCallback):
    """Tells the main process that there is a checkpoint, after all others that look at it: the last of the callbacks."""

    def __init__(self, told: Callable[[], None]) -> None:
        self.told = told

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.is_world_process_zero:
            self.told()


@contextmanager
def stopping_between_updates(saves: Saves) -> Iterator[None]:
    """Ctrl-C ends the run after the update it falls into, with a checkpoint; a second one, or one between updates where all is
    kept, at once. Raises KeyboardInterrupt."""
    own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not own or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        # A launcher passes the signal on that its processes have had already.
        if count() == 1 and (saves.asked_to_stop or saves.at_rest):
            raise KeyboardInterrupt
        saves.asked_to_stop = True
        if is_main():
            again = "; Ctrl-C again stops at once" if count() == 1 else ""
            sys.stderr.write(f"footfall: stopping after this update, which is kept{again}\n")

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if saves.stopped:
        raise KeyboardInterrupt


def seal(checkpoint: Path) -> None:
    """Write the checksums of a checkpoint's files, those of DeepSpeed's folder and of FSDP's shards too, but for what no object
    store is given, other processes' files among it that they may still write (parts and shards are none of these, for processes
    meet when they have written them): a copy from there would be taken for damaged."""
    found = ((file, file.relative_to(checkpoint)) for file in sorted(checkpoint.rglob("*")) if file.is_file())
    sums = {name.as_posix(): checksum(file) for file, name in found if name.name != CHECKSUMS and is_carried(name)}
    with atomic_write(checkpoint / CHECKSUMS) as stream:
        stream.write(json.dumps(sums, indent=1).encode())


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; one that a kill or a full disk cut short, or that was damaged since, is removed."""
    found = [path for path in folder.glob("checkpoint-*") if _NAME.fullmatch(path.name) and not path.is_symlink()]
    for path in sorted(found, key=update_of, reverse=True):
        if path.is_dir() and _is_whole(path):
            return path
        remove_folder(path)
    return None


def update_of(checkpoint: Path) -> int:
    """The number of updates behind a checkpoint."""
    return int(checkpoint.name.partition("-")[2])


def _is_whole(checkpoint: Path) -> bool:
    if not (checkpoint / CHECKSUMS).is_file():
        return False
    try:
        sums = json_of(checkpoint / CHECKSUMS)
        whole = "trainer_state.json" in sums and all(checksum(checkpoint / name) == sum for name, sum in sums.items())
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        whole = False
    if not whole:
        warnings.warn(f"{checkpoint} was damaged; it is removed, and training goes on from before it", stacklevel=3)
    return whole


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
    torchs = ("inline_container", "iostream error")  # of torch.save, by how far it had come
    return any(f"(os error {code})" in str(error) for code in _FULL) or any(words in str(error) for words in torchs)
