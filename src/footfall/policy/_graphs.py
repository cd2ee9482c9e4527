"""Decoding on CUDA: the whole step (model, draw, advance) is one captured graph, replayed several times a call.

A small model's step is a few hundred kernels of microseconds each; launched one by one from Python they take tens of
milliseconds, replayed as a graph about one. The host looks at the tokens only every `STEPS_A_CALL` steps: what a row draws
past its end is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from footfall.policy._decoding import Batch
from footfall.policy._sampling import Drawn, draw, uniform
from footfall.policy._slots import Slots, SlotView
from footfall.policy.protocol import SamplingParams

__all__ = ["STEPS_A_CALL", "GraphDecoder"]

STEPS_A_CALL = 8
_ROW_BUCKETS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class GraphDecoder:
    """One graph for each number of rows (rounded up) and each way of drawing."""

    steps_a_call = STEPS_A_CALL
    slack = 2.0

    def __init__(self, model: PreTrainedModel, slots: Slots, compile: bool) -> None:
        self.model, self.slots = model, slots
        # No method of this object: it would hold itself, and with itself the slots, until the next garbage collection.
        self._next: Callable[..., Drawn] = torch.compile(_draw_next, dynamic=False) if compile else _draw_next
        rows, device = slots.rows, model.device
        self.tokens_N = torch.zeros(rows, dtype=torch.long, device=device)
        self.positions_N1 = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.seeds_N = torch.zeros(rows, dtype=torch.long, device=device)
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.drawn_KN = torch.zeros(STEPS_A_CALL, rows, dtype=torch.long, device=device)
        self.logprobs_KN = torch.zeros(STEPS_A_CALL, rows, dtype=torch.float32, device=device)
        self._graphs: dict[tuple[int, SamplingParams], torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    def run(
        self, batch: Batch, rows: int, params: SamplingParams
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Tokens and logprobs [rows, steps]; advances `batch` by that many steps."""
        bucket = min(next(b for b in _ROW_BUCKETS if b >= rows), self.slots.rows)
        graph = self._graph(bucket, params)
        state = np.stack([batch.tokens[:bucket], batch.positions[:bucket], batch.seeds[:bucket]])
        on_device = torch.from_numpy(state).pin_memory().to(self.tokens_N.device, non_blocking=True)
        self.tokens_N[:bucket], self.seeds_N[:bucket] = on_device[0], on_device[2]
        self.positions_N1[:bucket, 0] = on_device[1]
        self.step.zero_()
        for _ in range(STEPS_A_CALL):
            graph.replay()
        tokens = self.drawn_KN[:, :rows].cpu().numpy().T
        logprobs = self.logprobs_KN[:, :rows].cpu().numpy().T
        batch.tokens[:rows] = tokens[:, -1]
        batch.positions[:rows] += STEPS_A_CALL
        return tokens, logprobs

    def _graph(self, rows: int, params: SamplingParams) -> torch.cuda.CUDAGraph:
        drawing = SamplingParams(params.temperature, params.top_p, params.top_k)
        if (rows, drawing) not in self._graphs:
            self._graphs[rows, drawing] = self._capture(rows, drawing)
        return self._graphs[rows, drawing]

    def _capture(self, rows: int, params: SamplingParams) -> torch.cuda.CUDAGraph:
        saved = self.slots.data[:, :, :rows, :, 0].clone()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.positions_N1.zero_()
                self.step.zero_()
                self._one_step(rows, params)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._one_step(rows, params)
        self._pool = graph.pool()
        self.slots.data[:, :, :rows, :, 0] = saved
        return graph

    def _one_step(self, rows: int, params: SamplingParams) -> None:
        tokens, positions = self.tokens_N[:rows], self.positions_N1[:rows]
        view = SlotView(self.slots, positions, self.slots.capacity)
        drawn = self._next(self.model, tokens, positions, self.seeds_N[:rows], view, params)
        self.drawn_KN[:, :rows].index_copy_(0, self.step, drawn.tokens_N[None])
        self.logprobs_KN[:, :rows].index_copy_(0, self.step, drawn.logprobs_N[None])
        tokens.copy_(drawn.tokens_N)
        positions.add_(1)
        self.step.add_(1)


def _draw_next(
    model: PreTrainedModel,
    tokens_N: Tensor,
    positions_N1: Tensor,
    seeds_N: Tensor,
    view: SlotView,
    params: SamplingParams,
) -> Drawn:
    logits = model(input_ids=tokens_N[:, None], position_ids=positions_N1, use_cache=False, slots=view).logits
    return draw(logits[:, -1], uniform(seeds_N, positions_N1[:, 0]), params)
