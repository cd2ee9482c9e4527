"""Tokens per second of PRM training: padded batches against packed ones, compiled or not, same model and traces, in one run.

    python -m benchmarks.training                                      # embedded shape on this CPU
    python -m benchmarks.training --shape qwen2-1.5b --rank 8          # on a CUDA machine

Each way trains through the same Trainer that `footfall train` uses, optimizer and clipping included. The first updates are
not counted (kernels are chosen and compiled there). The share of the matrix rate counts what must be computed: forward,
the gradient of what flows through, and of the weights that are trained; attention over each trace's own past.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from benchmarks.scoring import SHAPES, ShapedModel, matmul_rate, some_readings
from footfall.loading import quiet
from footfall.reward.backbone import add_lora, half_precision_adapters
from footfall.reward.heads import Linear
from footfall.reward.packed import packing
from footfall.reward.readout import Readout
from footfall.train.config import TrainConfig
from footfall.train.data import Example
from footfall.train.objectives import make_objective
from footfall.train.trainer import StepTrainer, training_arguments
from footfall.types import Problem, Trajectory

WARM_UP = 6
"""Updates before the clock starts."""
WAYS = ("padded", "packed", "packed, compiled")


class TrainedModel(ShapedModel):
    """Random weights in a known shape with adapters of a rank, or all of it trained in float32."""

    def __init__(self, shape: str, device: torch.device, rank: int | None) -> None:
        super().__init__(shape, device)
        self.head = Linear(SHAPES[shape][2]["hidden_size"], 1).to(device)
        self.readout = Readout()
        self.backbone = self.backbone.float() if rank is None else add_lora(self.backbone, rank, 2 * rank, 0)

    @property
    def max_length(self) -> int:
        return 2048


class Clock(TrainerCallback):
    """When each update ended."""

    def __init__(self) -> None:
        self.ended: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ended.append(time.perf_counter())


def examples_for(model: ShapedModel, count: int) -> list[Example]:
    empty = Trajectory("t", Problem("p", ""), ())
    readings = some_readings(count, model.vocabulary)
    draw = torch.Generator().manual_seed(2)
    found = []
    for reading in readings:
        labels = tuple(torch.rand(len(reading.positions), generator=draw).tolist())
        found.append(Example(empty, reading, labels, labels, (True,) * len(labels)))
    return found


def train(way: str, shape: str, device: torch.device, arguments: argparse.Namespace) -> dict[str, float]:
    """Updates over all traces once; tokens a second after the warm-up."""
    model = TrainedModel(shape, device, arguments.rank)
    examples = examples_for(model, arguments.traces)
    cuda, packed = device.type == "cuda", way != "padded"
    config = TrainConfig(epochs=1, batch_size=arguments.batch, device=device.type)
    updates = arguments.traces // arguments.batch
    clock = Clock()
    if "compiled" in way:
        model.fuse()
    with tempfile.TemporaryDirectory() as folder, quiet(), ExitStack() as stack:
        if packed:
            stack.enter_context(packing(model.backbone))
        if cuda and arguments.rank is not None:
            stack.enter_context(half_precision_adapters(model.backbone))
        args = training_arguments(config, 1e-4, Path(folder), updates, cuda)
        trainer = StepTrainer(model, make_objective("soft-bce", {}), args, examples, (), [clock], packed=packed)
        order = list(trainer._get_train_sampler())
        started = time.perf_counter()
        trainer.train()
    counted = [len(examples[i].reading.ids) for i in order[WARM_UP * arguments.batch : updates * arguments.batch]]
    seconds = clock.ended[updates - 1] - clock.ended[WARM_UP - 1]
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
    return {
        "tokens_per_second": sum(counted) / seconds, "updates": updates - WARM_UP,
        "seconds_an_update": seconds / (updates - WARM_UP), "warm_up_seconds": clock.ended[WARM_UP - 1] - started,
        "work_per_second": work(model, counted) / seconds, "peak_GiB": round(peak, 1),
    }  # fmt: skip


def work(model: TrainedModel, lengths: Sequence[int]) -> float:
    """Floating point operations of training on traces of these lengths."""
    text = model.backbone.config
    layers = [p for name, p in model.backbone.named_parameters() if ".layers." in f".{name}"]
    matrices, trained = sum(p.numel() for p in layers), sum(p.numel() for p in layers if p.requires_grad)
    width: int = text.num_attention_heads * (text.hidden_size // text.num_attention_heads)
    attention = 3.5 * 2 * text.num_hidden_layers * width
    return float(sum((4 * matrices + 2 * trained) * n + attention * n * n for n in lengths))


def measure(shape: str, device: torch.device, arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"shape": shape, "device": device.type, "rank": arguments.rank, "batch": arguments.batch}
    rate = found["matmul_flops"] = matmul_rate(device)
    for way in arguments.ways:
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        found[way] = train(way, shape, device, arguments)
        found[way]["share_of_matmul"] = found[way].pop("work_per_second") / rate
        sys.stderr.write(f"{way}: {found[way]}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=["embedded"], choices=list(SHAPES))
    parser.add_argument("--traces", type=int, default=None, help="default: 160 on a CPU, 1,600 on CUDA")
    parser.add_argument("--batch", type=int, default=None, help="traces an update; default: 8 on a CPU, 32 on CUDA")
    parser.add_argument("--rank", type=int, default=None, help="of LoRA; default: all weights are trained")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--out", type=Path, default=None, help="also write the figures as JSON")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arguments.traces = arguments.traces or (1600 if device.type == "cuda" else 160)
    arguments.batch = arguments.batch or (32 if device.type == "cuda" else 8)
    text = json.dumps([measure(shape, device, arguments) for shape in arguments.shape], indent=1)
    sys.stdout.write(text + "\n")
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
