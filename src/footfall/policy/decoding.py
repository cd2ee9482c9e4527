"""Rows that are decoded together: requests are seated in rows, all rows advance, and a row is freed when its sequence ends.

On the CPU a call of the decoder is one step over as much of the slots as the longest row needs. On CUDA the whole step (model,
draw, advance) is one captured graph, replayed several times a call: a small model's step is a few hundred kernels of
microseconds each; launched one by one from Python they take tens of milliseconds, replayed as a graph about one. The host looks
at the tokens only every `STEPS_A_CALL` steps: what a row draws past its end is thrown away.

A token is drawn by a number that is the sequence's own (`footfall.policy.drawing`), so who sits beside it changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from footfall.policy.drawing import Drawn, draw, uniform
from footfall.policy.protocol import SamplingParams
from footfall.policy.slots import Entry, PrefixCache, Slots, SlotView

LENGTH_BLOCK = 32
"""Slots are read in blocks of this many tokens."""
STEPS_A_CALL = 8
_ROW_BUCKETS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to write: the ids it continues, its own seed, and a rule that says where it may stop early."""

    ids: tuple[int, ...]
    seed: int
    max_tokens: int
    shared: int = 0
    """How many of `ids` other requests are likely to share (the problem's prompt)."""
    stops: Callable[[list[int]], bool] | None = None
    """Called after a token in `stop_tokens` was drawn."""


