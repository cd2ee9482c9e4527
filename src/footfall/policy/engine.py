"""Batched sampling from any transformers decoder: one prefill a prefix, one row a sequence, rows refilled as they finish.

The life of a sequence: its prefix (all ids but the last) is read once, or found in the prefix cache; the keys and values
are put into a free row; the last prefix token is decoded from there, and each token drawn is fed to the next step, until
the sequence ends, meets its stop rule or its limit. Then the row goes to the next sequence waiting.

All prefixes of a call are read before the first token is drawn, many in one pass. What the prefix cache cannot hold at once
is read and decoded in groups, one after another: otherwise prefixes would be dropped before their turn and read again, one
by one. If memory does not suffice after all (others use the GPU too), the group is begun again with half of all. Where twice
the memory is there later, since others have gone, the next group takes its share of that.

The model stays its owner's: between two calls anybody may run it, train it or save it. A call that finds other weights than the
last one drops the keys and values computed with those, so that a policy in training always writes with its present weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from footfall.loading import give_memory_back, out_of_memory, pack, padded
from footfall.policy.decoding import (
    LENGTH_BLOCK,
    Decoder,
    EagerDecoder,
    Ends,
    Generated,
    GraphDecoder,
    Loop,
    Request,
    Usage,
)
from footfall.policy.protocol import SamplingParams
from footfall.policy.slots import Entry, PrefixCache, Slots, SlotView, check_attention, slot_attention
from footfall.policy.tapping import Tap, TappedDecoder
from footfall.policy.weights import CpuLayout, WeightsWatch
from footfall.terminal import told

_SHARED_ENOUGH = 8
_WORTH_COMPILING = 16_000_000
"""Tokens that a call may write; a quarter of them usually is."""
_PREFILL_TOKENS = 16384
_CACHE_BYTES = 1 << 30


class Limits(NamedTuple):
    """Of the rows that decode together, of the prefix cache, and of one pass that reads prefixes."""

    slot_bytes: int
    cache_bytes: int
    prefill_tokens: int

    @classmethod
    def of(cls, memory: int, cache_bytes: int | None) -> Limits:
        """Half of the memory for rows, an eighth for prefixes, and the rest for passes."""
        return cls(memory // 2, cache_bytes or max(_CACHE_BYTES, memory // 8), _PREFILL_TOKENS)

    def halved(self, slots: int, row: int, length: int) -> Limits:
        """Half of all, where `slots` bytes were in use; but one row of `row` bytes, four prefixes as long as that in the
        cache and one prefix of `length` a pass stay: with less nothing works."""
        return Limits(
            max(row, slots // 2),
            max(min(4 * row, self.cache_bytes), self.cache_bytes // 2),
            max(min(length, self.prefill_tokens), self.prefill_tokens // 2),
        )


def worth_compiling(requests: Sequence[Request]) -> bool:
    """Whether a call may write so much that half a minute of compiling is paid back (a third of its time is saved)."""
    return sum(request.max_tokens for request in requests) >= _WORTH_COMPILING


class Engine:
    """Samples for many requests at once. Holds the model, the slots and the prefix cache between calls."""

    def __init__(
        self,
        model: PreTrainedModel,
        eos_ids: Iterable[int],
        rows: int = 512,
        slot_bytes: int = 2 << 30,
        cache_bytes: int | None = None,
        compile: bool | None = None,
        memory: Callable[[], int] | None = None,
    ) -> None:
        """`compile` compiles the decoding step; None does so on CUDA once a call is large enough to pay it back.

        `memory` says how many bytes of the device could be taken now: rows and prefixes get shares of them in place of
        `slot_bytes` and, unless `cache_bytes` is given, of 1 GiB.
        """
        check_attention(model)
        self.model = model
        self.eos = frozenset(eos_ids)
        self.rows = rows
        self.compile = compile
        self._memory, self._cache_bytes = memory, cache_bytes
        self._seen_memory = 0 if memory is None else memory()
        fixed = Limits(slot_bytes, cache_bytes or _CACHE_BYTES, _PREFILL_TOKENS)
        self._given = self._limits = fixed if memory is None else Limits.of(self._seen_memory, cache_bytes)
        self.cache = PrefixCache(self._limits.cache_bytes)
        self.usage = Usage()
        self.weights = WeightsWatch(model)
        self._seen = self.weights.changes, self.weights.moves
        self._layout = CpuLayout()
        self._slots: Slots | None = None
        self._decoder: Decoder | None = None
        self._tap: Tap | None = None

    @property
    def tap(self) -> Tap | None:
        """Who is told what the model looks at while it writes; then every step is one pass, on CUDA too."""
        return self._tap

    @tap.setter
    def tap(self, tap: Tap | None) -> None:
        self._tap, self._slots, self._decoder = tap, None, None

    def forget(self) -> None:
        """Drop all cached prefixes, so that what comes next cannot depend on what came before, even in rounding.

        After a training step this need not be called; after a write that torch does not see (`WeightsWatch`) it must.
        """
        self.cache.clear()
        self._layout.clear()
        if self._tap is not None:
            self._tap.forget()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """The model reads slots, and nothing is held that was computed with other weights; then it is its owner's again."""
        with slot_attention(self.model):
            seen = self.weights.look(), self.weights.moves
            if seen != self._seen:
                self.forget()
                if seen[1] != self._seen[1]:
                    self._begin_anew(self._limits)  # captured graphs read the weights where they were
                self._seen = seen
            with self._layout.in_use(self.model):
                yield

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
        length = max(len(r.ids) + r.max_tokens for r in requests)
        ends = Ends(self.eos, stop_tokens, self.model.config.get_text_config().vocab_size)
        found: dict[int, Generated] = {}
        with self._at_work():
            if self.compile is None and self.model.device.type == "cuda" and worth_compiling(requests):
                self.compile, self._slots, self._decoder = True, None, None
            while left := [i for i in range(len(requests)) if i not in found]:
                self._widen()
                for group in _groups([requests[i].ids[:-1] for i in left], self._room(keep)):
                    own = [left[i] for i in group]
                    written = self._attempt([requests[i] for i in own], length, params, ends, keep)
                    if written is None:
                        self._shrink(length)
                        break
                    found.update(zip(own, written, strict=True))
                    if len(found) < len(requests) and self._widen():
                        break
        return [found[i] for i in range(len(requests))]

    @torch.inference_mode()
    def logits(self, ids: Sequence[tuple[int, ...]], places: Sequence[int] = ()) -> Tensor:
        """[N, T, V] after each token, or after those at `places` alone: one pass over the sequences, padded on the right."""
        tokens_NT = padded(ids)
        width, device = tokens_NT.shape[1], self.model.device
        positions_NT = torch.arange(width, device=device).expand(len(ids), width)
        view = SlotView(Slots(self.model, len(ids), width), positions_NT, width)
        kept = {"logits_to_keep": torch.tensor(places, device=device)} if places else {}
        with self._at_work():
            out = self.model(
                input_ids=tokens_NT.to(device), position_ids=positions_NT, use_cache=False, slots=view, **kept
            )
        found: Tensor = out.logits
        return found

    def _attempt(
        self, requests: Sequence[Request], length: int, params: SamplingParams, ends: Ends, keep: bool
    ) -> list[Generated] | None:
        """What was written, or `None` if memory did not suffice and less of it can be tried."""
        results = [Generated() for _ in requests]
        try:
            self._make_room(length)
            self._run(requests, results, params, ends, keep)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if self._smaller(length) == self._limits:
                self._begin_anew(self._given)  # it was these requests' fault: the next ones get what there was at first
                raise
            return None
        return results

    def _smaller(self, length: int) -> Limits:
        row = Slots.row_bytes(self.model, self._capacity(length))
        used = min(self.rows * row, self._limits.slot_bytes) if self._slots is None else self._slots.data.nbytes
        return self._limits.halved(used, row, length)

    def _shrink(self, length: int) -> None:
        """Go on with half of what there was; nothing of the failed attempt is held any more."""
        self._begin_anew(self._smaller(length))
        if self._memory is not None:
            self._seen_memory = self._memory()
        warnings.warn(
            f"out of memory: going on with {self._rows(self._capacity(length))} rows and half the prefix cache",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip

    def _widen(self) -> bool:
        """Take a share of what is free now, where that is twice of what was there when the limits were set."""
        if self._memory is None:
            return False
        held = self.cache.used + (0 if self._slots is None else self._slots.data.nbytes)
        there = self._memory() + held
        if there < 2 * self._seen_memory:
            return False
        self._seen_memory, self._given = there, Limits.of(there, self._cache_bytes)
        self._begin_anew(self._given)
        return True

    def _begin_anew(self, limits: Limits) -> None:
        """Give back what rows and cache hold; they are made again within these limits."""
        self._limits = limits
        self.cache = PrefixCache(limits.cache_bytes)
        self._slots = self._decoder = None
        give_memory_back()

    def _room(self, keep: bool) -> int:
        """Tokens of prefixes that one group may have: half the cache, or a quarter if what is written is kept too."""
        return self.cache.budget // Slots.row_bytes(self.model, 1) // (4 if keep else 2)

    def _run(
        self, requests: Sequence[Request], results: list[Generated], params: SamplingParams, ends: Ends, keep: bool
    ) -> None:
        self._prefill(requests, results)
        assert self._slots is not None and self._decoder is not None
        if isinstance(self._decoder, TappedDecoder):
            self._decoder.begin()
        loop = Loop(
            requests, results, slots=self._slots, decoder=self._decoder, cache=self.cache, prefill=self._read, ends=ends,
            keep=keep,
        )  # fmt: skip
        while loop.admit():
            loop.advance(params)
            told(loop.done, len(requests), "written")
        if isinstance(self._decoder, TappedDecoder):
            self._decoder.hand_over(requests, results)
        self.usage.steps += loop.steps
        for result in results:
            self.usage.prefilled += result.prefilled
            self.usage.cached += result.cached
            self.usage.decoded += result.decoded

    def _make_room(self, length: int) -> None:
        """Slots for sequences of `length`, as many rows as memory allows; remade only when a longer one comes."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if limit is not None and length > limit:
            raise ValueError(
                f"a sequence may need {length} tokens but the model takes {limit}; lower max_tokens, or leave out prompts that "
                "are so long"
            )
        capacity = self._capacity(length)
        if self._slots is None or self._slots.capacity < capacity:
            # The prefixes of a search grow step by step: with twice the room a decoder is not made (and its graphs are not
            # captured) anew for each step.
            twice = 0 if self._slots is None else 2 * self._slots.capacity
            if twice > capacity and self._rows(twice) == self.rows:
                capacity = twice
            self._slots = self._decoder = None
            self._slots = Slots(self.model, self._rows(capacity), capacity)
            self._decoder = self._made(self._slots)

    def _made(self, slots: Slots) -> Decoder:
        if self._tap is not None:
            return TappedDecoder(self.model, slots, self._tap)
        return self._kind(self.model, slots, bool(self.compile))

    @property
    def _kind(self) -> type[GraphDecoder | EagerDecoder]:
        return GraphDecoder if self.model.device.type == "cuda" and self._tap is None else EagerDecoder

    def _capacity(self, length: int) -> int:
        """Tokens of a row for sequences of `length`."""
        return -(-(length + self._kind.steps_a_call) // LENGTH_BLOCK) * LENGTH_BLOCK

    def _rows(self, capacity: int) -> int:
        """How many rows of so many tokens there may be."""
        return min(self.rows, max(1, self._limits.slot_bytes // Slots.row_bytes(self.model, capacity)))

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
            for group in pack([len(ids) for ids in missing], self._limits.prefill_tokens, max_waste=1.0):
                chunk = [missing[i] for i in group]
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
        for row, (entry, shared) in enumerate(found):
            if entry is not None:
                scratch.load([row], entry.data, shared)
        tokens = padded([ids[shared:] for ids, (_, shared) in zip(chunk, found, strict=True)])
        positions = torch.tensor([shared for _, shared in found])[:, None] + torch.arange(width)
        device = self.model.device
        view = SlotView(scratch, positions.to(device), scratch.capacity)
        self.model.base_model(input_ids=tokens.to(device), position_ids=view.positions_BT, use_cache=False, slots=view)
        for row, ids in enumerate(chunk):
            self.cache.put(Entry(ids, scratch.copy_out(row, len(ids))))
        return fresh


def _groups(prefixes: Sequence[tuple[int, ...]], room: int) -> list[list[int]]:
    """Indices in groups whose distinct tokens fit in `room`; what is read together (a prefix within another) stays together."""
    cover = _covers(set(prefixes))
    members: dict[tuple[int, ...], list[int]] = {}
    for index, ids in enumerate(prefixes):
        members.setdefault(cover[ids], []).append(index)
    if sum(map(len, members)) <= room:
        return [list(range(len(prefixes)))]
    groups: list[list[int]] = [[]]
    used = 0
    for ids, indices in members.items():
        if groups[-1] and used + len(ids) > room:
            groups.append([])
            used = 0
        groups[-1] += indices
        used += len(ids)
    return groups


def _covers(sequences: set[tuple[int, ...]]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """For each sequence the longest one that begins with it: in sorted order only the next can continue a sequence."""
    cover: dict[tuple[int, ...], tuple[int, ...]] = {}
    following: tuple[int, ...] = ()
    for ids in sorted(sequences, reverse=True):
        cover[ids] = cover[following] if following[: len(ids)] == ids and following else ids
        following = ids
    return cover
