"""Scoring traces that grow: keys and values of what was read before are kept, so one more step costs one step.

A trace is kept under each of its read positions. A later trace that begins with the same ids (a search has added a step,
or several that differ) takes the keys, values and logits from there and runs only its new tokens. Pasts of different
lengths share a batch: they are padded on the left and masked, and every token keeps its true position.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from footfall.reward.batching import pack
from footfall.reward.reading import Reading
from footfall.reward.step_model import StepModel

__all__ = ["PrefixCache"]

Layers = tuple[tuple[Tensor, Tensor], ...]
"""Keys and values (heads, T, D) of each layer."""


class _Entry(NamedTuple):
    ids: tuple[int, ...]
    layers: Layers
    logits_SK: Tensor
    positions: tuple[int, ...]


class _Job(NamedTuple):
    """What is still to be read of a trace: `past` tokens come from `entry`."""

    reading: Reading
    entry: _Entry | None
    past: int
    known: int
    """Steps whose logits the entry has."""

    @property
    def new(self) -> int:
        return len(self.reading.ids) - self.past


class PrefixCache:
    """Remembers up to `tokens` tokens of traces, the longest unused forgotten first."""

    def __init__(self, model: StepModel, tokens: int) -> None:
        self.model = model
        self.tokens = tokens
        self._entries: OrderedDict[tuple[int, ...], _Entry] = OrderedDict()
        self._held = 0
        self._at: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Ids up to a read position -> ids of the entry that begins with them."""

    def forget(self) -> None:
        self._entries.clear()
        self._at.clear()
        self._held = 0

    def each_logits(self, readings: Sequence[Reading], token_budget: int) -> tuple[list[Tensor], list[int]]:
        """Logits (S, K) of each reading on the CPU, and the tokens that were run for it."""
        jobs = [self._job(reading) for reading in readings]
        logits: list[Tensor] = [torch.zeros(0, self.model.readout.outputs)] * len(jobs)
        for group in pack([len(job.reading.ids) for job in jobs], token_budget, max_waste=1.0):
            members = [jobs[i] for i in group]
            for i, found in zip(group, self._run(members), strict=True):
                logits[i] = found
        return logits, [job.new for job in jobs]

    def _job(self, reading: Reading) -> _Job:
        for k in reversed(range(len(reading.positions))):
            length = reading.positions[k] + 1
            kept = self._at.get(reading.ids[:length])
            if kept is not None and kept in self._entries:
                self._entries.move_to_end(kept)
                entry = self._entries[kept]
                if length == len(reading.ids):
                    # Something must be run: the last token, whose logits come out again.
                    length, k = length - 1, k - 1
                return _Job(reading, entry, length, k + 1)
        return _Job(reading, None, 0, 0)

    @torch.inference_mode()
    def _run(self, jobs: Sequence[_Job]) -> list[Tensor]:
        cache, deepest = self._past(jobs)
        longest = max(job.new for job in jobs)
        device = self.model.device
        ids = torch.full((len(jobs), longest), self.model.pad_id)
        where = torch.zeros((len(jobs), longest), dtype=torch.long)
        mask = torch.zeros((len(jobs), deepest + longest), dtype=torch.long)
        for n, job in enumerate(jobs):
            ids[n, : job.new] = torch.tensor(job.reading.ids[job.past :])
            where[n] = torch.arange(job.past, job.past + longest)
            mask[n, deepest - job.past : deepest + job.new] = 1
        output: Any = self.model.backbone(
            input_ids=ids.to(device), attention_mask=mask.to(device), position_ids=where.to(device),
            past_key_values=cache, use_cache=True,
        )  # fmt: skip
        found = self._logits(jobs, output.last_hidden_state)
        for n, job in enumerate(jobs):
            first, last = deepest - job.past, deepest + job.new
            layers = tuple((layer.keys[n, :, first:last].clone(), layer.values[n, :, first:last].clone())
                           for layer in cache.layers)  # fmt: skip
            self._keep(_Entry(job.reading.ids, layers, found[n], job.reading.positions))
        return found

    def _past(self, jobs: Sequence[_Job]) -> tuple[Any, int]:
        """The jobs' pasts as one cache, padded on the left."""
        deepest = max(job.past for job in jobs)
        cache: Any = DynamicCache()
        shape = next((job.entry.layers for job in jobs if job.entry is not None), None)
        if shape is None or deepest == 0:
            return cache, 0
        for number, (like, _) in enumerate(shape):
            keys, values = (like.new_zeros(len(jobs), like.shape[0], deepest, like.shape[2]) for _ in range(2))
            for n, job in enumerate(jobs):
                if job.entry is not None and job.past:
                    keys[n, :, deepest - job.past :] = job.entry.layers[number][0][:, : job.past]
                    values[n, :, deepest - job.past :] = job.entry.layers[number][1][:, : job.past]
            cache.update(keys, values, number)
        return cache, deepest

    def _logits(self, jobs: Sequence[_Job], hidden_NTH: Tensor) -> list[Tensor]:
        """New steps are read from the hidden states, old ones are remembered."""
        most = max(1, max(len(job.reading.positions) - job.known for job in jobs))
        positions = torch.zeros((len(jobs), most), dtype=torch.long)
        for n, job in enumerate(jobs):
            new = [p - job.past for p in job.reading.positions[job.known :]]
            positions[n, : len(new)] = torch.tensor(new, dtype=torch.long)
        logits_NSK = self.model.head_at(hidden_NTH, positions.to(hidden_NTH.device)).cpu()
        found = []
        for n, job in enumerate(jobs):
            new_SK = logits_NSK[n, : len(job.reading.positions) - job.known]
            found.append(new_SK if job.entry is None else torch.cat([job.entry.logits_SK[: job.known], new_SK]))
        return found

    def _keep(self, entry: _Entry) -> None:
        old = self._entries.pop(entry.ids, None)
        self._held += len(entry.ids) - (len(old.ids) if old else 0)
        self._entries[entry.ids] = entry
        for position in entry.positions:
            self._at[entry.ids[: position + 1]] = entry.ids
        while self._held > self.tokens and len(self._entries) > 1:
            _, gone = self._entries.popitem(last=False)
            self._held -= len(gone.ids)
            for position in gone.positions:
                if self._at.get(gone.ids[: position + 1]) == gone.ids:
                    del self._at[gone.ids[: position + 1]]
