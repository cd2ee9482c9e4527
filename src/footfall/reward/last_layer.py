"""The last layer of a decoder, run at the tokens that are read.

Other tokens need keys and values there, because later ones see them, and nothing else: nobody reads what they become. So the
query, attention, its output and the feed-forward network are given the read tokens alone. Of a decoder of L layers that leaves
out nearly 1/L of the work, a quarter of four layers and a thirtieth of thirty.

Logits at the tokens that are read are the same up to rounding; the states of others mean nothing.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from footfall.loading import padded

IMPLEMENTATION = "footfall_only_read"
_ALONE = threading.RLock()
"""Held while a layer has hooks: two that put them on and off would leave each other's behind."""
_TOKEN_BY_TOKEN = {"q_proj", "o_proj", "mlp"}
"""What most decoders call the parts that take tokens one by one; one under another name runs in full."""
KNOWN = (
    "apertus", "arcee", "cohere2", "exaone4", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt_oss", "granite",
    "hunyuan_v1_dense", "llama", "ministral", "mistral", "mixtral", "nemotron", "olmo2", "olmo3", "olmoe", "phi3", "qwen2",
    "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "starcoder2",
)  # fmt: skip
"""Decoders for which it is tested. Others run in full: some mix the queries of neighbours or go through their layers twice."""


def decoder_layers(backbone: Any) -> Sequence[nn.Module]:
    """The decoder's layers, wherever an adapter put them; none, if it keeps them under a name that is not known here."""
    for name, module in backbone.named_modules():
        if name.rpartition(".")[2] == "layers" and isinstance(module, nn.ModuleList):
            return list(module)
    return []


def last_attention(backbone: Any) -> nn.Module | None:
    """The attention of the last layer, if it can be given the read tokens alone: not one that hooks would let compile anew."""
    layers = decoder_layers(backbone)
    attention: Any = getattr(layers[-1], "self_attn", None) if layers else None
    known = getattr(getattr(attention, "config", None), "model_type", None) in KNOWN
    return attention if known and layers[-1]._compiled_call_impl is None else None


@contextmanager
def only_read(backbone: Any, positions: Sequence[Sequence[int]], width: int) -> Iterator[None]:
    """Inside, a pass of this thread over rows of `width` tokens gives states at `positions` of each row, and only there."""
    attention: Any = last_attention(backbone)
    if attention is None:
        yield
        return
    last = decoder_layers(backbone)[-1]
    read = _Read(positions, width, backbone.device)
    with _ALONE, ExitStack() as hooks:
        config = attention.config
        for name, module in last.named_modules():
            if name.rpartition(".")[2] in _TOKEN_BY_TOKEN:
                hooks.callback(module.register_forward_pre_hook(read.gather).remove)
                # First of all, so that others' hooks find each token in its place.
                hooks.callback(module.register_forward_hook(read.spread, prepend=True).remove)
        causal = getattr(attention, "is_causal", True) and getattr(config, "is_causal", True)
        if causal and getattr(config, "_attn_implementation", None) == "sdpa":
            hooks.callback(attention.register_forward_pre_hook(read.tell, with_kwargs=True).remove)
            hooks.callback(setattr, attention, "config", config)
            attention.config = copy.copy(config)
            attention.config._attn_implementation = IMPLEMENTATION
        yield


class _Read:
    """Tokens of a batch (N, T) that are read, and hooks of modules that are to see no others."""

    def __init__(self, positions: Sequence[Sequence[int]], width: int, device: torch.device) -> None:
        self.rows, self.width, self.thread = len(positions), width, threading.get_ident()
        places = sorted({row * width + at for row, own in enumerate(positions) for at in own}) or [0]
        self.places_R = torch.tensor(places, device=device)
        # Each row's first token fills up the rows that are read at fewer; what comes of it is the same each time.
        self.positions_NS = padded([own or [0] for own in positions]).to(device)

    def gather(self, _: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        """(N, T, …) to (1, R, …)."""
        if threading.get_ident() != self.thread:
            return None
        return given[0].flatten(0, 1)[self.places_R][None], *given[1:]

    def spread(self, _: nn.Module, __: Any, found: Any) -> Any:
        """(1, R, C) to (N, T, C), zero at the others; what a mixture of experts gives beside it stays."""
        if threading.get_ident() != self.thread:
            return found
        if isinstance(found, tuple):
            return self._in_place(found[0]), *found[1:]
        return self._in_place(found)

    def _in_place(self, found_1RC: Tensor) -> Tensor:
        full = found_1RC.new_zeros(self.rows * self.width, found_1RC.shape[-1])
        return full.index_copy_(0, self.places_R, found_1RC[0]).view(self.rows, self.width, -1)

    def tell(self, _: nn.Module, given: Any, named: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]] | None:
        """The attention function is told where to look. Another thread may come by before torch knows that names are wanted."""
        if named is None or threading.get_ident() != self.thread:
            return None
        return given, {**named, "only_read": self.positions_NS}


def read_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    only_read: Tensor | None = None,
    **given: Any,
) -> tuple[Tensor, None]:
    """Attention of queries (N, H, T, D) at the positions `only_read` (N, S); zero at the others."""
    if only_read is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **given)
        return found
    if attention_mask is None:
        past = key.shape[2] - query.shape[2]
        seen_N1SK = (torch.arange(key.shape[2], device=key.device) <= past + only_read[..., None])[:, None]
    else:
        rows_N1 = torch.arange(len(only_read), device=key.device)[:, None]
        seen_N1SK = attention_mask.expand(len(only_read), -1, -1, -1)[rows_N1, 0, only_read][:, None]
    at_N1S1 = only_read[:, None, :, None]
    query_NHSD = query.gather(2, at_N1S1.expand(-1, query.shape[1], -1, query.shape[3]))
    mixed_NSHD: Tensor = sdpa_attention_forward(module, query_NHSD, key, value, seen_N1SK, **given)[0]
    full = mixed_NSHD.new_zeros(query.shape[0], query.shape[2], *mixed_NSHD.shape[2:])
    return full.scatter_(1, at_N1S1.transpose(1, 2).expand_as(mixed_NSHD), mixed_NSHD), None


AttentionInterface.register(IMPLEMENTATION, read_attention)
