"""Tokens per second of scoring: packed batches against the two ways peers do it, same model and traces, in one run.

    python benchmarks/scoring.py                                          # embedded shape on this CPU
    python benchmarks/scoring.py --shape smollm2 qwen2-1.5b --compile     # on a CUDA machine

Peers score one trace at a time, or run one pass for every step (the prefix that ends in it). Both are given the same
model, head and attention kernel, and a share of the traces, since they are slow. A pass per step counts each token of a
trace once, however often it was run. Values of all ways are compared. The incremental part grows traces step by step, as
a search does, with the prefix cache and without.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel, Qwen2Config, Qwen2Model

from footfall.render import Reading
from footfall.reward.heads import Layers
from footfall.reward.incremental import PrefixCache
from footfall.reward.prm import PRM
from footfall.reward.readout import Readout

SHAPES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "embedded": (LlamaConfig, LlamaModel, {
        "vocab_size": 512, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 5, "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }),
    "smollm2": (LlamaConfig, LlamaModel, {
        "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3,
    }),
    "qwen2-1.5b": (Qwen2Config, Qwen2Model, {
        "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2,
    }),
}  # fmt: skip


class ShapedModel(PRM):
    """Random weights in a known shape, with a class head as Qwen2.5-Math-PRM has it."""

    def __init__(self, shape: str, device: torch.device) -> None:
        nn.Module.__init__(self)
        config, build, given = SHAPES[shape]
        torch.manual_seed(0)
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        with device:
            self.backbone = build(config(**given, max_position_embeddings=4096)).to(dtype=dtype)
        width = given["hidden_size"]
        last = nn.Linear(width, 2)
        with torch.no_grad():
            last.weight.mul_(20.0)  # so that values spread over [0, 1] and a gap between two ways would show
        self.head = Layers([nn.Linear(width, width), last]).to(device)
        self.readout = Readout("good", ("bad", "good"), ("good",))
        self.pad_id = 0
        self.vocabulary: int = given["vocab_size"]

    def work(self, lengths: Sequence[int]) -> float:
        """Floating point operations of reading traces of these lengths: matrices, and attention over what came before."""
        text = self.backbone.config
        heads: int = text.num_attention_heads * (text.hidden_size // text.num_attention_heads)
        layers: int = text.num_hidden_layers
        matrices = sum(int(p.numel()) for p in self.backbone.layers.parameters())
        return float(sum(2 * matrices * n + 2 * layers * heads * n * n for n in lengths))


def some_readings(count: int, vocabulary: int) -> list[Reading]:
    """Random ids in the proportions of ProcessBench: a prompt of 40 to 160 tokens, 3 to 14 steps of 15 to 75."""
    draw = torch.Generator().manual_seed(1)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=draw))

    readings = []
    for _ in range(count):
        ends, at = [], between(40, 160)
        for _ in range(between(3, 14)):
            at += between(15, 75)
            ends.append(at - 1)
        ids = torch.randint(vocabulary, (at,), generator=draw).tolist()
        readings.append(Reading(tuple(ids), tuple(ends)))
    return readings


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def best_of(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The fastest of some runs after a warm-up."""
    work()
    return min((timed(work) for _ in range(repeats)), key=lambda found: found[0])


def one_at_a_time(model: PRM, readings: Sequence[Reading]) -> list[Tensor]:
    return [model.values(model.logits([r]))[0, : len(r.positions)].cpu() for r in readings]


def one_pass_a_step(model: PRM, readings: Sequence[Reading]) -> list[Tensor]:
    found = []
    for r in readings:
        prefixes = [Reading(r.ids[: p + 1], (p,)) for p in r.positions]
        found.append(torch.cat([model.values(model.logits([prefix]))[0].cpu() for prefix in prefixes]))
    return found


def packed(model: PRM, readings: Sequence[Reading], budget: int) -> list[Tensor]:
    return [model.values(logits) for logits in model.each_logits(readings, budget)]


def matmul_rate(device: torch.device) -> float:
    """Floating point operations a second of a large square product in the type that scoring uses."""
    n = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))

    def work() -> None:
        for _ in range(10):
            torch.mm(a, b)

    seconds, _ = best_of(work, 5)
    return 10 * 2.0 * n**3 / seconds


