"""Prompts read once for their group against TRL's padded batch: log-probabilities and gradients, on this machine's device.

    python -m benchmarks.shared_prompts                      # random weights; CUDA where there is one
    python -m benchmarks.shared_prompts --model q05.gguf     # real ones

One batch of completions of several lengths goes through `CreditTrainer` (`footfall.rl.shared_prompts`) and through stock
`GRPOTrainer`, with the same weights. In float32 both must agree. In bfloat16 each is held against stock in float32: what
rounding does to one of them it may do to the other. On CUDA float32 products are exact ones here, not TF32. `seconds` are those
of a forward and a backward pass, the second of two.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from benchmarks.rl import SHAPES, shaped
from footfall.loading import load_model, quiet
from footfall.registry import create
from footfall.rl.rewards import Reward
from footfall.rl.trainer import CreditTrainer
from footfall.worlds import ArithmeticWorld

_EXACT, _WORSE = 1e-3, 2.0
"""The largest difference in float32, and how much farther than stock's ours may be from float32 in bfloat16."""


class Pass(NamedTuple):
    """What a forward and a backward pass gave: (B, T) of each, and all gradients in one row."""

    logprobs: Tensor
    entropies: Tensor
    gradient: Tensor
    seconds: float


def made_trainer(source: str, device: str, dtype: torch.dtype, folder: str) -> Any:
    model, tokenizer = load_model(source, device, dtype)
    args = GRPOConfig(
        folder, per_device_train_batch_size=8, num_generations=4, max_completion_length=64, use_cpu=device == "cpu",
        bf16=dtype == torch.bfloat16, report_to="none", gradient_checkpointing=False,
    )  # fmt: skip
    return CreditTrainer(model, tokenizer, ArithmeticWorld().problems(8), Reward(create("credit", "grpo")), args)


def batch(vocabulary: int, device: str, prompts: int, group: int, longest: int) -> tuple[Tensor, Tensor]:
    """(B, L) ids and mask: prompts padded on the left, completions of many lengths on the right."""
    draw = torch.Generator().manual_seed(0)
    before = [int(n) for n in torch.randint(20, 80, (prompts,), generator=draw)]
    width = max(before)
    ids = torch.randint(8, vocabulary, (prompts * group, width + longest), generator=draw)
    mask = torch.zeros_like(ids)
    for row in range(prompts * group):
        own = before[row // group]
        ids[row, :width] = ids[row // group * group, :width]
        mask[row, width - own : width + int(torch.randint(1, longest + 1, (1,), generator=draw))] = 1
    return ids.to(device), mask.to(device)


def passed(trainer: Any, of: Any, ids: Tensor, mask: Tensor, kept: int) -> Pass:
    weights = torch.randn(len(ids), kept, generator=torch.Generator().manual_seed(1)).to(ids.device) * mask[:, -kept:]
    began, found = 0.0, None
    for _ in range(2):
        trainer.model.zero_grad(set_to_none=True)
        began = _now(ids.device)
        found = of(trainer.model, ids, mask, kept, compute_entropy=True, batch_size=len(ids))
        torch.autograd.backward([(found[0] * weights).sum()])
    ended = _now(ids.device)
    assert found is not None
    gradient = torch.cat([each.grad.detach().float().flatten() for each in trainer.model.parameters()])
    logprobs, entropies = ((each * mask[:, -kept:]).detach().float() for each in found[:2])
    return Pass(logprobs, entropies, gradient, ended - began)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def apart(one: Pass, other: Pass, tokens: float) -> dict[str, float]:
    """Largest and mean difference of log-probabilities, largest of entropies; of gradients by their length."""
    off = (one.logprobs - other.logprobs).abs()
    return {
        "logprobs_most": float(off.max()),
        "logprobs_mean": float(off.sum() / tokens),
        "entropies_most": float((one.entropies - other.entropies).abs().max()),
        "gradient": float((one.gradient - other.gradient).norm() / other.gradient.norm()),
    }


def compared(source: str, device: str, ids: Tensor, mask: Tensor, kept: int, folder: str) -> dict[str, Any]:
    tokens, told = float(mask[:, -kept:].sum()), {}
    found: dict[str, Pass] = {}
    for kind in (torch.float32, torch.bfloat16):
        trainer = made_trainer(source, device, kind, folder)
        trainer.model.train()
        name = str(kind).removeprefix("torch.")
        of = partial(GRPOTrainer._get_per_token_logps_and_entropies, trainer)
        found[f"stock {name}"] = passed(trainer, of, ids, mask, kept)
        found[f"footfall {name}"] = passed(trainer, trainer._get_per_token_logps_and_entropies, ids, mask, kept)
        del trainer
    exact = found["stock float32"]
    for name in ("footfall float32", "stock bfloat16", "footfall bfloat16"):
        told[f"{name} against stock float32"] = apart(found[name], exact, tokens)
    told["footfall bfloat16 against stock bfloat16"] = apart(
        found["footfall bfloat16"], found["stock bfloat16"], tokens
    )
    return {**told, "seconds": {name: round(each.seconds, 4) for name, each in found.items()}}


def same(told: dict[str, Any]) -> bool:
    """Whether the numbers are those of the padded batch."""
    exact, stock, own = (
        told[f"{name} against stock float32"] for name in ("footfall float32", "stock bfloat16", "footfall bfloat16")
    )
    measures = ("logprobs_mean", "gradient")
    near = all(own[name] <= _WORSE * stock[name] for name in measures)
    return near and max(exact["logprobs_most"], exact["gradient"]) <= _EXACT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument(
        "--shape", choices=list(SHAPES), default="narrow", help="random weights, where no model is named"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128, help="of the longest completion")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as folder, quiet():
        source = given.model or f"{folder}/{given.shape}"
        vocabulary = 1000
        if given.model is None:
            shaped(given.shape, Path(source), given.device)
            vocabulary = SHAPES[given.shape]["vocab_size"]
        ids, mask = batch(vocabulary, given.device, given.prompts, given.group, given.tokens)
        told = compared(source, given.device, ids, mask, given.tokens, folder)
    good = same(told)
    sys.stdout.write(json.dumps({"device": given.device, **told, "same": good}, indent=2) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
