"""Scoring traces that grow: keys and values of what was read before are kept, so one more step costs one step.

A trace is kept under each of its read positions. A later trace that begins with the same ids (a search has added a step,
or several that differ) takes the keys, values and logits from there and runs only its new tokens. Pasts of different
lengths share a batch: they are padded on the left and masked, and every token keeps its true position.

What a batch leaves is kept in one piece, all layers together, and its traces point into it: a few large copies instead
of thousands of small ones. A piece of which less than half is needed by traces that are still known is copied
to a smaller one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from footfall.hashing import common_length, prefix_hashes
from footfall.loading import pack, padded
from footfall.render import Reading
from footfall.reward.prm import PRM

Ids = tuple[int, ...]
Keys = tuple[int, ...]
"""Of a trace's beginnings up to each read position; the last one is that of all ids, by which an entry is known."""

_SHARED_ENOUGH = 8
"""Tokens from which a common beginning is worth a pass of its own."""
_CPU_WASTE = 0.1
"""Padding in a batch on a CPU, where a token costs the same in a small one; elsewhere one more batch costs more than that."""


class _Entry(NamedTuple):
    """One trace: its row of a batch's keys and values (2, layers, N, heads, T, D), which begins at `start`."""

    ids: Ids
    positions: tuple[int, ...]
    keys: Keys
    logits_SK: Tensor
    kept: Tensor
    row: int
    start: int

    @property
    def name(self) -> int:
        return self.keys[-1]

    def begins(self, reading: Reading, step: int) -> bool:
        """Whether it is the same trace up to where that step is read, and read at the same places."""
        end = reading.positions[step] + 1
        return self.ids[:end] == reading.ids[:end] and self.positions[: step + 1] == reading.positions[: step + 1]

    def past(self, length: int) -> Tensor:
        """Keys and values (2, layers, heads, length, D) of the first `length` tokens."""
        return self.kept[:, :, self.row, :, self.start : self.start + length]


class _Job(NamedTuple):
    """What is still to be read of a trace: `past` tokens come from `entry`."""

    reading: Reading
    keys: Keys
    entry: _Entry | None
    past: int
    known: tuple[int, ...]
    """Rows of the entry's logits that are those of the first steps; two steps may be read at one place."""

    @property
    def new(self) -> int:
        return len(self.reading.ids) - self.past

    @property
    def read(self) -> list[int]:
        """Where its new tokens are read."""
        return [p - self.past for p in self.reading.positions[len(self.known) :]]


