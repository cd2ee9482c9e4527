"""The tokenizer that a GGUF file describes: its vocabulary in the class of transformers that reads such a vocabulary.

Metadata often name the wrong token as the end (SmolLM2's its first one), so what ends a turn is read off the chat
template: the special token that it puts behind what the assistant said.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers
from transformers import (
    GemmaTokenizer,
    GPT2Tokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
)

from footfall.gguf.container import Container, read_container
from footfall.render.pieces import templated

_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN_2 = ("qwen2", "deepseek-r1-qwen", "megrez")
_SPLITS = dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "dbrx", "smaug-bpe"), _LLAMA_3) | {
    "tekken": _TEKKEN
}
_AS_GPT_2 = (None, "default", "gpt-2", "gpt2", "smollm", "phi-2", "olmo", "mpt")
_CONTROL, _USER_DEFINED = 3, 4
_SAID = "said by the assistant"


def gguf_tokenizer(source: str | Path | Container, end_of_turn: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a file; its `eos_token` ends a turn: `end_of_turn`, or what the chat template puts there."""
    given = source if isinstance(source, Container) else read_container(source)
    facts = given.facts
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    named = {name: facts.get(f"tokenizer.ggml.{key}_token_id") for name, key in _NAMED.items()}
    backend = _backend(given, tokens)
    kinds = facts.get("tokenizer.ggml.token_type", ())
    control = [token for token, kind in zip(tokens, kinds, strict=False) if kind == _CONTROL]
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control])
    known = backend.get_vocab()  # Gemma's tokens of spaces are spelled otherwise there, and are no added ones
    own = [token for token, kind in zip(tokens, kinds, strict=False) if kind == _USER_DEFINED and token in known]
    backend.add_tokens([AddedToken(token, normalized=False) for token in own])
    make: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerBase = make(
        tokenizer_object=backend,
        chat_template=facts.get("tokenizer.chat_template"),
        clean_up_tokenization_spaces=False,
        **{name: tokens[i] for name, i in named.items() if i is not None and i < len(tokens)},
    )
    end = end_of_turn or end_by_template(tokenizer)
    if end is not None:
        found = tokenizer.convert_tokens_to_ids(end)
        if not isinstance(found, int) or tokenizer.convert_ids_to_tokens(found) != end:
            raise ValueError(f"{given.file.name} has no token {end!r} to end a turn with")
        tokenizer.eos_token = end
    return tokenizer


_NAMED = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def end_by_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The special token that the chat template puts behind an assistant's words; None without such a template."""
    if not tokenizer.chat_template:
        return None
    talk = [{"role": "user", "content": "asked"}, {"role": "assistant", "content": _SAID}]
    text = str(templated(tokenizer, talk, tokenize=False))
    behind = text.rpartition(_SAID)[2]
    places = [(behind.find(t), -len(t), t) for t in map(str, tokenizer.all_special_tokens + _added(tokenizer))]
    return min((place for place in places if place[0] >= 0), default=(0, 0, None))[2]


def _added(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]


def _backend(given: Container, tokens: list[str]) -> Tokenizer:
    kind, pre = given.facts.get("tokenizer.ggml.model"), given.facts.get("tokenizer.ggml.pre")
    if kind == "gpt2":
        merges = [tuple(merge.split(" ", 1)) for merge in given.facts["tokenizer.ggml.merges"]]
        backend = _made(Qwen2Tokenizer if pre in _QWEN_2 else GPT2Tokenizer, tokens, merges)
        if pre in _SPLITS:
            backend.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(_SPLITS[pre]), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ])  # fmt: skip
        elif pre not in (*_QWEN_2, *_AS_GPT_2):
            warnings.warn(
                f"{given.file.name}: how {str(pre)[:40]!r} cuts text before it is merged into tokens is not known here; it is "
                "cut as GPT-2's, so that some tokens are others than the model was trained on. A folder of safetensors has "
                "its own tokenizer",
                stacklevel=2,
            )
        return backend
    if kind != "llama":
        raise ValueError(f"{given.file.name} has a vocabulary of the kind {kind!r}; gpt2 and llama can be read")
    # SentencePiece keeps no merges. Gemma's order is that of the file, Llama's that of the scores.
    if given.architecture.startswith("gemma"):
        tokens = ["▁" * len(token) if token and not token.strip(" ") else token for token in tokens]
        ranks = [-float(i) for i in range(len(tokens))]
        return _made(GemmaTokenizer, tokens, merges_of(tokens, ranks))
    return _made(LlamaTokenizer, tokens, merges_of(tokens, given.facts["tokenizer.ggml.scores"]))


def _made(kind: Any, tokens: list[str], merges: Sequence[tuple[str, ...]]) -> Tokenizer:
    backend: Tokenizer = kind(vocab=_ids(tokens), merges=merges).backend_tokenizer
    return backend


def _ids(tokens: list[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokens)}


def merges_of(tokens: list[str], ranks: list[float]) -> list[tuple[str, str]]:
    """All pairs of tokens that together are a token, those of the highest rank first; of equals the longer left part."""
    ids, lengths = _ids(tokens), {len(token) for token in tokens}
    merges = []
    for token, rank in zip(tokens, ranks, strict=True):
        # Only at lengths that tokens have: a token of a megabyte in a damaged file would be cut a million times.
        cuts = [k for k in lengths if 0 < k < len(token) and len(token) - k in lengths]
        pairs = [(token[:k], token[k:]) for k in cuts if token[:k] in ids and token[k:] in ids]
        pairs.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        merges += [(rank, left, right) for left, right in pairs]
    merges.sort(key=lambda merge: (merge[0], len(merge[1]), len(merge[2])), reverse=True)
    return [(left, right) for _, left, right in merges]
