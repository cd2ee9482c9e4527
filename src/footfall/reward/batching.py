"""Batches of like length: a pass over many traces without much padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from footfall.render import Reading


class Batch(NamedTuple):
    """Right-padded: ids are (N, T) for N traces of T tokens, positions (N, S) for S steps."""

    input_ids: Tensor
    positions: Tensor


def pack(lengths: Sequence[int], token_budget: int, max_waste: float = 0.25) -> list[list[int]]:
    """Groups of indices, longest first; padded, a group holds at most `token_budget` tokens and `max_waste` padding.

    A single trace longer than the budget is a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    groups: list[list[int]] = []
    tokens = 0
    for i in order:
        if groups:
            padded = lengths[groups[-1][0]] * (len(groups[-1]) + 1)
            if padded <= token_budget and tokens + lengths[i] >= (1 - max_waste) * padded:
                groups[-1].append(i)
                tokens += lengths[i]
                continue
        groups.append([i])
        tokens = lengths[i]
    return groups


def pad(readings: Sequence[Reading], pad_id: int, device: torch.device | str = "cpu", multiple: int = 1) -> Batch:
    """Ids padded on the right, to a `multiple` of tokens, and positions with 0; the caller looks at neither."""
    longest = -(-max(len(r.ids) for r in readings) // multiple) * multiple
    most = max(len(r.positions) for r in readings)
    ids = torch.full((len(readings), longest), pad_id, dtype=torch.long)
    positions = torch.zeros((len(readings), most), dtype=torch.long)
    for n, reading in enumerate(readings):
        ids[n, : len(reading.ids)] = torch.tensor(reading.ids)
        positions[n, : len(reading.positions)] = torch.tensor(reading.positions)
    return Batch(ids.to(device), positions.to(device))
