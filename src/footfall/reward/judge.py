"""A step model as a judge: one forward pass a trace, batches of like length, no silent cut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from footfall.registry import register
from footfall.reward.incremental import PrefixCache
from footfall.reward.reading import Reading
from footfall.reward.step_head import StepHeadModel
from footfall.reward.step_model import StepModel
from footfall.types import Cost, Judgement, Trajectory

__all__ = ["StepHeadJudge", "TooLong", "step_head"]

TooLong = Literal["error", "partial"]
WORTH_COMPILING = 1e16
"""Parameters times tokens in one call from which half a minute of compiling is paid back on a GPU."""


@register("reward", "step-head")
def step_head(
    path: str | Path,
    device: str | None = None,
    too_long: TooLong = "error",
    token_budget: int | None = None,
    base: str | None = None,
    check: bool = True,
    cache_tokens: int = 0,
    compile: bool | None = None,
) -> StepHeadJudge:
    """A PRM that reads each step's value from a linear head on a decoder."""
    model = StepHeadModel.load(path, device=device, base=base, check=check)
    return StepHeadJudge(
        model, too_long=too_long, token_budget=token_budget, cache_tokens=cache_tokens, compile=compile
    )


class _Read(NamedTuple):
    """One trace: the sequences that are scored, how many steps they read, and where the others would have been read."""

    readings: list[Reading]
    late: list[int]


class StepHeadJudge:
    """Values each step of a trace by what the model's head says where the step ends.

    `cache_tokens` keeps keys and values of that many tokens, so that a trace that grew by a step costs one step.
    `compile` compiles the layers before the first call; None does so on CUDA once a call is large enough to pay it back.
    """

    def __init__(
        self,
        model: StepModel,
        *,
        too_long: TooLong = "error",
        token_budget: int | None = None,
        cache_tokens: int = 0,
        compile: bool | None = None,
    ) -> None:
        if too_long not in ("error", "partial"):
            raise ValueError(f'too_long is "error" or "partial", not {too_long!r}')
        self.model = model.eval()
        self.too_long = too_long
        self.token_budget = token_budget or (65536 if model.device.type == "cuda" else 2048)
        self._name = f"{model.kind}@{model.fingerprint()}"
        self._size = model.size
        self._cache = PrefixCache(model, cache_tokens) if cache_tokens else None
        self._compile = compile

    @property
    def name(self) -> str:
        """Kind and content of the weights."""
        return self._name

    @property
    def threshold(self) -> float | None:
        """The model's own: a step valued below is an error."""
        return self.model.threshold

    def forget(self) -> None:
        """Drop what is cached."""
        if self._cache is not None:
            self._cache.forget()

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, in order. A trace without steps costs nothing and gets no values."""
        found = iter(self.model.reads_of([t for t in trajectories if t.steps]))
        read = [self._fit(t, next(found)) if t.steps else _Read([], []) for t in trajectories]
        logits, tokens, seconds = self._score([reading for r in read for reading in r.readings])
        judgements = []
        at = 0
        for trajectory, r in zip(trajectories, read, strict=True):
            own = slice(at, at + len(r.readings))
            at = own.stop
            cost = self._cost(sum(tokens[own]), sum(seconds[own]), len(r.readings))
            judgements.append(self._judgement(trajectory, r.late, logits[own], cost).check(trajectory))
        return judgements

    def _fit(self, trajectory: Trajectory, whole: Sequence[Reading]) -> _Read:
        readings: list[Reading] = []
        late: list[int] = []
        limit = self.model.max_length
        for reading in whole:
            if len(reading.ids) <= limit:
                readings.append(reading)
                continue
            if self.too_long == "error":
                raise ValueError(
                    f"trajectory {trajectory.id!r} has {len(reading.ids)} tokens, {self.name} takes {limit}; "
                    'use too_long="partial" to judge the steps that fit'
                )
            fitting = reading.fitting(limit)
            late += reading.positions[len(fitting.positions) :]
            readings += [fitting] if fitting.positions else []
        return _Read(readings, late)

    def _score(self, readings: Sequence[Reading]) -> tuple[list[Tensor], list[int], list[float]]:
        """Logits (S, K), tokens read and seconds of each sequence."""
        start = time.perf_counter()
        self._fuse_if_worth(sum(len(r.ids) for r in readings))
        if self._cache is not None:
            logits, tokens = self._cache.each_logits(readings, self.token_budget)
        else:
            logits = self.model.each_logits(readings, self.token_budget)
            tokens = [len(r.ids) for r in readings]
        each = (time.perf_counter() - start) / max(1, sum(tokens))
        return logits, tokens, [each * n for n in tokens]

    def _fuse_if_worth(self, tokens: int) -> None:
        large = self.model.device.type == "cuda" and tokens * self._size >= WORTH_COMPILING
        if self._compile or (self._compile is None and large):
            self.model.fuse()
            self._compile = False

    def _cost(self, tokens: int, seconds: float, calls: int) -> Cost:
        return Cost(scored_tokens=tokens, flops=2.0 * self._size * tokens, seconds=seconds, calls=calls)

    def _judgement(
        self, trajectory: Trajectory, late: Sequence[int], logits: Sequence[Tensor], cost: Cost
    ) -> Judgement:
        logits_SK = torch.cat(list(logits)) if logits else torch.zeros(0, self.model.readout.outputs)
        values, aspects = self.model.columns(logits_SK)
        missing = (None,) * len(late)
        reasons = tuple(f"ends at token {p + 1}, the context holds {self.model.max_length}" for p in late)
        return Judgement(
            trajectory.id, values + missing, self.name,
            aspects={name: column + missing for name, column in aspects.items()},
            failures=(None,) * len(values) + reasons if reasons else (), cost=cost,
        )  # fmt: skip