class PrefixCache:
    """Remembers up to `tokens` tokens of traces, the longest unused forgotten first."""

    def __init__(self, model: PRM, tokens: int) -> None:
        self.model = model
        self.tokens = tokens
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._held = 0
        self._at: dict[int, int] = {}
        """Key of what goes up to a read position -> name of an entry that begins with it."""
        self._shared_lengths: set[int] = set()
        """Of beginnings that are kept by themselves, as entries that are read nowhere."""
        self._of_piece: dict[int, set[int]] = {}
        """Address of a piece -> names of the entries that point into it."""

    @property
    def room(self) -> int:
        """Tokens that memory is held for, padding and all."""
        pieces = [self._entries[next(iter(names))].kept for names in self._of_piece.values()]
        return sum(kept.shape[2] * kept.shape[4] for kept in pieces)

    def forget(self) -> None:
        """Drop all that was read."""
        self._entries.clear()
        self._of_piece.clear()
        self._at.clear()
        self._shared_lengths.clear()
        self._held = 0

    def each_logits(self, readings: Sequence[Reading], token_budget: int) -> tuple[list[Tensor], list[int]]:
        """Logits (S, K) of each reading on the CPU, and the tokens that were run for it.

        Equal traces are run once, and a beginning that several new ones share (the prompt) is; the first of them pays.
        """
        wanted = [_up_to_last_read(reading) for reading in readings]
        owner: dict[Reading, int] = {}
        for i, reading in enumerate(wanted):
            owner.setdefault(reading, i)
        tokens = [0] * len(wanted)
        keyed = {i: (reading, _keys(reading)) for reading, i in owner.items()}
        self._share(keyed, tokens, token_budget)
        jobs = {i: self._job(reading, keys) for i, (reading, keys) in keyed.items()}
        logits = self._run_all(jobs, tokens, token_budget)
        self._tidy()
        return [logits[owner[reading]] for reading in wanted], tokens

    def _run_all(self, jobs: dict[int, _Job], tokens: list[int], token_budget: int) -> dict[int, Tensor]:
        """Each job's logits, in batches of like many new tokens; a job that is done holds no past any more."""
        places = list(jobs)
        new, pasts = [job.new for job in jobs.values()], [job.past for job in jobs.values()]
        waste = _CPU_WASTE if self.model.device.type == "cpu" else 1.0
        logits: dict[int, Tensor] = {}
        for group in pack(new, token_budget, waste, pasts):
            part = {places[k]: jobs.pop(places[k]) for k in group}
            logits.update(zip(part, self._run(list(part.values())), strict=True))
            for i, job in part.items():
                tokens[i] += job.new
        return logits

    def _share(self, wanted: Mapping[int, tuple[Reading, Keys]], tokens: list[int], token_budget: int) -> None:
        """Read what several traces that nothing is known of have in common before the first read position of any."""
        new = {
            i: reading.ids[: reading.positions[0]]
            for i, (reading, keys) in wanted.items() if reading.positions and self._job(reading, keys).entry is None
        }  # fmt: skip
        jobs: dict[int, _Job] = {}
        for group in _families(new):
            # The readings are sorted: what the first and the last share, all do.
            shared = new[group[0]][: common_length(new[group[0]], new[group[-1]])]
            if len(group) > 1:
                beginning = Reading(shared, ())
                jobs[group[0]] = _Job(beginning, _keys(beginning), None, 0, ())
                self._shared_lengths.add(len(shared))
        self._run_all(jobs, tokens, token_budget)

    def _job(self, reading: Reading, keys: Keys) -> _Job:
        for k in reversed(range(len(reading.positions))):
            entry = self._entries.get(self._at.get(keys[k], 0))
            if entry is not None and entry.begins(reading, k):
                # Something must be run: if all is kept, the last token, whose logits come out again.
                past = min(reading.positions[k] + 1, len(reading.ids) - 1)
                self._entries.move_to_end(entry.name)
                known = tuple(map(entry.positions.index, (p for p in reading.positions if p < past)))
                return _Job(reading, keys, entry, past, known)
        for length in sorted((n for n in self._shared_lengths if n <= min(reading.positions, default=0)), reverse=True):
            beginning = Reading(reading.ids[:length], ())
            name = _keys(beginning)[-1]
            if name in self._entries and self._entries[name].ids == beginning.ids:
                self._entries.move_to_end(name)
                return _Job(reading, keys, self._entries[name], length, ())
        return _Job(reading, keys, None, 0, ())

    @torch.inference_mode()
    def _run(self, jobs: Sequence[_Job]) -> list[Tensor]:
        deepest, longest = max(job.past for job in jobs), max(job.new for job in jobs)
        cache = self._past(jobs, deepest)
        device, ids = self.model.device, padded([job.reading.ids[job.past :] for job in jobs], self.model.pad_id)
        past_N1, new_N1 = (
            torch.tensor(column)[:, None] for column in zip(*((j.past, j.new) for j in jobs), strict=True)
        )
        where, slot = past_N1 + torch.arange(longest), torch.arange(deepest + longest)
        mask = ((slot >= deepest - past_N1) & (slot < deepest + new_N1)).long()
        read = [job.read for job in jobs]
        with self.model.reading(read, longest):
            output: Any = self.model.backbone(
                input_ids=ids.to(device), attention_mask=mask.to(device), position_ids=where.to(device),
                past_key_values=cache, use_cache=True,
            )  # fmt: skip
        found = self._logits(jobs, padded(read), output.last_hidden_state)
        kept = torch.stack([torch.stack([layer.keys for layer in cache.layers]),
                            torch.stack([layer.values for layer in cache.layers])])  # fmt: skip
        for n, job in enumerate(jobs):
            self._keep(_Entry(job.reading.ids, job.reading.positions, job.keys, found[n], kept, n, deepest - job.past))
        return found

    def _past(self, jobs: Sequence[_Job], deepest: int) -> Any:
        """The jobs' pasts as one cache, padded on the left."""
        cache: Any = DynamicCache()
        like = next((job.entry.kept for job in jobs if job.entry is not None), None)
        if like is None or deepest == 0:
            return cache
        _, layers, _, heads, _, width = like.shape
        pasts = like.new_zeros(2, layers, len(jobs), heads, deepest, width)
        for n, job in enumerate(jobs):
            if job.entry is not None and job.past:
                pasts[:, :, n, :, deepest - job.past :] = job.entry.past(job.past)
        for number in range(layers):
            cache.update(pasts[0, number], pasts[1, number], number)
        return cache

    def _logits(self, jobs: Sequence[_Job], positions_NS: Tensor, hidden_NTH: Tensor) -> list[Tensor]:
        """New steps are read from the hidden states, old ones are remembered."""
        logits_NSK = self.model.head.at(hidden_NTH, positions_NS.to(hidden_NTH.device)).cpu()
        found = []
        for n, job in enumerate(jobs):
            new_SK = logits_NSK[n, : len(job.reading.positions) - len(job.known)]
            found.append(new_SK if job.entry is None else torch.cat([job.entry.logits_SK[list(job.known)], new_SK]))
        return found

    def _keep(self, entry: _Entry) -> None:
        """Remember a trace in place of those that it grew from; if that is too much, forget others."""
        for name in {self._at[key] for key in entry.keys[:-1] if key in self._at}:
            older = self._entries[name].ids
            if entry.ids[: len(older)] == older:
                self._drop(name)
        self._drop(entry.name)
        self._entries[entry.name] = entry
        self._of_piece.setdefault(id(entry.kept), set()).add(entry.name)
        self._held += len(entry.ids)
        self._at.update(dict.fromkeys(entry.keys[:-1], entry.name))
        while self._held > self.tokens and len(self._entries) > 1:
            self._drop(next(iter(self._entries)))

    def _tidy(self) -> None:
        """Copy what is left of pieces that are mostly empty to smaller ones."""
        for address, inside in list(self._of_piece.items()):
            entries = [self._entries[name] for name in inside]
            kept = entries[0].kept
            first, end = min(e.start for e in entries), max(e.start + len(e.ids) for e in entries)
            if 2 * len(entries) * (end - first) > kept.shape[2] * kept.shape[4]:
                continue
            rows = torch.tensor([entry.row for entry in entries], device=kept.device)
            smaller = kept[..., first:end, :].index_select(2, rows)
            for row, entry in enumerate(entries):
                self._entries[entry.name] = entry._replace(kept=smaller, row=row, start=entry.start - first)
            del self._of_piece[address]
            self._of_piece[id(smaller)] = inside

    def _drop(self, name: int) -> None:
        gone = self._entries.pop(name, None)
        if gone is None:
            return
        self._held -= len(gone.ids)
        piece = self._of_piece[id(gone.kept)]
        piece.discard(name)
        if not piece:
            del self._of_piece[id(gone.kept)]
        for key in gone.keys[:-1]:
            if self._at.get(key) == name:
                del self._at[key]


def _keys(reading: Reading) -> Keys:
    return tuple(prefix_hashes(reading.ids, [*(p + 1 for p in reading.positions), len(reading.ids)]))


def _up_to_last_read(reading: Reading) -> Reading:
    """Without the tokens after it, such as the end of a chat's turn: nobody reads them, and the next step replaces them."""
    return Reading(reading.ids[: max(reading.positions, default=len(reading.ids) - 1) + 1], reading.positions)


def _families(beginnings: Mapping[int, Ids]) -> list[list[int]]:
    """Places of sequences of which each shares at least half with the next in order, and `_SHARED_ENOUGH` tokens."""
    found: list[list[int]] = []
    for i in sorted(beginnings, key=lambda i: beginnings[i]):
        ids = beginnings[i]
        if found:
            shared = common_length(beginnings[found[-1][0]], ids)
            if shared >= max(_SHARED_ENOUGH, min(len(ids), len(beginnings[found[-1][0]])) / 2):
                found[-1].append(i)
                continue
        found.append([i])
    return found
