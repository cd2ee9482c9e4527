"""`footfall` with FSDP on the CPU, which accelerate offers for GPUs only: its state is told that gloo is one of theirs."""

import os
import sys

import torch.distributed
from accelerate import state
from accelerate.utils import DistributedType

from footfall import cli


def sharded(self: object, *given: object) -> tuple[str, DistributedType]:
    """In place of `MULTI_CPU`: a type that accelerate goes on to FSDP from."""
    return "gloo", DistributedType.MULTI_XPU


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    state.PartialState._prepare_backend = sharded
    code = cli.main()
    if (
        torch.distributed.is_initialized()
    ):  # one process leaves no group by itself, and can abort in gloo's threads at its end
        torch.distributed.destroy_process_group()
    sys.exit(code)
