"""Traces side by side in one row, without padding: attention that keeps each of them to itself.

A batch of traces of 100 and 1,000 tokens is padded to twice its size; packed it is computed once. Every layer but attention
takes tokens one by one, so only attention must know where a trace begins. transformers lets one name an attention function:
this one is told the starts, and without them does what a padded batch needs. Decoders that go through this interface can be
packed, if a sliding window holds a whole trace and scores are neither capped nor dropped at random.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from footfall.render import Reading, both_ways

_varlen: Any = None
_CAUSAL: dict[str, Any] = {}
with suppress(ImportError):  # before torch 2.10
    from torch.nn.attention.varlen import varlen_attn as _varlen

    _known = inspect.signature(_varlen).parameters
    _CAUSAL = {"window_size": (-1, 0)} if "window_size" in _known else {"is_causal": True}

IMPLEMENTATION = "footfall_packed"
IN_FULL = "footfall_packed_in_full"
"""The same in the precision that it is given, where the kernel for CUDA has half precision only."""


class Packed(NamedTuple):
    """N traces in one row of T tokens, the last of them followed by filling if the row has a fixed length."""

    input_ids: Tensor
    """(1, T)."""
    positions: Tensor
    """(N, S): where in the row each step is read; 0 past a trace's own steps."""
    position_ids: Tensor
    """(1, T): counted from each trace's own start."""
    starts: Tensor
    """(N + 1 or N + 2): where each trace starts in the row, and where the row ends."""


def pack_row(readings: Sequence[Reading], pad_id: int, multiple: int = 1) -> Packed:
    """The readings (and their mirrors) one after the other; filled up to a `multiple` of tokens by what nobody reads."""
    readings = both_ways(readings)
    lengths = [len(reading.ids) for reading in readings]
    total = sum(lengths)
    filling = -total % multiple
    ids = [token for reading in readings for token in reading.ids] + [pad_id] * filling
    starts = torch.tensor([0, *lengths, *([filling] if filling else [])]).cumsum(0).to(torch.int32)
    positions_NS = torch.zeros(len(readings), max(len(reading.positions) for reading in readings), dtype=torch.long)
    for n, reading in enumerate(readings):
        positions_NS[n, : len(reading.positions)] = torch.tensor(reading.positions) + starts[n]
    own = torch.cat([torch.arange(end - start) for start, end in pairwise(starts.tolist())])
    return Packed(torch.tensor([ids]), positions_NS, own.unsqueeze(0), starts)


def packable(backbone: Any, max_length: int) -> bool:
    """Whether the decoder takes an attention function, and attends by nothing else than what this one computes."""
    config = backbone.config.get_text_config()
    if getattr(config, "attn_logit_softcapping", None) or getattr(config, "attention_dropout", 0.0):
        return False
    window = getattr(config, "sliding_window", None)
    # A config that names no kinds of layers (Mistral's, Phi-3's) has its window in all of them.
    kinds = set(getattr(config, "layer_types", None) or ["full_attention" if window is None else "sliding_attention"])
    if not kinds <= {"full_attention", "sliding_attention"}:
        return False
    narrow = "sliding_attention" in kinds and window is not None and window < max_length
    model = backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone
    sinks = any(name.endswith(".sinks") for name, _ in model.named_parameters())
    return bool(getattr(model, "_supports_attention_backend", False)) and not narrow and not sinks


@contextmanager
def packing(backbone: Any, attention: str = IMPLEMENTATION) -> Iterator[None]:
    """The backbone takes packed rows inside, and padded ones too; outside it is as it was."""
    config = backbone.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = attention
    try:
        yield
    finally:
        config._attn_implementation = before


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int = 0,
    in_full: bool = False,
    **given: Any,
) -> tuple[Tensor, None]:
    """Causal attention of (1, H, T, D) within each trace; `cu_seq_lens_q` are the starts, as flash attention calls them."""
    if cu_seq_lens_q is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **given
        )
        return found
    unknown = [name for name in ("softcap", "s_aux", "position_bias") if given.get(name) is not None]
    if unknown:
        raise ValueError(
            f"{type(module).__name__} attends with {unknown[0]}, which packed rows do not have: packing=False"
        )
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    if query.is_cuda and _varlen is not None and not in_full:
        # Under autocast rotated queries and keys are float32, and the kernel takes half precision only.
        kind = value.dtype if value.dtype in (torch.bfloat16, torch.float16) else torch.bfloat16
        usual = query.shape[-1] ** -0.5  # what every version of the kernel scales by
        if scaling is not None and scaling != usual:
            query = query * (scaling / usual)
        q_THD, k_THD, v_THD = (x[0].transpose(0, 1).to(kind).contiguous() for x in (query, key, value))
        longest = max_length_q
        out_THD: Tensor = _varlen(q_THD, k_THD, v_THD, cu_seq_lens_q, cu_seq_lens_q, longest, longest, **_CAUSAL)
        return out_THD.unsqueeze(0).to(value.dtype), None
    pieces = [
        functional.scaled_dot_product_attention(
            query[:, :, start:end], key[:, :, start:end], value[:, :, start:end], is_causal=True, scale=scaling
        )
        for start, end in pairwise(cu_seq_lens_q.tolist())
        if end > start
    ]
    return torch.cat(pieces, dim=2).transpose(1, 2), None


AttentionInterface.register(IMPLEMENTATION, packed_attention)
AttentionInterface.register(IN_FULL, partial(packed_attention, in_full=True))
