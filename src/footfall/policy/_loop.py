"""One call of the engine in flight: rows are seated, advanced, and freed as their sequences end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from footfall.policy._decoding import Batch, Decoder
from footfall.policy._prefix_cache import Entry, PrefixCache
from footfall.policy._requests import Generated, Request
from footfall.policy._slots import Slots
from footfall.policy.protocol import SamplingParams

__all__ = ["Ends", "Loop"]


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
        self.steps = 0
        """Decode steps so far."""

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
        entry, shared = self.cache.longest(prefix)
        if shared < len(prefix):
            self.results[request_index].prefilled += self.prefill([prefix])[0]
            entry, shared = self.cache.longest(prefix)
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
        look = self.watched[tokens[taken]].any(axis=1) | (self.batch.written[taken] >= self.batch.limit[taken])
        for row in taken[look].tolist():
            self._finish_if_done(row, steps)

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
            self.cache.put(Entry(ids, self.slots.copy_out(row, len(ids))))
        self.batch.owner[row] = -1
        self.free.append(row)
