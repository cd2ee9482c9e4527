"""The rollout store: completions by content address, so that no rollout is paid for twice.

    FOLDER/BOOK/00c1….parquet      shards; a book holds what one policy wrote with one set of sampling parameters

A completion is found again by policy name, sampling parameters, prefix and sample index. The prefix counts with all that a
policy may read: the problem (without its reference answer), the steps, their token ids where it has any, and whether it ends
in the middle of a step. A shard is written whole or not at all, so a process killed in the middle loses at most the chunk it
was sampling, and readers and writers in other processes see complete shards only. Two processes that miss the same rollout
at the same moment both sample it; they get the same one. Failed calls are not kept: the next request tries them again.
"""

from __future__ import annotations

import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from footfall.formats import FormatError, read_parquet, write_parquet
from footfall.policy.protocol import Completion, Finish, Policy, SamplingParams
from footfall.policy.resuming import Resumable
from footfall.types import Cost, Problem, Trajectory, content_key

__all__ = ["Counts", "RolloutStore", "StoredPolicy", "prefix_address", "runs_of"]

_SHARDS_IN_MEMORY = 32
_NO_PROBLEM = Problem("rollout", "")
_Ask: TypeAlias = Callable[[Sequence[Trajectory], int, SamplingParams, int], list[list[Completion]]]


def prefix_address(prefix: Trajectory, unfinished: bool = False) -> str:
    """Names a prefix by all that a policy may read of it: ids, where they are known, besides the text.

    An `unfinished` one ends in the middle of a step: what comes next is not what comes after a step.
    """
    problem = prefix.problem
    prompt = problem.prompt if isinstance(problem.prompt, str) else [[m.role, m.content] for m in problem.prompt]
    read = [problem.domain, problem.images, problem.tools, problem.tables, problem.documents, problem.meta]
    ids = None if prefix.tokenizer is None else [prefix.tokenizer, [step.token_ids for step in prefix.steps]]
    return content_key(prefix.key, prompt, read, ids, *(["unfinished"] if unfinished else []))


def runs_of(indices: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending indices as (first, how many): 0, 1, 4 gives (0, 2) and (4, 1)."""
    first = size = 0
    for index in indices:
        if size and index == first + size:
            size += 1
            continue
        if size:
            yield first, size
        first, size = index, 1
    if size:
        yield first, size


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

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._books: dict[str, _Book] = {}
        self._shards: OrderedDict[tuple[str, str], list[Completion]] = OrderedDict()

    @staticmethod
    def book(policy: str, params: SamplingParams) -> str:
        """The name of the folder for what `policy` writes with `params`."""
        return content_key("book", policy, asdict(params))

    def get(self, book: str, address: str, indices: Iterable[int]) -> dict[int, Completion]:
        """Those of the samples that are here, as they were written, with the cost they had then."""
        places = self._book(book).places.get(address, {})
        return {i: self._rows(book, places[i].shard)[places[i].row] for i in indices if i in places}

    def put(self, book: str, written: Sequence[tuple[str, Completion]]) -> None:
        """Keep completions, each with the address of its prefix, as one shard. Failed ones are left out."""
        kept = [(address, completion) for address, completion in written if completion.finish != "error"]
        if not kept:
            return
        known = self._book(book)
        rows = [_row(address, completion) for address, completion in kept]
        shard = f"{content_key([row.id for row in rows])[:16]}.parquet"
        (self.folder / book).mkdir(exist_ok=True)
        write_parquet(self.folder / book / shard, rows, "trajectory")
        self._index(known, shard, [row.id for row in rows])
        self._remember(book, shard, [completion for _, completion in kept])

    def refresh(self, book: str) -> None:
        """Take in the shards that other processes have written meanwhile."""
        known = self._book(book)
        folder = self.folder / book
        names = sorted(path.name for path in folder.glob("*.parquet")) if folder.is_dir() else []
        for name in names:
            if name not in known.seen:
                self._index(known, name, _ids(folder / name))

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


def _row(address: str, completion: Completion) -> Trajectory:
    """A completion as a row of a format that exists: the steps of a trace, whose id is the address."""
    return Trajectory(
        f"{address}/{completion.index}", _NO_PROBLEM, completion.steps, tokenizer=completion.tokenizer,
        cost=completion.cost, meta={"finish": completion.finish},
    )  # fmt: skip


def _completion(row: Trajectory) -> Completion:
    index = int(row.id.rpartition("/")[2])
    return Completion(row.steps, cast(Finish, row.meta["finish"]), index, row.tokenizer, cost=row.cost)


def _ids(shard: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        ids: list[str] = pq.read_table(shard, columns=["id"], partitioning=None)["id"].to_pylist()
    except (pa.ArrowException, OSError, KeyError) as error:
        fix = "delete this file; its rollouts will be sampled again"
        raise FormatError(
            str(shard), "a shard of a rollout store", got=str(error).partition("\n")[0], fix=fix
        ) from None
    return ids


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
        return self.inner.name

    def forget(self) -> None:
        """Drop what the inner policy has cached; the store stays."""
        getattr(self.inner, "forget", lambda: None)()

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix; equal prefixes in one request are sampled once, and charged once."""
        addresses = [prefix_address(prefix) for prefix in prefixes]
        return self._complete(self.inner.sample, prefixes, addresses, n, params, first)

    def _resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The same for prefixes that end in the middle of a step."""
        addresses = [prefix_address(prefix, unfinished=True) for prefix in prefixes]
        return self._complete(cast(Resumable, self.inner).resume, prefixes, addresses, n, params, first)

    def _complete(
        self,
        ask: _Ask,
        prefixes: Sequence[Trajectory],
        addresses: Sequence[str],
        n: int,
        params: SamplingParams,
        first: int,
    ) -> list[list[Completion]]:
        book = self.store.book(self.name + self.form, params)
        distinct = dict(zip(addresses, prefixes, strict=True))
        wanted = range(first, first + n)
        found = {address: self.store.get(book, address, wanted) for address in distinct}
        if any(len(have) < n for have in found.values()):
            self.store.refresh(book)
            found = {address: self.store.get(book, address, wanted) for address in distinct}
        fresh = self._ask_missing(ask, book, distinct, found, wanted, params)
        return [[self._charged(a, i, fresh, found) for i in wanted] for a in addresses]

    def _ask_missing(
        self,
        ask: _Ask,
        book: str,
        prefixes: dict[str, Trajectory],
        found: dict[str, dict[int, Completion]],
        wanted: range,
        params: SamplingParams,
    ) -> dict[tuple[str, int], Completion]:
        """Ask for what is not there, those that lack the same samples together, and keep it chunk by chunk."""
        lacking: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for address in prefixes:
            for run in runs_of(i for i in wanted if i not in found[address]):
                lacking[run].append(address)
        fresh: dict[tuple[str, int], Completion] = {}
        for (first, n), addresses in lacking.items():
            size = max(1, self.chunk // n)
            for start in range(0, len(addresses), size):
                part = addresses[start : start + size]
                if self.afresh:
                    self.forget()
                sampled = ask([prefixes[address] for address in part], n, params, first)
                written = [(a, completion) for a, row in zip(part, sampled, strict=True) for completion in row]
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
