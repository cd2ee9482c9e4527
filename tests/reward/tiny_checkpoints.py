"""Tiny random checkpoints that look like the published ones: real architecture, real tokenizer kind, real head names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MERGES = [
    ("Ċ", "Ċ"), ("ĊĊ", "ĊĊ"), ("ĊĊĊĊ", "Ċ"), ("Ġ", "ĊĊĊĊĊ"), ("Ġ", "ĊĊĊĊ"), ("Ġ", "ĊĊ"), (".", "ĊĊ"), (".", "Ċ"),
    ("Ġ", "+"), ("Ġ", "-"), ("Ð", "º"), ("Ð", "¸"), ("Ðº", "Ð¸"), ("Ġ", "ÐºÐ¸"), ("t", "e"), ("te", "p"), ("S", "tep"),
    ("Ġ", "Step"), ("Y", "e"), ("Ye", "s"), ("N", "o"), ("Ġ", "Yes"), ("Ġ", "No"), ("y", "e"), ("ye", "s"), ("n", "o"),
    ("Ġ", "yes"), ("Ġ", "no"), ("Ġ", "Ð¸"),
]  # fmt: skip


def _byte_level(special: tuple[str, ...], plain_added: tuple[str, ...] = ()) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate([*alphabet, *(a + b for a, b in _MERGES)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=_MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(_SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in plain_added])
    return tokenizer


def qwen_tokenizer(*added: str, plain: tuple[str, ...] = ()) -> Any:
    """Byte-level BPE with Qwen's word rule and ChatML; no bos. `plain` are added tokens that are not special."""
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *added)
    wrap: Any = PreTrainedTokenizerFast
    return wrap(
        tokenizer_object=_byte_level(special, plain),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHATML,
    )


def llama3_tokenizer(*added: str) -> Any:
    """Byte-level BPE with Llama 3's header tokens; bos in front of every text."""
    special = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", *added)
    backend = _byte_level(special)
    bos = "<|begin_of_text|>"
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    wrap: Any = PreTrainedTokenizerFast
    return wrap(
        tokenizer_object=backend,
        bos_token=bos,
        eos_token="<|eot_id|>",
        pad_token="<|end_of_text|>",
        chat_template=LLAMA3,
    )


def sentencepiece_tokenizer(*added: str) -> Any:
    """BPE as Llama 2 and Mistral have it: spaces are `▁`, one is put in front, unknown characters become bytes."""
    letters = [chr(c) for c in range(33, 127)] + list("▁ки±²½≤→")
    merges = [("к", "и"), ("▁", "+"), ("▁", "-"), ("t", "e"), ("te", "p"), ("S", "tep"), ("▁", "Step")]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *letters, *(a + b for a, b in merges)]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in ("<unk>", "<s>", "</s>", *added)])
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>")


MODELS: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
}
WIDTH = 32


def causal_lm(model_type: str, vocabulary: int, seed: int = 0, **shape: Any) -> Any:
    """A random causal LM, two layers deep; its weights are large enough that steps differ."""
    config, build = MODELS[model_type]
    given = {
        "vocab_size": vocabulary, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192, "initializer_range": 0.2,
        "tie_word_embeddings": False,
        **shape,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(config(**given)).eval()


def save_checkpoint(
    folder: Path,
    model_type: str,
    tokenizer: Any,
    *,
    head: Mapping[str, torch.Tensor] | None = None,
    drop: tuple[str, ...] = (),
    config: Mapping[str, Any] | None = None,
    seed: int = 0,
    **shape: Any,
) -> Any:
    """A folder as a hub holds it: backbone weights under `model.`, plus `head`, minus `drop`; gives back the causal LM."""
    model = causal_lm(model_type, len(tokenizer), seed, **shape)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    stored = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if name not in drop}
    save_file({**stored, **(head or {})}, folder / "model.safetensors", metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **(config or {})}))
    return model


def random_linear(rows: int, columns: int = WIDTH, seed: int = 7) -> torch.Tensor:
    """Weights of a head, small enough that nothing saturates."""
    return 0.1 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
