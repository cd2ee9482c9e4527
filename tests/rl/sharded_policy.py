"""A policy trained by `CreditTrainer` in a process of torchrun, its weights sharded by FSDP2 on the CPU; prints its losses."""

import json
import os
import sys
from pathlib import Path

import torch.distributed
from accelerate import state

from footfall.registry import create
from footfall.rl.rewards import Reward
from footfall.scale import processes
from tests.rl.test_rl_trainer import graded, trainer
from tests.train.fsdp_on_cpu import sharded

if __name__ == "__main__":
    credit, writer, folder = sys.argv[1:]
    torch.distributed.init_process_group("gloo")
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    state.PartialState._prepare_backend = sharded
    with processes.joined(cpu=True):  # a process that ends with the group alive can abort in gloo's threads
        given = writer if writer in ("engine", "trl") else create("policy", writer)
        made = graded(
            trainer(Path(folder), Reward(create("credit", credit)), writer=given, per_device_train_batch_size=4)
        )
        assert made.is_fsdp_enabled
        made.train()
        if made.accelerator.is_main_process:
            sys.stdout.write(json.dumps([row["loss"] for row in made.state.log_history if "loss" in row]) + "\n")
