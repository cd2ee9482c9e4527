"""Work that is shared among processes, each of which leaves its results on disk for whoever asks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Pool:
    """Other processes, or none."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: one at least has to work")
        # Not forked: a copy of a process that has threads may hang.
        context = multiprocessing.get_context("spawn")
        self.executor = ProcessPoolExecutor(workers, context) if workers > 1 else None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self.executor is not None:
            self.executor.shutdown(cancel_futures=True)

    def each(self, work: Callable[[T], None], items: Sequence[T]) -> Iterable[None]:
        """As soon as each is done, in order. Without other processes nothing is done here: whoever reads makes it."""
        return [None] * len(items) if self.executor is None else self.executor.map(work, items)
