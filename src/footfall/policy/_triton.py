"""Decode attention on CUDA: one query token a row against the row's own keys, read once and only up to its length.

softmax(q·k·scale) v for T = 1 with grouped heads; writes the new key and value into the slots on the way. Without it,
attention over the slots would have to read every row up to the longest one.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["AVAILABLE", "decode_attention"]


AVAILABLE = importlib.util.find_spec("triton") is not None
"""Whether the Triton compiler is installed (it comes with torch's CUDA builds)."""


@lru_cache(maxsize=1)
def _kernel() -> Any:
    import triton
    import triton.language as tl

    # fmt: off
    @triton.jit  # type: ignore[untyped-decorator]
    def decode(  # type: ignore[no-untyped-def]
        q, k_new, v_new, data, positions, out, scale, window, softcap,
        q_row, q_head, new_row, new_head, kv_side, kv_row, kv_head,
        GROUPS: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr, PADDED_WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    ):
        # fmt: on
        row, head = tl.program_id(0), tl.program_id(1)
        position = tl.load(positions + row)
        d = tl.arange(0, PADDED_WIDTH)
        g = tl.arange(0, PADDED)
        d_ok = d < WIDTH
        key = tl.load(k_new + row * new_row + head * new_head + d, mask=d_ok, other=0.0)
        value = tl.load(v_new + row * new_row + head * new_head + d, mask=d_ok, other=0.0)
        keys = data + row.to(tl.int64) * kv_row + head * kv_head
        values = keys + kv_side
        tl.store(keys + position * WIDTH + d, key, mask=d_ok)
        tl.store(values + position * WIDTH + d, value, mask=d_ok)
        query = tl.load(
            q + row * q_row + (head * GROUPS + g)[:, None] * q_head + d[None, :],
            mask=(g < GROUPS)[:, None] & d_ok[None, :],
            other=0.0,
        )
        # The new token itself comes from registers: the store above is not ordered before the loads below.
        score = tl.sum(query.to(tl.float32) * key.to(tl.float32)[None, :], axis=1) * scale
        if softcap > 0:
            score = softcap * (2 * tl.sigmoid(2 * score / softcap) - 1)
        best = score
        total = tl.full([PADDED], 1.0, tl.float32)
        mixed = tl.zeros([PADDED, PADDED_WIDTH], tl.float32) + value.to(tl.float32)[None, :]
        first = tl.where(window > 0, tl.maximum(position - window + 1, 0), 0)
        for start in range(first // BLOCK * BLOCK, position, BLOCK):
            t = start + tl.arange(0, BLOCK)
            t_ok = (t < position) & (t >= first)
            k = tl.load(keys + t[:, None] * WIDTH + d[None, :], mask=t_ok[:, None] & d_ok[None, :], other=0.0)
            scores = tl.dot(query, tl.trans(k), input_precision="ieee").to(tl.float32) * scale
            if softcap > 0:
                scores = softcap * (2 * tl.sigmoid(2 * scores / softcap) - 1)
            scores = tl.where(t_ok[None, :], scores, float("-inf"))
            new_best = tl.maximum(best, tl.max(scores, axis=1))
            shrink = tl.exp(best - new_best)
            weights = tl.exp(scores - new_best[:, None])
            v = tl.load(values + t[:, None] * WIDTH + d[None, :], mask=t_ok[:, None] & d_ok[None, :], other=0.0)
            mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
            total = total * shrink + tl.sum(weights, axis=1)
            best = new_best
        tl.store(
            out + row * q_row + (head * GROUPS + g)[:, None] * q_head + d[None, :],
            (mixed / total[:, None]).to(out.dtype.element_ty),
            mask=(g < GROUPS)[:, None] & d_ok[None, :],
        )

    return decode


@torch.library.custom_op("footfall::decode_attention", mutates_args={"data"})
def decode_attention(
    query: Tensor, key: Tensor, value: Tensor, data: Tensor, positions: Tensor,
    layer: int, scaling: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    """[B, H, 1, d] queries against rows 0…B-1 of `data` [l, 2, r, h, t, d]; stores key and value at `positions`."""
    rows, n_query, _, width = query.shape
    n_key = key.shape[1]
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    out = query.new_empty(query.shape)
    groups = n_query // n_key
    padded = max(16, 1 << (groups - 1).bit_length())
    padded_width = max(16, 1 << (width - 1).bit_length())
    _kernel()[(rows, n_key)](
        query, key, value, data[layer, 0], positions, out, scaling, window, softcap,
        query.stride(0), query.stride(1), key.stride(0), key.stride(1),
        data.stride(1), data.stride(2), data.stride(3),
        GROUPS=groups, PADDED=padded, WIDTH=width, PADDED_WIDTH=padded_width, BLOCK=64, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


@decode_attention.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, data: Tensor, positions: Tensor,
    layer: int, scaling: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    return query.new_empty(query.shape)
