"""The chunks of a run: what is done with each, who does it, and the shard that its rows are kept in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from footfall.formats import DamagedError, parquet_bytes, read_parquet, set_aside
from footfall.judging import forget
from footfall.types import Cost, Harvest, Judged, Judgement, SearchResult, Trajectory


@dataclass(frozen=True)
class Task:
    """What is done with every chunk of a stage, in this process or in a worker."""

    work: Callable[[Sequence[Any]], Sequence[Any]]
    kind: str
    """Of the rows that come of it."""
    forgetful: Sequence[object] = ()
    """Who drops its caches, with all that it is made of, before each chunk: a chunk must not depend on which chunks the
    process did before it, or a run that was killed and resumed would not be the same to the bit."""
    counts: Callable[[], Any] | None = None
    """What its process has counted so far beside the rows, e.g. hits of a rollout store."""

    def rows(self, items: Sequence[Any]) -> list[Any]:
        """The results of one chunk."""
        forget(*self.forgetful)
        return list(self.work(items))

    def shard(self, items: Sequence[Any], key: str) -> tuple[bytes, int]:
        """The file that the results of one chunk are kept in, and how many there are."""
        rows = self.rows(items)
        return bytes(parquet_bytes(f"chunk {key}", rows, self.kind, key)), len(rows)


@dataclass(frozen=True)
class Chunk:
    """Some items of a stage, by its place among the chunks and named by the content of all that decides the results."""

    stage: str
    index: int
    name: str
    items: Sequence[Any]
    shared: frozenset[str] = frozenset()
    """What it has in common with others, which must not be done at the same time: the earlier one's results count."""


class Done(NamedTuple):
    """A chunk that a worker has done."""

    chunk: Chunk
    shard: Any
    """The bytes of the shard; of work that is no run's, what came of it."""
    rows: int
    seconds: float
    worker: Mapping[str, Any]
    """Where it was done, and the file with what the worker wrote to its standard error."""


class Workers(Protocol):
    """Processes that do the chunks of runs."""

    def each(self, chunks: Iterator[Chunk], log: Callable[..., None]) -> Iterator[Done]:
        """The chunks as they are done, in any order. `log` takes what happens to workers."""


def finished(shard: Path, kind: str, key: str, rows: int) -> list[Any] | None:
    """The rows of a finished chunk; a damaged shard, or another chunk's under this name, is set aside."""
    if not shard.exists():
        return None
    try:
        found = read_parquet(shard, kind, key=key)
        if len(found) != rows:
            raise DamagedError(str(shard), f"{rows} rows", got=f"{len(found)}")
    except DamagedError as error:
        set_aside(shard, error)
        return None
    return found


def cost_of(result: object) -> Cost:
    """What a row of a shard has cost."""
    if isinstance(result, Judged):
        return result.judgement.cost if result.judgement else Cost()
    return result.cost if isinstance(result, Trajectory | Judgement | SearchResult | Harvest) else Cost()
