"""A policy that asks the rollout store first, and samples only what is not there.

It keeps what it samples chunk by chunk, so a process killed in the middle loses at most the chunk it was sampling. Two
processes that miss the same rollout at the same moment both sample it; they get the same one. A failed call is not kept: the
next request tries it again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from footfall.drive.rollout_store import RolloutStore, prefix_address
from footfall.policy.protocol import Completion, Policy, Run, SamplingParams, kind_by_kind, runs_of, sample_runs
from footfall.policy.resuming import Resumable
from footfall.types import Cost, Trajectory

_Ask: TypeAlias = Callable[[Sequence[Run], SamplingParams], list[list[Completion]]]


@dataclass
class Counts:
    """What a stored policy found and what it had to ask for."""

    hits: int = 0
    misses: int = 0
    saved: Cost = field(default_factory=Cost)
    """What the hits had cost when they were written."""


class StoredPolicy:
    """A policy that samples what its store does not hold, and nothing else. It has the inner policy's name.

    `charge="once"`: a hit costs nothing, but for the prompt, which counts as found in a cache. `charge="always"`: a hit
    costs what it did when it was written, so that methods which share a store can be compared by what each needs.
    `afresh`: the inner policy forgets its caches before each request, so that what it writes does not depend, even in
    rounding, on what was found here: a run that was killed then goes on to the same bytes. If the inner policy can go on in
    the middle of a step (`resume`), so can this one, and keeps what comes of it. What else the inner policy can do (`value`,
    `choices`, its tokenizer) is there under the same name.
    """

    def __init__(
        self,
        policy: Policy,
        folder: str | os.PathLike[str] | RolloutStore,
        charge: Literal["once", "always"] = "once",
        chunk: int = 1024,
        afresh: bool = False,
        form: str = "",
    ) -> None:
        if chunk < 1:
            raise ValueError(f"a chunk of {chunk} completions: at least 1 is needed")
        self.inner, self.charge, self.chunk, self.afresh, self.form = policy, charge, chunk, afresh, form
        self.store = folder if isinstance(folder, RolloutStore) else RolloutStore(folder)
        self.counts = Counts()

    def around(self, policy: Policy, form: str) -> StoredPolicy:
        """Another policy over the same store and counts. `form` tells it from one of the same name that reads otherwise."""
        other = StoredPolicy(policy, self.store, self.charge, self.chunk, self.afresh, form)
        other.counts = self.counts
        return other

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not there yet, as while a copy is made
            raise AttributeError(name)
        found = getattr(self.inner, name)
        return self._resume if name == "resume" else found

    @property
    def name(self) -> str:
        """That of the inner policy: what is written does not depend on the store."""
        return self.inner.name

    def forget(self) -> None:
        """Drop what the inner policy has cached; the store stays."""
        getattr(self.inner, "forget", lambda: None)()

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix; equal prefixes in one request are sampled once, and charged once."""
        return self.sample_runs([Run(prefix, n, first) for prefix in prefixes], params)

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """The same where each prefix may want other samples."""
        addresses = [prefix_address(run.prefix) for run in runs]
        return self._complete(partial(sample_runs, self.inner), runs, addresses, params)

    def _resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The same for prefixes that end in the middle of a step."""
        addresses = [prefix_address(prefix, unfinished=True) for prefix in prefixes]
        ask = partial(kind_by_kind, cast(Resumable, self.inner).resume)
        return self._complete(ask, [Run(prefix, n, first) for prefix in prefixes], addresses, params)

    def _complete(
        self, ask: _Ask, runs: Sequence[Run], addresses: Sequence[str], params: SamplingParams
    ) -> list[list[Completion]]:
        book = self.store.book(self.name + self.form, params)
        wanted: defaultdict[str, set[int]] = defaultdict(set)
        for address, run in zip(addresses, runs, strict=True):
            wanted[address].update(run.indices)
        found = {address: self.store.get(book, address, indices) for address, indices in wanted.items()}
        if any(len(have) < len(wanted[address]) for address, have in found.items()):
            self.store.refresh(book)
            found = {address: self.store.get(book, address, indices) for address, indices in wanted.items()}
        prefixes = {address: run.prefix for address, run in zip(addresses, runs, strict=True)}
        lacking = [
            (address, Run(prefixes[address], n, first))
            for address, indices in wanted.items() for first, n in runs_of(sorted(indices - set(found[address])))
        ]  # fmt: skip
        fresh = self._ask_missing(ask, book, lacking, params)
        return [
            [self._charged(address, i, fresh, found) for i in run.indices]
            for address, run in zip(addresses, runs, strict=True)
        ]

    def _ask_missing(
        self, ask: _Ask, book: str, lacking: Sequence[tuple[str, Run]], params: SamplingParams
    ) -> dict[tuple[str, int], Completion]:
        """Ask for what is not there, and keep it chunk by chunk; where nothing could be kept, nothing is asked for."""
        if lacking:
            self.store.folder.mkdir(parents=True, exist_ok=True)
        fresh: dict[tuple[str, int], Completion] = {}
        for part in _chunks(lacking, self.chunk):
            if self.afresh:
                self.forget()
            sampled = ask([run for _, run in part], params)
            written = [(a, completion) for (a, _), row in zip(part, sampled, strict=True) for completion in row]
            self.store.put(book, written)
            fresh.update({(address, completion.index): completion for address, completion in written})
        return fresh

    def _charged(
        self,
        address: str,
        index: int,
        fresh: dict[tuple[str, int], Completion],
        found: dict[str, dict[int, Completion]],
    ) -> Completion:
        """The completion with what it costs here; one made now becomes a hit for the next who wants it."""
        new = fresh.pop((address, index), None)
        if new is not None:
            self.counts.misses += 1
            found[address][index] = new
            return new
        completion = found[address][index]
        cost = completion.cost
        self.counts.hits += 1
        self.counts.saved += cost
        if self.charge == "always":
            return completion
        return replace(completion, cost=Cost(cached_tokens=cost.prompt_tokens + cost.cached_tokens))


def _chunks(lacking: Sequence[tuple[str, Run]], most: int) -> Iterator[list[tuple[str, Run]]]:
    """Parts of at most so many completions; a single run that has more stays whole."""
    part: list[tuple[str, Run]] = []
    size = 0
    for address, run in lacking:
        if part and size + run.n > most:
            yield part
            part, size = [], 0
        part.append((address, run))
        size += run.n
    if part:
        yield part