def growing(model: PRM, readings: Sequence[Reading], budget: int, cached: bool) -> tuple[int, list[Tensor]]:
    """Each trace is scored after every step, as a search does; tokens run and the new value each time."""
    cache = PrefixCache(model, 10**9)
    ran = 0
    values: list[Tensor] = []
    for k in range(max(len(r.positions) for r in readings)):
        now = [Reading(r.ids[: r.positions[k] + 1], r.positions[: k + 1]) for r in readings if len(r.positions) > k]
        if cached:
            logits, tokens = cache.each_logits(now, budget)
            ran += sum(tokens)
        else:
            logits = model.each_logits(now, budget)
            ran += sum(len(r.ids) for r in now)
        values += [model.values(each)[-1:] for each in logits]
    return ran, values


def distance(some: Sequence[Tensor], other: Sequence[Tensor]) -> dict[str, float]:
    """Mean and largest difference of the values, over the traces that both have."""
    gaps = torch.cat([(x - y).abs() for x, y in zip(some, other, strict=False)])
    return {"mean": float(gaps.mean()), "largest": float(gaps.max())}


def measure(shape: str, device: torch.device, arguments: argparse.Namespace) -> dict[str, Any]:
    """All ways on one model."""
    with torch.inference_mode():
        model = ShapedModel(shape, device).eval()
        readings = some_readings(arguments.traces, model.vocabulary)
        few = readings[: arguments.few]
        tokens, few_tokens = sum(len(r.ids) for r in readings), sum(len(r.ids) for r in few)
        per_step, by_step = best_of(lambda: one_pass_a_step(model, few), 2)
        per_trace, by_trace = best_of(lambda: one_at_a_time(model, few), 2)
        seconds, values = best_of(lambda: packed(model, readings, arguments.budget), 3)
        found: dict[str, Any] = {
            "shape": shape, "device": device.type, "traces": len(readings), "tokens": tokens,
            "parameters": model.size, "pass_per_step": few_tokens / per_step, "trace_at_a_time": few_tokens / per_trace,
            "packed": tokens / seconds, "gap_to_trace_at_a_time": distance(values, by_trace),
            "gap_to_pass_per_step": distance(values, by_step),
        }  # fmt: skip
        found |= incremental(model, readings[: arguments.grow], arguments.budget)
        exact = one_at_a_time(copy.deepcopy(model).float(), few)
        found["gap_to_float32"] = {"packed": distance(values, exact), "trace_at_a_time": distance(by_trace, exact)}
        if arguments.compile:
            model.fuse()
            first, _ = timed(lambda: packed(model, readings, arguments.budget))
            seconds, fused = best_of(lambda: packed(model, readings, arguments.budget), 3)
            found |= {"compiled": tokens / seconds, "first_compiled_call_seconds": first}
            found["gap_to_float32"]["compiled"] = distance(fused, exact)
        rate = matmul_rate(device)
        found["matmul_flops"] = rate
        found["share_of_matmul"] = model.work([len(r.ids) for r in readings]) / seconds / rate
        best = found.get("compiled", found["packed"])
        found["times_trace_at_a_time"] = best / found["trace_at_a_time"]
        found["times_pass_per_step"] = best / found["pass_per_step"]
    return found


def incremental(model: PRM, readings: Sequence[Reading], budget: int) -> dict[str, Any]:
    """Growing traces with the prefix cache against reading them anew after each step."""
    again, (ran_again, plain) = timed(lambda: growing(model, readings, budget, cached=False))
    grown, (ran, cached) = timed(lambda: growing(model, readings, budget, cached=True))
    return {
        "growing_tokens_run_again": ran_again, "growing_tokens_run_cached": ran, "growing_times_faster": again / grown,
        "growing_gap": distance(cached, plain),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=["embedded"], choices=list(SHAPES))
    parser.add_argument("--traces", type=int, default=None, help="default: 200 on a CPU, 4,000 on CUDA")
    parser.add_argument("--few", type=int, default=32, help="traces for the slow ways")
    parser.add_argument("--grow", type=int, default=None, help="traces that grow; default: 32 on a CPU, 512 on CUDA")
    parser.add_argument(
        "--budget", type=int, default=None, help="tokens a batch; default: 2,048 on a CPU, 65,536 on CUDA"
    )
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="also write the figures as JSON")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    arguments.traces = arguments.traces or (4000 if device.type == "cuda" else 200)
    arguments.grow = arguments.grow or (512 if device.type == "cuda" else 32)
    arguments.budget = arguments.budget or (65536 if device.type == "cuda" else 2048)
    found = [measure(shape, device, arguments) for shape in arguments.shape]
    text = json.dumps(found, indent=1)
    sys.stdout.write(text + "\n")
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