@dataclass(slots=True)
class Generated:
    """What was written after a request's ids; `ended` if by an end-of-text token, which is left out of `tokens`."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False
    end: int | None = None
    """That token, where there was one."""
    stopped: bool = False
    prefilled: int = 0
    """Prefix tokens that had to be read for this sequence; others are charged to the sequence they were read for."""
    cached: int = 0
    decoded: int = 0


@dataclass(slots=True)
class Usage:
    """Tokens that went through the model, and tokens that did not have to."""

    prefilled: int = 0
    cached: int = 0
    decoded: int = 0
    steps: int = 0


class Decoder(Protocol):
    """Draws the next tokens of rows 0…B-1; on CUDA several steps a call, replayed as a graph."""

    steps_a_call: int
    slack: float
    """How many rows may be computed for one in use before rows are moved together."""
    reads_last: bool
    """A sequence keeps its row until its last token was read too."""

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
        """Put the sequence of one row into another, which becomes free."""
        for column in (self.tokens, self.positions, self.seeds, self.owner, self.limit, self.written):
            column[target] = column[source]
        self.drawn[target], self.logprobs[target] = self.drawn[source], self.logprobs[source]
        self.owner[source] = -1


class EagerDecoder:
    """One step a call, over as much of the slots as the longest row needs: the CPU's way."""

    steps_a_call = 1
    slack = 1.125
    reads_last = False

    def __init__(self, model: PreTrainedModel, slots: Slots, compile: bool) -> None:
        if compile:
            raise ValueError("compile=True is for CUDA; on the CPU the engine runs as it is")
        self.model, self.slots = model, slots

    def run(
        self, batch: Batch, rows: int, params: SamplingParams
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """One step: tokens and logprobs [rows, 1]."""
        device = self.model.device
        tokens = torch.from_numpy(batch.tokens[:rows]).to(device)
        positions = torch.from_numpy(batch.positions[:rows]).to(device)
        seeds = torch.from_numpy(batch.seeds[:rows]).to(device)
        longest = int(batch.positions[:rows].max()) + 1
        length = min(-(-longest // LENGTH_BLOCK) * LENGTH_BLOCK, self.slots.capacity)
        drawn = draw(self.logits(batch, tokens, positions, length), uniform(seeds, positions), params)
        new = drawn.tokens_N.cpu().numpy()
        batch.tokens[:rows] = new
        batch.positions[:rows] += 1
        return new[:, None], drawn.logprobs_N.cpu().numpy()[:, None]

    def logits(self, batch: Batch, tokens_N: Tensor, positions_N: Tensor, length: int) -> Tensor:
        """[N, V] after the tokens that are fed."""
        return self.forward(tokens_N, SlotView(self.slots, positions_N[:, None], length))

    def forward(self, tokens_N: Tensor, view: SlotView) -> Tensor:
        """One pass of the model over one token a row."""
        out = self.model(input_ids=tokens_N[:, None], position_ids=view.positions_BT, use_cache=False, slots=view)
        found: Tensor = out.logits[:, -1]
        return found


class GraphDecoder:
    """One graph for each number of rows (rounded up) and each way of drawing."""

    steps_a_call = STEPS_A_CALL
    slack = 2.0
    reads_last = False

    def __init__(self, model: PreTrainedModel, slots: Slots, compile: bool) -> None:
        self.model, self.slots = model, slots
        # No method of this object: it would hold itself, and with itself the slots, until the next garbage collection.
        self._next: Callable[..., Drawn] = torch.compile(_draw_next) if compile else _draw_next
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


class Ends(NamedTuple):
    """The tokens after which the host looks at a sequence."""

    eos: frozenset[int]
    stops: frozenset[int]
    vocabulary: int


class Loop:
    """One `generate` call in flight: which request sits in which row, and who waits."""

    def __init__(
        self,
        requests: Sequence[Request],
        results: list[Generated],
        *,
        slots: Slots,
        decoder: Decoder,
        cache: PrefixCache,
        prefill: Callable[[list[tuple[int, ...]]], list[int]],
        ends: Ends,
        keep: bool,
    ) -> None:
        self.requests, self.results = requests, results
        self.slots, self.decoder, self.cache, self.prefill = slots, decoder, cache, prefill
        self.batch = Batch(self.slots.rows, max(r.max_tokens for r in requests) + self.decoder.steps_a_call)
        # Longest first: rows of like length share a batch, so little is read in vain, and no long one is left for last.
        self.waiting = deque(sorted(range(len(requests)), key=lambda i: -len(requests[i].ids)))
        self.free = deque(range(self.slots.rows))
        self.ends = ends
        self.watched = np.zeros(ends.vocabulary, bool)
        self.watched[sorted(ends.eos | ends.stops)] = True
        self.keep = keep
        self.ending: set[int] = set()
        """Requests that are written, and wait for their last token to be read."""
        self.steps = 0
        """Decode steps so far."""

    @property
    def done(self) -> int:
        """Requests that are written to their end."""
        return len(self.requests) - len(self.waiting) - (self.slots.rows - len(self.free))

    def admit(self) -> bool:
        """Fill free rows from the queue, and move rows together once nobody waits. False when all is done."""
        seated: dict[tuple[int, int], tuple[Entry, list[int]]] = {}
        while self.waiting and self.free:
            row = self.free.popleft()
            entry, shared = self._seat(self.waiting.popleft(), row)
            if entry is not None:
                seated.setdefault((id(entry), shared), (entry, []))[1].append(row)
        for (_, shared), (entry, rows) in seated.items():
            self.slots.load(rows, entry.data, shared)
        taken = np.flatnonzero(self.batch.owner >= 0)
        if len(taken) and not self.waiting and taken[-1] + 1 > self.decoder.slack * len(taken) + 1:
            self._compact(taken)
        return len(taken) > 0

    def _seat(self, request_index: int, row: int) -> tuple[Entry | None, int]:
        """Give a request its row, and give what is to be put there: the entry of its prefix, and how much of it."""
        request = self.requests[request_index]
        prefix = request.ids[:-1]
        entry, shared = self.cache.longest(prefix)
        if shared < len(prefix):
            result, (fresh,) = self.results[request_index], self.prefill([prefix])
            result.prefilled += fresh  # what was taken for found was not there (any more)
            result.cached = max(0, result.cached - fresh)
            entry, shared = self.cache.longest(prefix)
        if shared < len(prefix):
            raise MemoryError("the prefix cache cannot hold one prefix; raise cache_bytes")
        self.batch.tokens[row] = request.ids[-1]
        self.batch.positions[row] = len(prefix)
        self.batch.seeds[row] = request.seed
        self.batch.owner[row] = request_index
        self.batch.limit[row] = request.max_tokens
        self.batch.written[row] = 0
        return entry, shared

    def _compact(self, taken: npt.NDArray[np.int64]) -> None:
        """The last rows go to the holes before them."""
        holes = np.flatnonzero(self.batch.owner[: len(taken)] < 0).tolist()
        for source, target in zip(taken[len(taken) - len(holes) :].tolist(), holes, strict=True):
            self.slots.move(source, target, int(self.batch.positions[source]))
            self.batch.move(source, target)
        self.free = deque(np.flatnonzero(self.batch.owner < 0).tolist())

    def advance(self, params: SamplingParams) -> None:
        """Draw one or more tokens for every row in use, and release the rows that are done."""
        taken = np.flatnonzero(self.batch.owner >= 0)
        self.batch.positions[self.batch.owner < 0] = 0  # idle rows compute along, within bounds
        tokens, logprobs = self.decoder.run(self.batch, int(taken[-1]) + 1, params)
        steps = tokens.shape[1]
        self.steps += steps
        rows, columns = taken[:, None], self.batch.written[taken][:, None] + np.arange(steps)
        self.batch.drawn[rows, columns], self.batch.logprobs[rows, columns] = tokens[taken], logprobs[taken]
        self.batch.written[taken] += steps
        if self.ending:
            taken = self._without_ended(taken)
        look = self.watched[tokens[taken]].any(axis=1) | (self.batch.written[taken] >= self.batch.limit[taken])
        for row in taken[look].tolist():
            self._finish_if_done(row, steps)

    def _without_ended(self, taken: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows that still write; those whose last token has just been read become free."""
        ended = np.isin(self.batch.owner[taken], list(self.ending))
        for row in taken[ended].tolist():
            self._release(row)
        self.ending.clear()
        return taken[~ended]

    def _finish_if_done(self, row: int, steps: int) -> None:
        """Walk through the last tokens drawn; at the first that ends the sequence, hand it over and free the row."""
        owner, end = int(self.batch.owner[row]), int(self.batch.written[row])
        request, result = self.requests[owner], self.results[owner]
        drawn = self.batch.drawn[row, :end].tolist()
        for at in range(end - steps, end):
            result.ended = drawn[at] in self.ends.eos
            if drawn[at] in self.ends.stops and request.stops is not None:
                result.stopped = request.stops(drawn[: at + 1])
            if result.ended or result.stopped or at + 1 == request.max_tokens:
                length, result.end = (at, drawn[at]) if result.ended else (at + 1, None)
                result.tokens, result.decoded = drawn[:length], at + 1
                result.logprobs = self.batch.logprobs[row, :length].tolist()
                if self.decoder.reads_last and not result.ended:
                    result.prefilled += 1  # it is read, and nothing is drawn
                    self.ending.add(owner)
                else:
                    self._release(row)
                return

    def _release(self, row: int) -> None:
        owner = int(self.batch.owner[row])
        if self.keep:
            # The last token drawn was never fed, so its key is not in the row.
            ids = self.requests[owner].ids + tuple(self.results[owner].tokens[:-1])
            self.cache.put(Entry(ids, self.slots.copy_out(row, len(ids))))
        self.batch.owner[row] = -1
        self.free.append(row)
