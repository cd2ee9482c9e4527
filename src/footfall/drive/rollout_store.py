"""The rollout store: completions by content address, so that no rollout is paid for twice.

    FOLDER/BOOK/00c1….parquet      shards; a book holds what one policy wrote with one set of sampling parameters

A completion is found again by policy name, sampling parameters, prefix and sample index. The prefix counts with all that a
policy may read: the problem (without its reference answer), the steps, their token ids where it has any, and whether it ends
in the middle of a step. A shard is written whole or not at all, so readers and writers in other processes see complete shards
only. Failed calls are not kept.

Replies that were asked for anew are an edition, which the shard's name ends in (00c1…-EDITION.parquet): who asks for an
edition finds nothing else, and who asks for none finds the last one first.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

from footfall.formats import FormatError, read_parquet, write_parquet
from footfall.policy.protocol import Completion, Finish, SamplingParams
from footfall.types import Problem, Trajectory, content_key, image_name

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
        places = self._book(book).places.get(address, {})
        return {i: self._rows(book, places[i].shard)[places[i].row] for i in indices if i in places}

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
