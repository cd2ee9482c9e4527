"""Tokens per second of the engine against transformers' `generate`: same model, same prompts, same n, in one run.

    python benchmarks/engine.py                                   # embedded model on this CPU, 16 samples a prompt
    python benchmarks/engine.py --shape smollm2 --sequences 64 1024 [--compile]     # on a CUDA machine; also qwen2-1.5b
    python benchmarks/engine.py --shape qwen2-1.5b --sequences 1024 --profile       # what a step spends its time on

`generate` gets every chance: prompts are batched with left padding, several batch sizes are tried and the best one
counts. Only tokens up to the end of each sequence are counted, for both. On CUDA the step time is also compared with the
memory floor: the bytes of the weights and of the keys and values read, over the measured copy bandwidth.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from footfall.policy.decoding import Request
from footfall.policy.engine import Engine
from footfall.policy.protocol import SamplingParams

Ids = tuple[int, ...]


SHAPES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "smollm2": (LlamaConfig, LlamaForCausalLM, {
        "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3,
    }),
    "qwen2-1.5b": (Qwen2Config, Qwen2ForCausalLM, {
        "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2,
    }),
}  # fmt: skip


def shaped(shape: str) -> PreTrainedModel:
    """Random weights in the shape of SmolLM2-135M or Qwen2.5-1.5B."""
    config, build, given = SHAPES[shape]
    torch.manual_seed(0)
    with torch.device("cuda"):
        made = build(config(**given, max_position_embeddings=8192, tie_word_embeddings=True))
    model: PreTrainedModel = made.to(dtype=torch.bfloat16).eval()
    return model


def timed(work: Any) -> tuple[float, Any]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def run_engine(engine: Engine, prompts: list[Ids], n: int, new_tokens: int) -> dict[str, float]:
    """Best of three calls after a warm-up (the prefix cache is emptied before each)."""
    requests = [Request(ids, 1000 * i + j, new_tokens) for i, ids in enumerate(prompts) for j in range(n)]
    best: dict[str, float] = {}
    for attempt in range(4):
        engine.forget()
        steps = engine.usage.steps
        seconds, results = timed(lambda: engine.generate(requests, SamplingParams()))
        tokens = sum(result.decoded for result in results)
        rate = tokens / seconds
        if attempt and rate > best.get("tokens_per_second", 0):
            best = {
                "tokens_per_second": rate,
                "tokens": tokens,
                "seconds": seconds,
                "steps": engine.usage.steps - steps,
            }
    return best


def run_generate(
    model: Any, eos: list[int], prompts: list[Ids], n: int, new_tokens: int, batch: int
) -> dict[str, float]:
    """All prompts through `generate`, `batch` prompts a call, n sequences each; tokens up to the first eos count."""

    def work() -> int:
        tokens = 0
        for start in range(0, len(prompts), batch):
            part = prompts[start : start + batch]
            width = max(map(len, part))
            ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in part], device=model.device)
            mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in part], device=model.device)
            with torch.inference_mode():
                out = model.generate(
                    ids, attention_mask=mask, do_sample=True, top_k=0, top_p=1.0, temperature=1.0, pad_token_id=0,
                    num_return_sequences=n, max_new_tokens=new_tokens, eos_token_id=eos or None,
                )  # fmt: skip
            for row in out[:, width:].tolist():
                ends = [i for i, token in enumerate(row) if token in eos]
                tokens += ends[0] + 1 if ends else len(row)
        return tokens

    seconds, tokens = timed(work)
    return {"tokens_per_second": tokens / seconds, "tokens": tokens, "seconds": seconds, "batch": batch}


def show_profile(engine: Engine, prompts: list[Ids], n: int) -> None:
    """The kernels of a short call, by their share of the time."""
    requests = [Request(ids, 1000 * i + j, 32) for i, ids in enumerate(prompts) for j in range(n)]
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        engine.generate(requests, SamplingParams())
        torch.cuda.synchronize()
    sys.stderr.write(
        seen.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=60) + "\n"
    )


def memory_floor(model: PreTrainedModel, sequences: int, mean_length: float) -> dict[str, float]:
    """Seconds a decode step needs at least: (weights + keys and values) / copy bandwidth, both directions counted."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    best = min(timed(lambda: target.copy_(source))[0] for _ in range(20))
    bandwidth = 2 * source.numel() / best
    config = model.config
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    a_token = (
        2
        * config.num_hidden_layers
        * config.num_key_value_heads
        * (config.hidden_size // config.num_attention_heads)
        * 2
    )
    total = weights + sequences * mean_length * a_token
    return {"bandwidth": bandwidth, "bytes": total, "seconds_a_step": total / bandwidth}


def on_cuda(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for sequences in args.sequences:
        generator = torch.Generator().manual_seed(0)
        n_prompts = max(1, sequences // args.samples)
        prompts = [
            tuple(torch.randint(10, 49000, (args.prompt_tokens,), generator=generator).tolist())
            for _ in range(n_prompts)
        ]
        plain = shaped(args.shape)
        engine = Engine(plain, [], rows=sequences, slot_bytes=64 << 30, cache_bytes=8 << 30, compile=args.compile)
        ours = run_engine(engine, prompts, args.samples, args.new_tokens)
        if args.profile:
            show_profile(engine, prompts, args.samples)
        if "generate" not in args.skip:
            run_generate(plain, [], prompts, args.samples, 4, len(prompts))
            theirs = run_generate(plain, [], prompts, args.samples, args.new_tokens, len(prompts))
        else:
            theirs = {"tokens_per_second": float("nan")}
        floor = memory_floor(plain, sequences, args.prompt_tokens + args.new_tokens / 2)
        step = ours["seconds"] / ours["steps"]
        rows.append(
            {
                "sequences": sequences, "engine": ours, "generate": theirs,
                "ratio": ours["tokens_per_second"] / theirs["tokens_per_second"],
                "step_ms": 1e3 * step, "floor_ms": 1e3 * floor["seconds_a_step"], "over_floor": step / floor["seconds_a_step"],
                "bandwidth_tb_s": floor["bandwidth"] / 1e12, "compile": args.compile,
                "device": torch.cuda.get_device_name(),
            }
        )  # fmt: skip
        del engine, plain
        torch.cuda.empty_cache()
    return rows


def on_cpu(args: argparse.Namespace) -> list[dict[str, Any]]:
    from footfall.policy.embedded import EMBEDDED
    from footfall.policy.torch_policy import TorchPolicy
    from footfall.render import encode
    from footfall.types import Trajectory
    from footfall.worlds import ArithmeticWorld

    policy = TorchPolicy.load(EMBEDDED, "cpu", rows=args.rows)
    problems = ArithmeticWorld().problems(args.prompts, seed=11, split="test")
    prompts = [encode(policy.tokenizer, Trajectory(p.id, p, separator="\n"), policy.template).ids for p in problems]
    ours = run_engine(policy.engine, prompts, args.samples, args.new_tokens)
    eos = sorted(policy.engine.eos)
    tried = [run_generate(policy.engine.model, eos, prompts, args.samples, args.new_tokens, b) for b in args.batches]
    theirs = max(tried, key=lambda r: r["tokens_per_second"])
    return [
        {"prompts": args.prompts, "samples": args.samples, "engine": ours, "generate_best": theirs, "generate": tried,
         "ratio": ours["tokens_per_second"] / theirs["tokens_per_second"], "threads": torch.get_num_threads()}
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["embedded", *SHAPES], default="embedded")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--sequences", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument(
        "--new-tokens", type=int, help="at most; 128 on CUDA, 256 on the CPU, where sequences end by themselves"
    )
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.new_tokens = args.new_tokens or (256 if args.shape == "embedded" else 128)
    rows = on_cpu(args) if args.shape == "embedded" else on_cuda(args)
    text = json.dumps(rows, indent=2)
    if args.out:
        args.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
