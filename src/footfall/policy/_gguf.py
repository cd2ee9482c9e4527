"""Loading a chat model from a GGUF file: dequantised once, put into a plain transformers model."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["load_gguf"]


def load_gguf(
    file: Path, end_of_turn: str, device: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer; `end_of_turn` is the token that really ends an answer, which GGUF metadata often gets wrong."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    end = tokenizer.convert_tokens_to_ids(end_of_turn)
    if not isinstance(end, int) or tokenizer.convert_ids_to_tokens(end) != end_of_turn:
        raise ValueError(f"{file.name} has no token {end_of_turn!r} to end a turn with")
    tokenizer.eos_token = end_of_turn
    quantised = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # A fresh model of the same shape carries no trace of the quantisation, so it can be saved and trained.
    plain = type(quantised)(type(quantised.config)(**_shape(quantised)))
    plain.load_state_dict(quantised.state_dict())
    plain.generation_config.eos_token_id = plain.config.eos_token_id = end
    return plain.to(device=device, dtype=dtype).eval(), tokenizer


def _shape(model: PreTrainedModel) -> dict[str, object]:
    config = model.config.to_dict()
    return {
        k: v for k, v in config.items() if k not in ("quantization_config", "_name_or_path", "torch_dtype", "dtype")
    }
