"""Running a step model over many sequences: batches, cache, compiling and cost in one place for all judges on one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from footfall.reward.incremental import PrefixCache
from footfall.reward.reading import Reading
from footfall.reward.step_model import StepModel
from footfall.types import Cost

__all__ = ["Runner", "TooLong"]

TooLong = Literal["error", "partial"]
"""A trace longer than the context: an error, or the steps that fit are judged."""
WORTH_COMPILING = 1e16
"""Parameters times tokens in one call from which half a minute of compiling is paid back on a GPU."""


class Runner:
    """`cache_tokens` keeps keys and values of that many tokens, so that a trace that grew by a step costs one step.
    `compile` compiles the layers before the first call; None does so on CUDA once a call is large enough to pay it back.
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
        if self._cache is not None:
            logits, tokens = self._cache.each_logits(readings, self.token_budget)
        else:
            logits = self.model.each_logits(readings, self.token_budget)
            tokens = [len(r.ids) for r in readings]
        each = (time.perf_counter() - start) / max(1, sum(tokens))
        return logits, [Cost(scored_tokens=n, flops=2.0 * self._size * n, seconds=each * n, calls=1) for n in tokens]

    def _fuse_if_worth(self, tokens: int) -> None:
        large = self.model.device.type == "cuda" and tokens * self._size >= WORTH_COMPILING
        if self._compile or (self._compile is None and large):
            self.model.fuse()
            self._compile = False
