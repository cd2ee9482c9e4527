"""Many small copies at once. On CUDA each copy would be a launch of its own, which costs the host more than the copy the GPU.

Keys and values of a sequence are a tensor [a, b, h, t, d] whose last two dimensions lie together in memory, cut out of a bigger
one. All pairs go through one launch: a program a pair and head.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["TRITON", "copy_each"]

TRITON = importlib.util.find_spec("triton") is not None
"""Whether the Triton compiler is installed (it comes with torch's CUDA builds)."""
_WORTH = 4
"""Pairs from which one launch is worth the list of addresses that it needs."""


def copy_each(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """`target[:] = source` for each pair; no target may overlap another one or a source.

    Shapes [a, b, h, t, d] and dtype as in the first pair, but t, which each pair has for itself.
    """
    if TRITON and len(targets) >= _WORTH and targets[0].is_cuda:
        _launch(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def _launch(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    a, b, h, _, d = targets[0].shape
    size = targets[0].element_size()
    together = 8 // size if size < 8 and d * size % 8 == 0 else 1  # as many numbers are moved as one of 64 bits
    rows = [_addressed(target, source, together) for target, source in zip(targets, sources, strict=True)]
    table = torch.tensor(rows, dtype=torch.int64)
    if targets[0].is_cuda:
        table = table.pin_memory().to(targets[0].device, non_blocking=True)
    _kernel()[(len(rows), a * b * h)](table, b, h, UNIT=_unit(size * together), BLOCK=1024)


def _addressed(target: Tensor, source: Tensor, together: int) -> tuple[int, ...]:
    """Where both begin, how many units lie in a row, and how far apart such runs are."""
    if target.shape != source.shape or target.dtype != source.dtype:
        raise ValueError(f"{tuple(source.shape)} {source.dtype} cannot go to {tuple(target.shape)} {target.dtype}")
    *_, t, d = target.shape
    strides = (*target.stride(), *source.stride())
    if strides[4] != 1 or strides[9] != 1 or (t > 1 and (strides[3] != d or strides[8] != d)):
        raise ValueError(f"the last two dimensions must lie together in memory, strides are {strides}")
    apart = (stride // together for stride in (*strides[:3], *strides[5:8]))
    return target.data_ptr(), source.data_ptr(), t * d // together, *apart


def _unit(size: int) -> Any:
    """The whole number of so many bytes: bits are copied, whatever they mean."""
    import triton.language as tl

    return {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}[size]


@lru_cache(maxsize=1)
def _kernel() -> Any:
    import triton
    import triton.language as tl

    # fmt: off
    @triton.jit  # type: ignore[untyped-decorator]
    def copy(table, b, h, UNIT: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        # fmt: on
        pair = table + tl.program_id(0) * 9
        plane = tl.program_id(1)
        i, j, k = plane // (b * h), plane // h % b, plane % h
        to = tl.load(pair + 3) * i + tl.load(pair + 4) * j + tl.load(pair + 5) * k
        of = tl.load(pair + 6) * i + tl.load(pair + 7) * j + tl.load(pair + 8) * k
        target = tl.load(pair).to(tl.pointer_type(UNIT)) + to
        source = tl.load(pair + 1).to(tl.pointer_type(UNIT)) + of
        together = tl.load(pair + 2)
        for start in range(0, together, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(target + at, tl.load(source + at, mask=at < together), mask=at < together)

    return copy
