"""Several processes of one training (`torchrun`, `accelerate launch`): who writes, what all agree on, who says what failed.

The launcher starts the processes and ends all of them when one fails; accelerate makes them a group. A process that no launcher
started is the main one of a job of one, and nothing here costs it anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE = timedelta(hours=6)
"""So long the others wait for the main process, which measures and writes alone."""


def count() -> int:
    """Processes of this job."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "LOCAL_RANK" in os.environ else 1


def is_main() -> bool:
    """Whether this process writes the run directory, shows progress and prints the result."""
    return count() == 1 or int(os.environ["RANK"]) == 0


def join(cpu: bool) -> None:
    """Meet the other processes, by gloo on the CPU and by NCCL on CUDA. A second call does nothing."""
    if count() > 1:
        from accelerate import PartialState

        PartialState(cpu=cpu, timeout=_PATIENCE)


@contextmanager
def joined(cpu: bool) -> Iterator[None]:
    """`join`, and part at the end; after an error the launcher ends the others."""
    join(cpu)
    yield
    if count() > 1:
        import torch.distributed

        torch.distributed.destroy_process_group()


def agreed(value: T) -> T:
    """What the main process has for `value`, in every process: they meet here."""
    if count() == 1:
        return value
    import torch.distributed

    said = [value]
    torch.distributed.broadcast_object_list(said, src=0)
    return said[0]


def any_of(*flags: bool) -> tuple[bool, ...]:
    """Each flag, true in every process if it is in one of them."""
    if count() == 1:
        return flags
    import torch.distributed
    from accelerate import PartialState

    found = torch.tensor(flags, dtype=torch.int32, device=PartialState().device)
    torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return tuple(bool(flag) for flag in found.tolist())


def is_first_to_fail() -> bool:
    """Whether no other process has failed before: its error is told, those that follow from it are not."""
    if count() == 1:
        return True
    distributed: Any = import_module("torch.distributed")
    try:
        # The launcher's own store, which is there before the group is and after the main process is gone.
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = distributed.TCPStore(*place, is_master=False, timeout=timedelta(seconds=10))
        return int(store.add(f"footfall-failed-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", 1)) == 1
    except (KeyError, ValueError, RuntimeError):
        return is_main()
