"""Quantised blocks to float32, in torch and so on any device; to the bit what ggml's own reference gives.

A block holds 32 or 256 numbers: small integers q, a scale d and for some kinds a minimum m, in half precision. The K kinds
have a scale (and minimum) of few bits for each part of a block besides:

    x = d q     x = d q + m     x = (d s) q - (m t)

Products are rounded one by one in float32, in the order of the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Kind(NamedTuple):
    """Numbers and bytes of a block, and how (N, bytes) become N rows of numbers."""

    numbers: int
    bytes: int
    read: Callable[[Tensor], Tensor]


def dequantise(data: Tensor, kind: int, shape: tuple[int, ...]) -> Tensor:
    """The tensor of this shape in float32, from its bytes."""
    known = KINDS[kind]
    return known.read(data.view(-1, known.bytes)).reshape(shape)


def byte_count(kind: int, numbers: int) -> int:
    """Bytes that so many numbers take; they must fill their blocks."""
    if kind not in KINDS:
        raise ValueError(f"weights are quantised by ggml's kind {kind}, which is not among {sorted(KINDS)}")
    known = KINDS[kind]
    if numbers % known.numbers:
        raise ValueError(f"{numbers} numbers do not fill blocks of {known.numbers}")
    return numbers // known.numbers * known.bytes


def _half(blocks: Tensor, at: int) -> Tensor:
    """(N, 1): the number in half precision that begins at this byte."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _fields(data: Tensor, bits: int, width: int) -> Tensor:
    """(N, fields, width): bytes in rows of `width`, each read as 8 / bits rows of fields, the lowest bits first."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=data.device).view(1, 1, -1, 1)
    spread = data.reshape(len(data), -1, 1, width) >> shifts
    return (spread & ((1 << bits) - 1)).reshape(len(data), -1, width)


def _float32(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float32)


def _float16(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float16).float()


def _bfloat16(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.bfloat16).float()


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_fields(blocks[:, 2:], 4, 16).flatten(1).float() - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _fields(blocks[:, 4:], 4, 16).flatten(1).float() + _half(blocks, 2)


def _fifth_bits(blocks: Tensor) -> Tensor:
    """(N, 32) of the four bytes that hold one bit of each number."""
    shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    return ((blocks.unsqueeze(-1) >> shifts) & 1).flatten(1) << 4


def _q5_0(blocks: Tensor) -> Tensor:
    q = _fields(blocks[:, 6:], 4, 16).flatten(1) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (q.float() - 16)


def _q5_1(blocks: Tensor) -> Tensor:
    q = _fields(blocks[:, 8:], 4, 16).flatten(1) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * q.float() + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].view(torch.int8).float()


def _q2_k(blocks: Tensor) -> Tensor:
    scales = blocks[:, :16]
    d = (_half(blocks, 80) * (scales & 15).float()).unsqueeze(-1)
    m = (_half(blocks, 82) * (scales >> 4).float()).unsqueeze(-1)
    return d * _fields(blocks[:, 16:80], 2, 32).reshape(-1, 16, 16).float() - m


def _q3_k(blocks: Tensor) -> Tensor:
    low = _fields(blocks[:, 96:104], 4, 8).flatten(1)
    high = _fields(blocks[:, 104:108], 2, 4).flatten(1)
    d = (_half(blocks, 108) * ((low | (high << 4)).float() - 32)).unsqueeze(-1)
    missing = _fields(blocks[:, :32], 1, 32).reshape(-1, 16, 16) ^ 1  # the bit is set where nothing is taken off
    return d * (_fields(blocks[:, 32:96], 2, 32).reshape(-1, 16, 16).float() - 4 * missing.float())


def _scales_and_minima(packed: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 8) each: twelve bytes of six-bit numbers, the last four of each with their upper two bits elsewhere."""
    first, second, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat([first & 63, (rest & 15) | ((first >> 2) & 48)], dim=1)
    minima = torch.cat([second & 63, (rest >> 4) | ((second >> 2) & 48)], dim=1)
    return scales.float(), minima.float()


def _with_minima(blocks: Tensor, q: Tensor) -> Tensor:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    return (_half(blocks, 0) * scales).unsqueeze(-1) * q.float() - (_half(blocks, 2) * minima).unsqueeze(-1)


def _q4_k(blocks: Tensor) -> Tensor:
    return _with_minima(blocks, _fields(blocks[:, 16:], 4, 32))


def _q5_k(blocks: Tensor) -> Tensor:
    return _with_minima(blocks, _fields(blocks[:, 48:], 4, 32) | (_fields(blocks[:, 16:48], 1, 32) << 4))


def _q6_k(blocks: Tensor) -> Tensor:
    low = _fields(blocks[:, :128], 4, 64).reshape(-1, 8, 32)
    q = (low | (_fields(blocks[:, 128:192], 2, 32) << 4)).float() - 32
    d = _half(blocks, 208) * blocks[:, 192:208].contiguous().view(torch.int8).float()
    return d.unsqueeze(-1) * q.reshape(-1, 16, 16)


KINDS: dict[int, Kind] = {
    0: Kind(1, 4, _float32), 1: Kind(1, 2, _float16), 30: Kind(1, 2, _bfloat16),
    2: Kind(32, 18, _q4_0), 3: Kind(32, 20, _q4_1), 6: Kind(32, 22, _q5_0), 7: Kind(32, 24, _q5_1), 8: Kind(32, 34, _q8_0),
    10: Kind(256, 84, _q2_k), 11: Kind(256, 110, _q3_k), 12: Kind(256, 144, _q4_k), 13: Kind(256, 176, _q5_k),
    14: Kind(256, 210, _q6_k),
}  # fmt: skip
"""By ggml's numbers."""
