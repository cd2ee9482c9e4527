"""Decoders from GGUF files: dequantised once, on the GPU where there is one, into a plain transformers model."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

from footfall.damaged import check_claims, naming
from footfall.gguf.container import Container, read_container
from footfall.gguf.positions import FACTORS, rope_parameters
from footfall.gguf.quantised import byte_count, dequantise
from footfall.gguf.vocabulary import gguf_tokenizer

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_HERE = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2", "gemma3": "gemma3_text"}
"""Architectures that are read here, with transformers' names for them; any other is left to transformers."""
_OF_27B = {("gemma2", 46), ("gemma3", 62)}
"""Models with so many layers divide attention's scores by the root of width / heads, others by that of a head's width; no
metadata say so."""


def load_gguf(
    file: str | Path,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    end_of_turn: str | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer; `dtype` None: bfloat16 on CUDA, float32 elsewhere.

    `end_of_turn` None: what ends a turn by the chat template, or what the metadata name where there is none.
    """
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    kind = dtype or (torch.bfloat16 if place.type == "cuda" else torch.float32)
    with naming(Path(file).name):
        return _loaded(read_container(file), place, kind, end_of_turn)


def _loaded(
    given: Container, place: torch.device, kind: torch.dtype, end_of_turn: str | None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    tokenizer = gguf_tokenizer(given, end_of_turn)
    model: Any
    if given.architecture in _HERE:
        config = _config(given, place)
        check_claims(config, len(given.tensors), given.file.stat().st_size, given.file.name)
        weights = {ours: tensor.to(kind) for ours, tensor in _weights(given, config, place)}
        # Given config and weights, from_pretrained makes no random ones first.
        model, info = _class_for(config).from_pretrained(
            None, config=config, state_dict=weights, dtype=kind, device_map={"": place}, output_loading_info=True
        )
        lost = sorted({*info["missing_keys"], *info["unexpected_keys"]} - {"lm_head.weight"})
        if lost:
            raise ValueError(f"{given.file.name} is no whole {given.architecture} model: see {lost[0]}")
    else:
        model = AutoModelForCausalLM.from_pretrained(given.file.parent, gguf_file=given.file.name, dtype=kind)
        model.to(place)
    model.config.name_or_path = str(given.file)
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model.train(False), tokenizer


def _class_for(config: Any) -> Any:
    return AutoModelForCausalLM._model_mapping[type(config)]


def _config(given: Container, place: torch.device) -> Any:
    """What transformers makes of the metadata, by its own table of names."""
    table: dict[str, str | None] = cast(Any, GGUF_CONFIG_MAPPING)[given.architecture]
    found = {name: given.fact(key) for key, name in table.items() if name and given.fact(key) is not None}
    blocks = given.fact("block_count", 0)
    if not isinstance(blocks, int) or blocks > max(1, len(given.tensors)):  # configs of Gemma have a list of so many
        raise ValueError(
            f"{given.file.name}: its metadata say block_count = {str(blocks)[:40]}, more than its {len(given.tensors)} tensors "
            "can be; it is damaged"
        )
    factors = _tensor(given, FACTORS, place) if FACTORS in given.tensors else None
    if (given.architecture, given.fact("block_count")) in _OF_27B:
        found["query_pre_attn_scalar"] = given.fact("embedding_length") // given.fact("attention.head_count")
    ends = {name: given.facts.get(f"tokenizer.ggml.{key}_token_id") for key, name in _ENDS.items()}
    return AutoConfig.for_model(
        _HERE[given.architecture],
        **{"vocab_size": len(given.facts["tokenizer.ggml.tokens"]), **found, **rope_parameters(given, factors)},
        **{name: i for name, i in ends.items() if i is not None},
        tie_word_embeddings="output.weight" not in given.tensors,
    )


_ENDS = {"bos": "bos_token_id", "padding": "pad_token_id"}


def _weights(given: Container, config: Any, place: torch.device) -> Any:
    """All weights in float32 under the names that transformers gives them, one after the other."""
    names = {**_LAYER, **(_GEMMA if given.architecture.startswith("gemma") else {})}
    changes = _changes(given.architecture, config)
    _check_apart(given)
    for name in given.tensors:
        if name != FACTORS:
            ours = _name(name, names, given.file.name)
            yield ours, changes(ours, _tensor(given, name, place))


def _check_apart(given: Container) -> None:
    """Each tensor has bytes of its own: a small file of many that share theirs would take any amount of memory."""
    end, before = 0, ""
    for name, info in sorted(given.tensors.items(), key=lambda item: item[1].offset):
        if info.offset < end:
            raise ValueError(f"{given.file.name}: its tensors {before} and {name} lie over each other; it is damaged")
        end, before = info.offset + byte_count(info.kind, math.prod(info.shape)), name


def _tensor(given: Container, name: str, place: torch.device) -> Tensor:
    """One tensor in float32."""
    info = given.tensors[name]
    size = byte_count(info.kind, math.prod(info.shape))
    blob = np.memmap(given.file, mode="r", dtype=np.uint8, offset=given.data_start)
    if info.offset + size > len(blob):
        raise ValueError(f"{given.file.name} ends within its tensor {name}: it is cut off")
    data = torch.from_numpy(np.array(blob[info.offset : info.offset + size])).to(place)
    return dequantise(data, info.kind, info.shape)


def _name(theirs: str, names: dict[str, str], file: str) -> str:
    """`blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`."""
    stem, _, end = theirs.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{end}"
    _, layer, part = [*stem.split("."), "", ""][:3]
    if part not in names:
        raise ValueError(f"{file} holds a tensor {theirs}, which no known decoder has")
    return f"model.layers.{layer}.{names[part]}.{end}"


def _changes(architecture: str, config: Any) -> Callable[[str, Tensor], Tensor]:
    """What the converters to GGUF did to some weights is undone."""
    if architecture.startswith("gemma"):
        return lambda name, weight: weight - 1 if "norm" in name else weight
    if architecture != "llama":
        return lambda name, weight: weight
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}

    def unpermuted(name: str, weight: Tensor) -> Tensor:
        """GGUF keeps a head's rotary pairs side by side; transformers keeps first and second halves."""
        count = heads.get(name.split(".")[-2])
        if count is None:
            return weight
        return weight.view(count, len(weight) // count // 2, 2, -1).transpose(1, 2).reshape(weight.shape)

    return unpermuted
