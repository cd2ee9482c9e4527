"""The rollout store, completions by content address, so that no rollout is paid for twice, and the policy that asks it first.

    FOLDER/BOOK/00c1….parquet      shards; a book holds what one policy wrote with one set of sampling parameters

A completion is found again by policy name, sampling parameters, prefix and sample index. The prefix counts with all that a
policy may read: the problem (without its reference answer), the steps, their token ids where it has any, and whether it ends
in the middle of a step. A shard is written whole or not at all, so readers and writers in other processes see complete shards
only. Failed calls are not kept.

Replies that were asked for anew are an edition, which the shard's name ends in (00c1…-EDITION.parquet): who asks for an
edition finds nothing else, and who asks for none finds the last one first.

`StoredPolicy` samples only what is not there. It keeps what it samples chunk by chunk, so a process killed in the middle
loses at most the chunk it was sampling. A damaged shard is set aside, whenever that is noticed, and what it held is sampled
again. Two processes that miss the same rollout at the same moment both sample it; they get the same one. A failed call is not
kept: the next request tries it again.
"""

from __future__ import annotations

import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from footfall.formats import DamagedError, FormatError, read_ids, read_parquet, set_aside, write_parquet
from footfall.policy.protocol import Completion, Finish, Policy, Run, SamplingParams, kind_by_kind, runs_of, sample_runs
from footfall.policy.resuming import Resumable
from footfall.types import Cost, Problem, Trajectory, content_key, image_name

_SHARDS_IN_MEMORY = 32
_NO_PROBLEM = Problem("rollout", "")


def prefix_address(prefix: Trajectory, unfinished: bool = False) -> str:
    """Names a prefix by all that a policy may read of it: ids, where they are known, besides the text.

    An `unfinished` one ends in the middle of a step: what comes next is not what comes after a step.
    """
    problem = prefix.problem
    prompt = problem.prompt if isinstance(problem.prompt, str) else [[m.role, m.content] for m in problem.prompt]
    read = [
        problem.domain,
        tuple(map(image_name, problem.images)),
        problem.tools,
        problem.tables,
        problem.documents,
        problem.meta,
    ]
    heard = [step.observation_ids for step in prefix.steps]
    sampled = [[step.token_ids for step in prefix.steps], *([heard] if any(heard) else [])]
    ids = None if prefix.tokenizer is None else [prefix.tokenizer, *sampled]
    return content_key(prefix.key, prompt, read, ids, *(["unfinished"] if unfinished else []))


class _Place(NamedTuple):
    """Where a completion lies."""

    shard: str
    row: int


@dataclass
class _Book:
    """What is known of one book: the shards read so far, and the place of every completion by address and index."""

    seen: set[str] = field(default_factory=set)
    places: dict[str, dict[int, _Place]] = field(default_factory=dict)


class RolloutStore:
    """A folder of completions. Holds an index of each book it was asked for, and the last few shards, in memory."""

    def __init__(self, folder: str | os.PathLike[str], edition: str = "") -> None:
        self.folder, self.edition = Path(folder), edition
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is a file; a rollout store needs a folder")
        self._books: dict[str, _Book] = {}
        self._shards: OrderedDict[tuple[str, str], list[Completion]] = OrderedDict()

    @staticmethod
    def book(policy: str, params: SamplingParams) -> str:
        """The name of the folder for what `policy` writes with `params`."""
        return content_key("book", policy, asdict(params))

    def get(self, book: str, address: str, indices: Iterable[int]) -> dict[int, Completion]:
        """Those of the samples that are here, as they were written, with the cost they had then."""
        wanted = list(indices)
        places = self._book(book).places.get(address, {})
        try:
            return {i: self._rows(book, places[i].shard)[places[i].row] for i in wanted if i in places}
        except FormatError as error:
            gone = not Path(error.path).exists()  # another process may have set it aside
            if not gone and not isinstance(error, DamagedError):
                raise
            del self._books[book]  # it is read anew, and the shard set aside or not found
            return self.get(book, address, wanted)

    def put(self, book: str, written: Sequence[tuple[str, Completion]]) -> None:
        """Keep completions, each with the address of its prefix, as one shard. Failed ones are left out."""
        kept = [(address, completion) for address, completion in written if completion.finish != "error"]
        if not kept:
            return
        known = self._book(book)
        rows = [_row(address, completion) for address, completion in kept]
        edition = f"-{self.edition}" if self.edition else ""
        shard = f"{content_key([row.id for row in rows])[:16]}{edition}.parquet"
        (self.folder / book).mkdir(parents=True, exist_ok=True)
        write_parquet(self.folder / book / shard, rows, "trajectory")
        self._index(known, shard, [row.id for row in rows])
        self._remember(book, shard, [completion for _, completion in kept])

    def refresh(self, book: str) -> None:
        """Take in the shards that other processes have written meanwhile, of this edition if there is one."""
        known = self._book(book)
        folder = self.folder / book
        names = sorted(path.name for path in folder.glob("*.parquet")) if folder.is_dir() else []
        for name in sorted(names, key=_edition, reverse=True):
            if name not in known.seen and self.edition in ("", _edition(name)):
                try:
                    ids = read_ids(folder / name, "trajectory")
                except DamagedError as error:
                    set_aside(folder / name, error)
                else:
                    self._index(known, name, ids)

    def _book(self, book: str) -> _Book:
        if book not in self._books:
            self._books[book] = _Book()
            self.refresh(book)
        return self._books[book]

    def _index(self, known: _Book, shard: str, ids: Sequence[str]) -> None:
        known.seen.add(shard)
        for row, id in enumerate(ids):
            address, _, index = id.rpartition("/")
            known.places.setdefault(address, {}).setdefault(int(index), _Place(shard, row))

    def _rows(self, book: str, shard: str) -> list[Completion]:
        key = (book, shard)
        if key in self._shards:
            self._shards.move_to_end(key)
            return self._shards[key]
        rows = [_completion(row) for row in read_parquet(self.folder / book / shard, "trajectory")]
        self._remember(book, shard, rows)
        return rows

    def _remember(self, book: str, shard: str, rows: list[Completion]) -> None:
        self._shards[book, shard] = rows
        while len(self._shards) > _SHARDS_IN_MEMORY:
            self._shards.popitem(last=False)


def _edition(shard: str) -> str:
    return shard.removesuffix(".parquet").partition("-")[2]


def _row(address: str, completion: Completion) -> Trajectory:
    """A completion as a row of a format that exists: the steps of a trace, whose id is the address."""
    return Trajectory(
        f"{address}/{completion.index}", _NO_PROBLEM, completion.steps, tokenizer=completion.tokenizer,
        cost=completion.cost, meta={"finish": completion.finish},
    )  # fmt: skip


def _completion(row: Trajectory) -> Completion:
    index = int(row.id.rpartition("/")[2])
    return Completion(row.steps, cast(Finish, row.meta["finish"]), index, row.tokenizer, cost=row.cost)


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
