"""Tokens per second of PRM training: padded batches against packed ones, compiled or not, same model and traces, in one run.

    python -m benchmarks.training                                      # embedded shape on this CPU
    python -m benchmarks.training --shape qwen2-1.5b --rank 8          # on a CUDA machine
    python -m benchmarks.training --ways trl packed                    # beside TRL's PRM trainer (`benchmarks.trl_prm`)
    python -m benchmarks.training --ways trl packed --quality 2        # and what both have learnt, under 2 seeds

Each way of Footfall trains through the same Trainer that `footfall train` uses, optimizer and clipping included. `trl` is
TRL's PRMTrainer with the same weights, traces and settings; `trl, checkpointed` as it comes, which computes activations twice.
The first updates are not counted (kernels are chosen and compiled there), and padding is no token. The share of the matrix rate
counts what must be computed: forward, the gradient of what flows through, and of the weights that are trained; attention over
each trace's own past.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from benchmarks.scoring import SHAPES, ShapedModel, matmul_rate, some_readings
from benchmarks.training_quality import quality
from benchmarks.trl_prm import as_tokens, token_classifier, trl_prm, trl_trainer
from footfall.loading import load_tokenizer, quiet
from footfall.policy.embedded import EMBEDDED
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
TRL_WAYS = ("trl", "trl, checkpointed")


class TrainedModel(ShapedModel):
    """Random weights in a known shape, half precision if they are frozen, with a fresh head of one output."""

    def __init__(self, shape: str, device: torch.device, rank: int | None) -> None:
        super().__init__(shape, device)
        self.head = Linear(SHAPES[shape][2]["hidden_size"], 1).to(device)
        self.readout = Readout()
        if rank is None:
            self.backbone = self.backbone.float()

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


class Counted:
    """A collator that keeps the tokens of each trace, batch by batch."""

    def __init__(self, collate: Callable[[Any], Any], length: Callable[[Any], int]) -> None:
        self.collate, self.length = collate, length
        self.batches: list[list[int]] = []

    def __call__(self, rows: Sequence[Any]) -> Any:
        self.batches.append([self.length(row) for row in rows])
        return self.collate(rows)


def train(way: str, shape: str, device: torch.device, arguments: argparse.Namespace) -> dict[str, float]:
    """Updates over all traces once; tokens a second after the warm-up."""
    model = TrainedModel(shape, device, arguments.rank)
    examples = examples_for(model, arguments.traces)
    cuda = device.type == "cuda"
    config = TrainConfig(epochs=1, batch_size=arguments.batch, device=device.type)
    config = replace(config, gradient_checkpointing="checkpointed" in way)
    updates = arguments.traces // arguments.batch
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, quiet(), ExitStack() as stack:
        args = training_arguments(config, 1e-4, Path(folder), updates, cuda)
        trainer: Trainer
        if way in TRL_WAYS:
            rows = [as_tokens(e.reading.ids, e.reading.positions, [round(v) for v in e.labels]) for e in examples]
            classifier = token_classifier(model.backbone, device)
            trainer = trl_trainer(classifier, rows, load_tokenizer(str(EMBEDDED)), args, [clock], arguments.rank)
            counted = Counted(trainer.data_collator, lambda row: len(row["input_ids"]))
        else:
            trainer = _own_trainer(way, model, examples, args, clock, arguments.rank, stack)
            counted = Counted(trainer.data_collator, lambda example: len(example.reading.ids))
        trainer.data_collator = counted
        started = time.perf_counter()
        trainer.train()
    lengths = [length for batch in counted.batches[WARM_UP:updates] for length in batch]
    seconds = clock.ended[updates - 1] - clock.ended[WARM_UP - 1]
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
    return {
        "tokens_per_second": sum(lengths) / seconds, "updates": updates - WARM_UP,
        "seconds_an_update": seconds / (updates - WARM_UP), "warm_up_seconds": clock.ended[WARM_UP - 1] - started,
        "work_per_second": work(trainer.model if way in TRL_WAYS else model.backbone, lengths) / seconds,
        "peak_GiB": round(peak, 1),
    }  # fmt: skip


def _own_trainer(
    way: str,
    model: TrainedModel,
    examples: Sequence[Example],
    args: TrainingArguments,
    clock: Clock,
    rank: int | None,
    stack: ExitStack,
) -> StepTrainer:
    """Footfall's, with what the way needs held until the stack is closed."""
    packed = way != "padded"
    if rank is not None:
        model.backbone = add_lora(model.backbone, rank, 2 * rank, 0)
    if "compiled" in way:
        model.fuse()
    if packed:
        stack.enter_context(packing(model.backbone))
    if args.bf16 and rank is not None:
        stack.enter_context(half_precision_adapters(model.backbone))
    return StepTrainer(model, make_objective("soft-bce", {}), args, examples, (), [clock], packed=packed)


def work(backbone: Any, lengths: Sequence[int]) -> float:
    """Floating point operations of training on traces of these lengths."""
    text = backbone.config
    layers = [p for name, p in backbone.named_parameters() if ".layers." in f".{name}"]
    matrices, trained = sum(p.numel() for p in layers), sum(p.numel() for p in layers if p.requires_grad)
    width: int = text.num_attention_heads * (text.hidden_size // text.num_attention_heads)
    attention = 3.5 * 2 * text.num_hidden_layers * width
    return float(sum((4 * matrices + 2 * trained) * n + attention * n * n for n in lengths))


def measure(shape: str, device: torch.device, arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"shape": shape, "device": device.type, "rank": arguments.rank, "batch": arguments.batch}
    rate = found["matmul_flops"] = matmul_rate(device)
    for way in arguments.ways:
        gc.collect()  # a trainer and its model refer to each other
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            found[way] = train(way, shape, device, arguments)
        except torch.OutOfMemoryError:
            sys.stderr.write(f"{way}: out of memory\n")
            found[way] = None
            continue
        found[way]["share_of_matmul"] = found[way].pop("work_per_second") / rate
        sys.stderr.write(f"{way}: {found[way]}\n")
    done = [way for way in arguments.ways if found[way]]
    found["over_trl"] = {
        trl: {way: found[way]["tokens_per_second"] / found[trl]["tokens_per_second"] for way in done if way in WAYS}
        for trl in done if trl in TRL_WAYS
    }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=["embedded"], choices=list(SHAPES))
    parser.add_argument("--traces", type=int, default=None, help="default: 160 on a CPU, 1,600 on CUDA")
    parser.add_argument("--batch", type=int, default=None, help="traces an update; default: 8 on a CPU, 32 on CUDA")
    parser.add_argument("--rank", type=int, default=None, help="of LoRA; default: all weights are trained")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=(*TRL_WAYS, *WAYS))
    parser.add_argument("--quality", type=int, default=0, metavar="SEEDS", help="see benchmarks.training_quality")
    parser.add_argument("--first-seed", type=int, default=0, help="of --quality")
    parser.add_argument("--out", type=Path, default=None, help="also write the figures as JSON")
    arguments = parser.parse_args()
    if arguments.quality or set(arguments.ways) & set(TRL_WAYS):
        trl_prm()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arguments.traces = arguments.traces or (1600 if device.type == "cuda" else 160)
    arguments.batch = arguments.batch or (32 if device.type == "cuda" else 8)
    found: list[Any] = [measure(shape, device, arguments) for shape in arguments.shape]
    if arguments.quality:
        found.append(quality(arguments.quality, device.type, first=arguments.first_seed))
    text = json.dumps(found, indent=1)
    sys.stdout.write(text + "\n")
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
