"""Loading a Llama chat model from a GGUF file: dequantised once, put into a plain transformers model.

The header is read here, by the few rules of the format: transformers would parse the file, vocabulary and all, three
times over, which takes most of a minute where this takes seconds.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def load_gguf(
    file: Path, end_of_turn: str, device: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer; `end_of_turn` is the token that really ends an answer, which GGUF metadata often gets wrong."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(file.parent, gguf_file=file.name)
    end = tokenizer.convert_tokens_to_ids(end_of_turn)
    if not isinstance(end, int) or tokenizer.convert_ids_to_tokens(end) != end_of_turn:
        raise ValueError(f"{file.name} has no token {end_of_turn!r} to end a turn with")
    tokenizer.eos_token = end_of_turn
    header = _read_header(file)
    config = _config(header, file.name)
    config.eos_token_id = end
    weights = _weights(file, header, config)
    # Given config and weights, from_pretrained makes no random ones first.
    model = LlamaForCausalLM.from_pretrained(None, config=config, state_dict=weights, dtype=dtype)
    model.generation_config.eos_token_id = end
    return nn.Module.to(model, device), tokenizer


class _TensorInfo(NamedTuple):
    shape: tuple[int, ...]
    kind: int
    offset: int


class _Header(NamedTuple):
    """What stands before the weights; an array is kept as its length, for nobody here needs the vocabulary."""

    facts: dict[str, Any]
    tensors: dict[str, _TensorInfo]
    data_start: int


class _Cursor:
    """Reads a mapped file from front to back."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        found = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return found[0] if len(found) == 1 else found

    def text(self) -> str:
        length = self.take("<Q")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.take(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError(f"GGUF metadata holds a value of the unknown type {kind}")
        inner, count = self.take("<IQ")
        if inner in _SCALARS:
            self.at += count * struct.calcsize(_SCALARS[inner])
        else:
            for _ in range(count):
                self.value(inner)
        return count


def _read_header(file: Path) -> _Header:
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise ValueError(f"{file.name} is not a GGUF file")
        cursor = _Cursor(data)
        cursor.at = 4
        version, n_tensors, n_facts = cursor.take("<IQQ")
        if version not in (2, 3):
            raise ValueError(f"{file.name} is GGUF version {version}; versions 2 and 3 can be read")
        facts = {cursor.text(): cursor.value(cursor.take("<I")) for _ in range(n_facts)}
        tensors = dict(_tensor_info(cursor) for _ in range(n_tensors))
        alignment = facts.get("general.alignment", 32)
        return _Header(facts, tensors, -(-cursor.at // alignment) * alignment)


def _tensor_info(cursor: _Cursor) -> tuple[str, _TensorInfo]:
    name = cursor.text()
    shape = [cursor.take("<Q") for _ in range(cursor.take("<I"))]
    kind, offset = cursor.take("<IQ")
    return name, _TensorInfo(tuple(reversed(shape)), kind, offset)


def _config(header: _Header, name: str) -> LlamaConfig:
    facts = header.facts
    if facts.get("general.architecture") != "llama":
        raise ValueError(f"{name} holds a model of type {facts.get('general.architecture')!r}; only llama can be read")
    heads = facts["llama.attention.head_count"]
    return LlamaConfig(
        vocab_size=facts["tokenizer.ggml.tokens"],
        hidden_size=facts["llama.embedding_length"],
        intermediate_size=facts["llama.feed_forward_length"],
        num_hidden_layers=facts["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=facts.get("llama.attention.head_count_kv", heads),
        head_dim=facts["llama.rope.dimension_count"],
        max_position_embeddings=facts["llama.context_length"],
        rms_norm_eps=facts["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": facts.get("llama.rope.freq_base", 10000.0)},
        bos_token_id=facts.get("tokenizer.ggml.bos_token_id"),
        pad_token_id=facts.get("tokenizer.ggml.padding_token_id"),
        tie_word_embeddings="output.weight" not in header.tensors,
    )


def _weights(file: Path, header: _Header, config: LlamaConfig) -> dict[str, Tensor]:
    """All weights as float32 under the names that transformers gives them."""
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize, quant_shape_to_byte_shape

    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads or 1}
    blob = np.memmap(file, mode="r", dtype=np.uint8, offset=header.data_start)
    found = {}
    for name, info in header.tensors.items():
        kind = GGMLQuantizationType(info.kind)
        shape = quant_shape_to_byte_shape(info.shape, kind)
        raw = blob[info.offset : info.offset + int(np.prod(shape))].reshape(shape)
        tensor = torch.from_numpy(np.array(dequantize(raw, kind), dtype=np.float32)).reshape(info.shape)
        part = name.removesuffix(".weight").rpartition(".")[2]
        found[_name(name)] = _unpermuted(tensor, heads[part]) if part in heads else tensor
    return found


def _name(gguf_name: str) -> str:
    """`blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`."""
    stem = gguf_name.removesuffix(".weight")
    if stem in _TOP:
        return f"{_TOP[stem]}.weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{_LAYER[part]}.weight"


def _unpermuted(weight: Tensor, heads: int) -> Tensor:
    """GGUF keeps a head's rotary pairs side by side; transformers keeps first and second halves."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
