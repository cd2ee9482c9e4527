"""The models of a run of `scripts/word_problems.py`, as its stages open them, and the facts that a stage keeps."""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from typing import Any

import torch

from footfall.policy.protocol import SamplingParams
from footfall.policy.torch_policy import TorchPolicy
from footfall.render import Template
from footfall.reward.judge import PRMJudge, step_head

TEMPLATE = Template("plain", prompt_end="\n")

Facts = dict[str, Any]


def drawing(args: argparse.Namespace, temperature: float = 0.8) -> SamplingParams:
    return SamplingParams(temperature, max_tokens=256, seed=args.seed)


def in_memory(model: Any, tokenizer: Any) -> TorchPolicy:
    """The policy of a model that is still being trained: a copy, in bfloat16 on CUDA."""
    writer = copy.deepcopy(model).to(torch.bfloat16) if model.device.type == "cuda" else copy.deepcopy(model)
    return TorchPolicy(writer.train(False), tokenizer, label="smollm2-words", template=TEMPLATE)


def open_policy(args: argparse.Namespace) -> TorchPolicy:
    return TorchPolicy.load(args.out / "policy", args.device, "smollm2-words", template=TEMPLATE)


def open_prm(args: argparse.Namespace, labels: str, cache_tokens: int = 0) -> PRMJudge:
    folder = args.out / f"prm-{labels}" / "run" / "model"
    return step_head(folder, device=args.device, too_long="partial", cache_tokens=cache_tokens)


def keep(facts: Facts, args: argparse.Namespace) -> None:
    folder = args.out / (f"prm-{args.labels}" if args.stage == "prm" else args.stage)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def tell(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
