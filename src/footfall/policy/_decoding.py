"""The state of the rows that are being decoded, and the plain way to advance them by a token."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from footfall.policy._sampling import draw, uniform
from footfall.policy._slots import Slots, SlotView
from footfall.policy.protocol import SamplingParams

__all__ = ["LENGTH_BLOCK", "Batch", "Decoder", "EagerDecoder"]

LENGTH_BLOCK = 32
"""Slots are read in blocks of this many tokens."""


class Decoder(Protocol):
    """Draws the next tokens of rows 0…B-1; on CUDA several steps a call, replayed as a graph."""

    steps_a_call: int
    slack: float
    """How many rows may be computed for one in use before rows are moved together."""

    def run(
        self, batch: Batch, rows: int, params: SamplingParams
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Tokens and logprobs [rows, steps]; advances `batch` by that many steps."""
        ...


class Batch:
    """The rows' decoding state on the host: next token to feed, its position, the sequence's seed, what it drew."""

    def __init__(self, rows: int, longest: int) -> None:
        self.tokens = np.zeros(rows, np.int64)
        self.positions = np.zeros(rows, np.int64)
        self.seeds = np.zeros(rows, np.int64)
        self.owner = np.full(rows, -1, np.int64)
        self.limit = np.zeros(rows, np.int64)
        self.written = np.zeros(rows, np.int64)
        self.drawn = np.zeros((rows, longest), np.int64)
        self.logprobs = np.zeros((rows, longest), np.float32)

    def move(self, source: int, target: int) -> None:
        for column in (self.tokens, self.positions, self.seeds, self.owner, self.limit, self.written):
            column[target] = column[source]
        self.drawn[target], self.logprobs[target] = self.drawn[source], self.logprobs[source]
        self.owner[source] = -1


class EagerDecoder:
    """One step a call, over as much of the slots as the longest row needs: the CPU's way."""

    steps_a_call = 1
    slack = 1.125

    def __init__(self, model: PreTrainedModel, slots: Slots, compile: bool) -> None:
        if compile:
            raise ValueError("compile=True is for CUDA; on the CPU the engine runs as it is")
        self.model, self.slots = model, slots

    def run(
        self, batch: Batch, rows: int, params: SamplingParams
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        device = self.model.device
        tokens = torch.from_numpy(batch.tokens[:rows]).to(device)
        positions = torch.from_numpy(batch.positions[:rows]).to(device)
        seeds = torch.from_numpy(batch.seeds[:rows]).to(device)
        longest = int(batch.positions[:rows].max()) + 1
        length = min(-(-longest // LENGTH_BLOCK) * LENGTH_BLOCK, self.slots.capacity)
        view = SlotView(self.slots, positions[:, None], length)
        logits = self.model(
            input_ids=tokens[:, None], position_ids=positions[:, None], use_cache=False, slots=view
        ).logits[:, -1]
        drawn = draw(logits, uniform(seeds, positions), params)
        new = drawn.tokens_N.cpu().numpy()
        batch.tokens[:rows] = new
        batch.positions[:rows] += 1
        return new[:, None], drawn.logprobs_N.cpu().numpy()[:, None]
