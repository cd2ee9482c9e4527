"""Batched sampling from any transformers decoder: one prefill a prefix, one row a sequence, rows refilled as they finish.

The life of a sequence: its prefix (all ids but the last) is read once, or found in the prefix cache; the keys and values
are put into a free row; the last prefix token is decoded from there, and each token drawn is fed to the next step, until
the sequence ends, meets its stop rule or its limit. Then the row goes to the next sequence waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from footfall.policy._graphs import GraphDecoder
from footfall.policy._prefix_cache import Entry, PrefixCache
from footfall.policy._sampling import draw, uniform
from footfall.policy._slots import Slots, SlotView, attach
from footfall.policy.protocol import SamplingParams

__all__ = ["Engine", "Generated", "Request", "Usage"]

_LENGTH_BLOCK = 32
_SHARED_ENOUGH = 8
_PREFILL_TOKENS = 16384


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

    def run(
        self, batch: _Batch, rows: int, params: SamplingParams
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Tokens and logprobs [rows, steps]; advances `batch` by that many steps."""
        ...


class _Batch:
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
        self, batch: _Batch, rows: int, params: SamplingParams
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        device = self.model.device
        tokens = torch.from_numpy(batch.tokens[:rows]).to(device)
        positions = torch.from_numpy(batch.positions[:rows]).to(device)
        seeds = torch.from_numpy(batch.seeds[:rows]).to(device)
        longest = int(batch.positions[:rows].max()) + 1
        length = min(-(-longest // _LENGTH_BLOCK) * _LENGTH_BLOCK, self.slots.capacity)
        view = SlotView(self.slots, positions[:, None], length)
        logits = self.model(
            input_ids=tokens[:, None], position_ids=positions[:, None], use_cache=False, slots=view
        ).logits[:, -1]
        drawn = draw(logits, uniform(seeds, positions), params)
        new = drawn.tokens_N.cpu().numpy()
        batch.tokens[:rows] = new
        batch.positions[:rows] += 1
        return new[:, None], drawn.logprobs_N.cpu().numpy()[:, None]


class Engine:
    """Samples for many requests at once. Holds the model, the slots and the prefix cache between calls."""

    def __init__(
        self,
        model: PreTrainedModel,
        eos_ids: Iterable[int],
        rows: int = 512,
        slot_bytes: int = 2 << 30,
        cache_bytes: int = 1 << 30,
        compile: bool = False,
    ) -> None:
        attach(model)
        self.model = model
        self.model.train(False)
        self.eos = frozenset(eos_ids)
        self.rows, self.slot_bytes = rows, slot_bytes
        self.compile = compile
        self.cache = PrefixCache(cache_bytes)
        self.usage = Usage()
        self._slots: Slots | None = None
        self._decoder: Decoder | None = None

    def forget(self) -> None:
        """Drop all cached prefixes, so that what comes next cannot depend on what came before, even in rounding."""
        self.cache.clear()

    @torch.inference_mode()
    def generate(
        self,
        requests: Sequence[Request],
        params: SamplingParams,
        stop_tokens: frozenset[int] = frozenset(),
        keep: bool = False,
    ) -> list[Generated]:
        """One result a request, in order. `keep` puts the keys and values of what was written into the prefix cache."""
        if not requests:
            return []
        self._make_room(max(len(r.ids) + r.max_tokens for r in requests))
        results = [Generated() for _ in requests]
        self._prefill(requests, results)
        loop = _Loop(self, requests, results, stop_tokens, keep)
        while loop.admit():
            loop.advance(params)
        for result in results:
            self.usage.prefilled += result.prefilled
            self.usage.cached += result.cached
            self.usage.decoded += result.decoded
        return results

    def _make_room(self, length: int) -> None:
        """Slots for sequences of `length`, as many rows as memory allows; remade only when a longer one comes."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if limit is not None and length > limit:
            raise ValueError(f"a sequence may need {length} tokens but the model takes {limit}; lower max_tokens")
        decoder: type[GraphDecoder | EagerDecoder] = GraphDecoder if self.model.device.type == "cuda" else EagerDecoder
        capacity = -(-(length + decoder.steps_a_call) // _LENGTH_BLOCK) * _LENGTH_BLOCK
        if self._slots is None or self._slots.capacity < capacity:
            rows = min(self.rows, max(1, self.slot_bytes // Slots.row_bytes(self.model, capacity)))
            self._slots = self._decoder = None
            self._slots = Slots(self.model, rows, capacity)
            self._decoder = decoder(self.model, self._slots, self.compile)

    def _prefill(self, requests: Sequence[Request], results: list[Generated]) -> None:
        """Read what is not in the cache: first the shared beginnings, then the whole prefixes, each once."""
        cover = _covers({r.ids[:-1] for r in requests})
        first = {}
        for index, request in reversed(list(enumerate(requests))):
            first[cover[request.ids[:-1]]] = index
        beginnings: dict[tuple[int, ...], list[int]] = {}
        for index in sorted(first.values()):
            request = requests[index]
            beginnings.setdefault(request.ids[: min(request.shared, len(request.ids) - 1)], []).append(index)
        shared = {ids: who[0] for ids, who in beginnings.items() if len(who) > 1 and len(ids) >= _SHARED_ENOUGH}
        for wave in (shared, first):
            missing = [ids for ids in wave if self.cache.longest(ids)[1] < len(ids)]
            for chunk in _by_length(missing, budget=_PREFILL_TOKENS):
                for ids, fresh in zip(chunk, self._read(chunk), strict=True):
                    results[wave[ids]].prefilled += fresh
        for request, result in zip(requests, results, strict=True):
            result.cached = max(0, len(request.ids) - 1 - result.prefilled)

    def _read(self, chunk: list[tuple[int, ...]]) -> list[int]:
        """One padded forward pass over the unread ends of these prefixes, into the cache; how many tokens each."""
        found = [self.cache.longest(ids) for ids in chunk]
        fresh = [len(ids) - shared for ids, (_, shared) in zip(chunk, found, strict=True)]
        width = max(fresh)
        scratch = Slots(self.model, len(chunk), max(map(len, chunk)) + width)
        tokens = torch.zeros(len(chunk), width, dtype=torch.long)
        positions = torch.zeros(len(chunk), width, dtype=torch.long)
        for row, (ids, (entry, shared)) in enumerate(zip(chunk, found, strict=True)):
            if entry is not None:
                scratch.load(row, entry.data, shared)
            tokens[row, : fresh[row]] = torch.tensor(ids[shared:])
            positions[row] = shared + torch.arange(width)
        device = self.model.device
        view = SlotView(scratch, positions.to(device), scratch.capacity)
        self.model.base_model(input_ids=tokens.to(device), position_ids=view.positions_BT, use_cache=False, slots=view)
        for row, ids in enumerate(chunk):
            self.cache.put(Entry(ids, scratch.copy_out(row, len(ids))))
        return fresh


class _Loop:
    """One `generate` call in flight: which request sits in which row, and who waits."""

    def __init__(
        self,
        engine: Engine,
        requests: Sequence[Request],
        results: list[Generated],
        stop_tokens: frozenset[int],
        keep: bool,
    ) -> None:
        assert engine._slots is not None and engine._decoder is not None
        self.engine, self.requests, self.results = engine, requests, results
        self.slots, self.decoder = engine._slots, engine._decoder
        self.batch = _Batch(self.slots.rows, max(r.max_tokens for r in requests) + self.decoder.steps_a_call)
        # Longest first: rows of like length share a batch, so little is read in vain, and no long one is left for last.
        self.waiting = deque(sorted(range(len(requests)), key=lambda i: -len(requests[i].ids)))
        self.free = deque(range(self.slots.rows))
        self.stop_tokens = stop_tokens
        self.watched = np.zeros(engine.model.config.get_text_config().vocab_size, bool)
        self.watched[sorted(engine.eos | stop_tokens)] = True
        self.keep = keep

    def admit(self) -> bool:
        """Fill free rows from the queue, and move rows together once nobody waits. False when all is done."""
        while self.waiting and self.free:
            self._seat(self.waiting.popleft(), self.free.popleft())
        taken = np.flatnonzero(self.batch.owner >= 0)
        if len(taken) and not self.waiting and taken[-1] + 1 > self.decoder.slack * len(taken) + 1:
            self._compact(taken)
        return len(taken) > 0

    def _seat(self, request_index: int, row: int) -> None:
        request = self.requests[request_index]
        prefix = request.ids[:-1]
        entry, shared = self.engine.cache.longest(prefix)
        if shared < len(prefix):
            self.results[request_index].prefilled += self.engine._read([prefix])[0]
            entry, shared = self.engine.cache.longest(prefix)
        if entry is not None:
            self.slots.load(row, entry.data, shared)
        if shared < len(prefix):
            raise MemoryError("the prefix cache cannot hold one prefix; raise cache_bytes")
        self.batch.tokens[row] = request.ids[-1]
        self.batch.positions[row] = len(prefix)
        self.batch.seeds[row] = request.seed
        self.batch.owner[row] = request_index
        self.batch.limit[row] = request.max_tokens
        self.batch.written[row] = 0

    def _compact(self, taken: npt.NDArray[np.int64]) -> None:
        for target, source in enumerate(taken):
            if source == target:
                continue
            self.slots.move(int(source), target, int(self.batch.positions[source]))
            self.batch.move(int(source), target)
        self.free = deque(np.flatnonzero(self.batch.owner < 0).tolist())

    def advance(self, params: SamplingParams) -> None:
        """Draw one or more tokens for every row in use, and release the rows that are done."""
        taken = np.flatnonzero(self.batch.owner >= 0)
        self.batch.positions[self.batch.owner < 0] = 0  # idle rows compute along, within bounds
        tokens, logprobs = self.decoder.run(self.batch, int(taken[-1]) + 1, params)
        steps = tokens.shape[1]
        self.engine.usage.steps += steps
        rows, columns = taken[:, None], self.batch.written[taken][:, None] + np.arange(steps)
        self.batch.drawn[rows, columns], self.batch.logprobs[rows, columns] = tokens[taken], logprobs[taken]
        self.batch.written[taken] += steps
        look = self.watched[tokens[taken]].any(axis=1) | (self.batch.written[taken] >= self.batch.limit[taken])
        for row in taken[look].tolist():
            self._finish_if_done(row, steps)

    def _finish_if_done(self, row: int, steps: int) -> None:
        """Walk through the last tokens drawn; at the first that ends the sequence, hand it over and free the row."""
        owner, end = int(self.batch.owner[row]), int(self.batch.written[row])
        request, result = self.requests[owner], self.results[owner]
        drawn = self.batch.drawn[row, :end].tolist()
        for at in range(end - steps, end):
            result.ended = drawn[at] in self.engine.eos
            if drawn[at] in self.stop_tokens and request.stops is not None:
                result.stopped = request.stops(drawn[: at + 1])
            if result.ended or result.stopped or at + 1 == request.max_tokens:
                length = at if result.ended else at + 1
                result.tokens, result.decoded = drawn[:length], at + 1
                result.logprobs = self.batch.logprobs[row, :length].tolist()
                self._release(row)
                return

    def _release(self, row: int) -> None:
        owner = int(self.batch.owner[row])
        if self.keep:
            # The last token drawn was never fed, so its key is not in the row.
            ids = self.requests[owner].ids + tuple(self.results[owner].tokens[:-1])
            self.engine.cache.put(Entry(ids, self.slots.copy_out(row, len(ids))))
        self.batch.owner[row] = -1
        self.free.append(row)


def _covers(sequences: set[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each sequence the longest one that begins with it: in sorted order only the next can continue a sequence."""
    cover: dict[tuple[int, ...], tuple[int, ...]] = {}
    following: tuple[int, ...] = ()
    for ids in sorted(sequences, reverse=True):
        cover[ids] = cover[following] if following[: len(ids)] == ids and following else ids
        following = ids
    return cover


def _by_length(sequences: list[tuple[int, ...]], budget: int) -> Iterable[list[tuple[int, ...]]]:
    """Chunks of sequences of like length, each within a budget of padded tokens."""
    chunk: list[tuple[int, ...]] = []
    for ids in sorted(sequences, key=len, reverse=True):
        if chunk and (len(chunk) + 1) * len(chunk[0]) > budget:
            yield chunk
            chunk = []
        chunk.append(ids)
    if chunk:
        yield chunk
