"""Tiny random models of real architectures, made in memory."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 300

_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}

ARCHITECTURES = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16}),
    "mistral-sliding-window": (MistralConfig, MistralForCausalLM, {"sliding_window": 8}),
    "gemma": (GemmaConfig, GemmaForCausalLM, {"head_dim": 16}),
    "gemma2-softcap": (Gemma2Config, Gemma2ForCausalLM, {"head_dim": 16, "sliding_window": 8}),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM, {"head_dim": 16, "sliding_window": 8}),
}


def tiny_model(architecture: str, device: str = "cpu") -> PreTrainedModel:
    """Random weights, made larger than usual so that greedy decoding does not fall into one token."""
    config_class, model_class, more = ARCHITECTURES[architecture]
    torch.manual_seed(0)
    make: Any = model_class
    model: PreTrainedModel = make(config_class(**_SHAPE, **more)).to(device).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
    return model


def random_prompts(lengths: list[int], seed: int = 1) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [tuple(torch.randint(5, VOCABULARY, (n,), generator=generator).tolist()) for n in lengths]
