"""Running a step model over many sequences: batches, cache, compiling and cost in one place for all judges on one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch import Tensor

from footfall.loading import give_memory_back, out_of_memory
from footfall.reward.incremental import PrefixCache
from footfall.reward.reading import Reading
from footfall.reward.step_model import StepModel
from footfall.types import Cost

__all__ = ["Runner", "TooLong"]

TooLong = Literal["error", "partial"]
"""A trace longer than the context: an error, or the steps that fit are judged."""
WORTH_COMPILING = 1e16
"""Parameters times tokens in one call from which half a minute of compiling is paid back on a GPU."""


class _Limits(NamedTuple):
    """Of a batch, and of the cache."""

    token_budget: int
    cache_tokens: int


class Runner:
    """`cache_tokens` keeps keys and values of that many tokens, so that a trace that grew by a step costs one step.
    `compile` compiles the layers before the first call; None does so on CUDA once a call is large enough to pay it back.
    Where memory does not suffice, a call is made again with half the tokens a batch.
    """

    def __init__(
        self,
        model: StepModel,
        token_budget: int | None = None,
        cache_tokens: int = 0,
        compile: bool | None = None,
    ) -> None:
        self.model = model.eval()
        self.token_budget = token_budget or (65536 if model.device.type == "cuda" else 2048)
        self._size = model.size
        self._cache = PrefixCache(model, cache_tokens) if cache_tokens else None
        self._compile = compile

    def forget(self) -> None:
        """Drop what is cached."""
        if self._cache is not None:
            self._cache.forget()

    def run(self, readings: Sequence[Reading]) -> tuple[list[Tensor], list[Cost]]:
        """Logits (S, K) and cost of each sequence; seconds are shared out by tokens."""
        start = time.perf_counter()
        self._fuse_if_worth(sum(len(r.ids) for r in readings))
        given = _Limits(self.token_budget, self._cache.tokens if self._cache is not None else 0)
        while (found := self._attempt(readings, given)) is None:
            self._begin_anew(_Limits(self.token_budget // 2, self._cache.tokens // 2 if self._cache is not None else 0))
            warnings.warn(
                f"out of memory: going on with {self.token_budget:,} tokens a batch and half the cache", RuntimeWarning,
                stacklevel=3,
            )  # fmt: skip
        logits, tokens = found
        each = (time.perf_counter() - start) / max(1, sum(tokens))
        return logits, [Cost(scored_tokens=n, flops=2.0 * self._size * n, seconds=each * n, calls=1) for n in tokens]

    def _attempt(self, readings: Sequence[Reading], given: _Limits) -> tuple[list[Tensor], list[int]] | None:
        """Logits, and the tokens that were run for each; `None` if memory did not suffice and less of it can be tried."""
        try:
            if self._cache is not None:
                return self._cache.each_logits(readings, self.token_budget)
            return self.model.each_logits(readings, self.token_budget), [len(r.ids) for r in readings]
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if self.token_budget <= min(len(reading.ids) for reading in readings):  # each was a batch by itself
                self._begin_anew(given)  # it was these traces' fault: the next ones get what there was before
                raise
            return None

    def _begin_anew(self, limits: _Limits) -> None:
        """Give back what the cache holds and go on within these limits."""
        self.token_budget = limits.token_budget
        if self._cache is not None:
            self._cache.forget()
            self._cache.tokens = limits.cache_tokens
        give_memory_back()

    def _fuse_if_worth(self, tokens: int) -> None:
        large = self.model.device.type == "cuda" and tokens * self._size >= WORTH_COMPILING
        if self._compile or (self._compile is None and large):
            self.model.fuse()
            self._compile = False
