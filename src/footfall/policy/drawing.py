"""Drawing tokens: pure functions of logits and one uniform number a sequence.

    token = min { v : Σ_{u ≤ v} w_u > x Σ_u w_u },   w = softmax(logits / temperature), zero outside the top k and the nucleus

The uniform number x is a hash of the sequence's own seed and the token's position, so a sequence does not depend on what
else is in the batch, on when it was admitted, or on how many samples were asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from footfall.policy.protocol import SamplingParams


class Drawn(NamedTuple):
    """One token for each row, and its log-probability."""

    tokens_N: Tensor
    logprobs_N: Tensor
    """Under the model itself: temperature 1, whole vocabulary."""


def draw(logits_NV: Tensor, uniform_N: Tensor, params: SamplingParams) -> Drawn:
    """One token a row by inverting the cumulative distribution of softmax(logits / temperature)."""
    logits_NV = logits_NV.float()
    if params.temperature == 0:
        tokens_N = logits_NV.argmax(dim=-1)
    else:
        weights_NV = _weights(logits_NV, params)
        tokens_N = _invert(weights_NV, uniform_N)
    chosen_N = logits_NV.gather(1, tokens_N[:, None])[:, 0]
    return Drawn(tokens_N, chosen_N - logits_NV.logsumexp(dim=-1))


def _weights(logits_NV: Tensor, params: SamplingParams) -> Tensor:
    """Unnormalised probabilities, zero outside the top k and outside the nucleus."""
    scaled_NV = logits_NV if params.temperature == 1 else logits_NV / params.temperature
    weights_NV = (scaled_NV - scaled_NV.amax(dim=-1, keepdim=True)).exp()
    if 0 < params.top_k < weights_NV.shape[1]:
        least_N1 = weights_NV.topk(params.top_k, dim=-1).values[:, -1:]
        weights_NV = weights_NV.where(weights_NV >= least_N1, 0)
    if params.top_p < 1:
        sorted_NV = weights_NV.sort(dim=-1, descending=True).values
        before_NV = sorted_NV.cumsum(dim=-1) - sorted_NV
        inside_NV = before_NV < params.top_p * sorted_NV.sum(dim=-1, keepdim=True)
        inside_NV[:, 0] = True  # also where a tiny share of the sum is rounded to 0
        least_N1 = sorted_NV.masked_fill(~inside_NV, float("inf")).amin(dim=-1, keepdim=True)
        weights_NV = weights_NV.where(weights_NV >= least_N1, 0)
    return weights_NV


def _invert(weights_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """First index whose cumulated weight exceeds uniform x total; found by block first, which reads the row once."""
    n, v = weights_NV.shape
    block = _block(v)
    blocks_NMB = weights_NV.view(n, v // block, block)
    ends_NM = blocks_NMB.sum(dim=-1).cumsum(dim=-1)
    target_N1 = _below(uniform_N[:, None].to(ends_NM.dtype) * ends_NM[:, -1:], ends_NM[:, -1:])
    which_N1 = (ends_NM <= target_N1).sum(dim=-1, keepdim=True).clamp(max=v // block - 1)
    before_N1 = torch.where(which_N1 > 0, ends_NM.gather(1, (which_N1 - 1).clamp(min=0)), 0)
    inside_NB = blocks_NMB.gather(1, which_N1[:, :, None].expand(n, 1, block))[:, 0]
    cumulated_NB = inside_NB.cumsum(dim=-1)
    target_N1 = _below(target_N1 - before_N1, cumulated_NB[:, -1:])
    offset_N1 = (cumulated_NB <= target_N1).sum(dim=-1, keepdim=True)
    return (which_N1 * block + offset_N1)[:, 0]


def _below(target_N1: Tensor, end_N1: Tensor) -> Tensor:
    """Rounding may put a target at the very end, past the last token that has any weight: keep it strictly below."""
    return target_N1.minimum(torch.nextafter(end_N1, torch.zeros_like(end_N1)))


def _block(vocabulary: int) -> int:
    if vocabulary > 1024:
        for block in (256, 128, 64):
            if vocabulary % block == 0:
                return block
    return vocabulary


def uniform(seeds_N: Tensor, positions_N: Tensor) -> Tensor:
    """A number in [0, 1) from a 64-bit seed and a position: splitmix64 on both, 24 bits kept (exact in float32)."""
    mixed_N = _splitmix(_splitmix(seeds_N) ^ positions_N)
    return _shift(mixed_N, 40).double().mul_(2.0**-24).float()


def _splitmix(x: Tensor) -> Tensor:
    x = x + -7046029254386353131
    x = (x ^ _shift(x, 30)) * -4658895280553007687
    x = (x ^ _shift(x, 27)) * -7723592293110705685
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift of a signed 64-bit tensor."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
