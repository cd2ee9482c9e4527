"""Backbones of step heads: any decoder that transformers knows, loaded from safetensors and without remote code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import AutoModel

from footfall.loading import quiet
from footfall.reward.tensors import TensorFiles

__all__ = [
    "Backbone",
    "add_lora",
    "add_marker",
    "context_length",
    "graft_adapter",
    "load_adapter",
    "load_backbone",
    "marker_id",
]

Backbone: TypeAlias = Any
"""A `PreTrainedModel` or the `PeftModel` around one; peft is optional, so there is no common type to name."""

_IN_LM, _IN_DECODER = "base_model.model.model.", "base_model.model."
_EXTRA = "LoRA needs the package peft; install it with: pip install 'footfall[lora]'"


def load_backbone(source: str, dtype: torch.dtype) -> Backbone:
    """The decoder without its language-model head, from a folder or a hub id."""
    with quiet():
        model, info = AutoModel.from_pretrained(
            source, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ValueError(f"{source} lacks {len(missing)} weights of a {type(model).__name__}, {missing[0]} first")
    return model


def context_length(backbone: Backbone) -> int | None:
    """Tokens the backbone was built for, if its config says so."""
    length = getattr(backbone.config.get_text_config(), "max_position_embeddings", None)
    return int(length) if length else None


def marker_id(tokenizer: Any, marker: str) -> int | None:
    """The one id that stands for `marker`, if the vocabulary has one."""
    known: int | None = tokenizer.get_vocab().get(marker)
    if known is not None:
        return known
    ids = tokenizer.encode(marker, add_special_tokens=False)
    return ids[0] if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None


def add_marker(tokenizer: Any, backbone: Backbone, marker: str) -> bool:
    """Make `marker` one token of the vocabulary; True if it was none before. A new one starts as the mean embedding."""
    if marker_id(tokenizer, marker) is not None:
        return False
    tokenizer.add_tokens([marker], special_tokens=True)
    row = tokenizer.convert_tokens_to_ids(marker)
    embedding = backbone.get_input_embeddings()
    rows = embedding.weight.shape[0]
    mean = embedding.weight.detach()[: min(rows, row)].float().mean(dim=0)
    if row >= rows:
        with torch.random.fork_rng():
            backbone.resize_token_embeddings(row + 1, mean_resizing=False)
        embedding = backbone.get_input_embeddings()
    with torch.no_grad():
        embedding.weight[row] = mean.to(embedding.weight)
    return True


def add_lora(backbone: Backbone, rank: int, alpha: int, seed: int) -> Backbone:
    """The backbone frozen, with trainable low-rank adapters on all its linear layers."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ImportError(_EXTRA) from error
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="FEATURE_EXTRACTION")
    # peft draws from torch's global generator: lend it a seeded one.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        adapted: Backbone = get_peft_model(backbone, config)
    return adapted


def load_adapter(backbone: Backbone, folder: Path, trainable: bool) -> Backbone:
    """The backbone with the adapter stored in `folder`."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise ImportError(f"{folder} holds a LoRA adapter. {_EXTRA}") from error
    adapted: Backbone = PeftModel.from_pretrained(backbone, folder, is_trainable=trainable)
    return adapted


def graft_adapter(backbone: Backbone, folder: Path) -> Backbone:
    """The decoder with an adapter that was trained on the whole language model around it.

    There every name has one more `model.`; peft would find none of them and go on with an adapter of zeros.
    """
    try:
        from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    except ImportError as error:
        raise ImportError(f"{folder} holds a LoRA adapter. {_EXTRA}") from error
    stored = {name.replace(_IN_LM, _IN_DECODER, 1) for name in TensorFiles(folder).names}
    config = PeftConfig.from_pretrained(str(folder))
    config.task_type = None
    adapted: Backbone = PeftModel.from_pretrained(backbone, folder, config=config, key_mapping={r"^model\.": ""})
    lost = sorted(stored - set(get_peft_model_state_dict(adapted)))
    if lost:
        raise ValueError(f"{folder} adapts what is not part of a {type(backbone).__name__}: {lost[0]}")
    return adapted
