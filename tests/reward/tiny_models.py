"""Tiny random decoders with a byte-level tokenizer of their own, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Gemma3TextConfig,
    Gemma3TextModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from footfall.types import Problem, Step, Trajectory


def byte_tokenizer() -> Any:
    """Bytes and a few merges, one of which would swallow a step boundary if text were joined: `.` + newline."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "</s>", "<pad>", *alphabet, "ĊĊ", ".Ċ", ".ĊĊ", "th"]
    merges = [("Ċ", "Ċ"), (".", "ĊĊ"), (".", "Ċ"), ("t", "h")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def decoder(family: str = "llama", context: int = 512, seed: int = 0) -> Any:
    shape: dict[str, Any] = {
        "vocab_size": len(byte_tokenizer()), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": context, "initializer_range": 0.2,
    }  # fmt: skip
    build: Any = Qwen2ForCausalLM if family == "qwen2" else LlamaForCausalLM
    config: Any = Qwen2Config if family == "qwen2" else LlamaConfig
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(config(**shape)).eval()


def gemma(window: int, last: str = "full_attention") -> Any:
    """A decoder whose layers look back over a window, and over everything in the last unless told."""
    build: Any = Gemma3TextModel
    config = Gemma3TextConfig(
        vocab_size=len(byte_tokenizer()), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=512, sliding_window=window,
        layer_types=["sliding_attention", last], initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(config).eval()


def backbone_folder(folder: Path, family: str = "llama", context: int = 512) -> Path:
    """A causal language model as any hub folder holds it."""
    decoder(family, context).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def trace(*steps: str, id: str = "t", prompt: str = "What is 3 + 4?", separator: str = "\n\n") -> Trajectory:
    return Trajectory(id, Problem(f"p-{prompt}", prompt), tuple(Step(s) for s in steps), separator=separator)


def some_traces(n: int = 7) -> Sequence[Trajectory]:
    return [trace(*(f"{i} + {k} = {i + k}." for k in range(1 + i % 5)), id=f"t{i}") for i in range(n)]
