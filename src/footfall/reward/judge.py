"""A step-head PRM as a judge: one forward pass a trace, batches of like length, no silent cut."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from footfall.registry import register
from footfall.reward.batching import pack
from footfall.reward.reading import Reading
from footfall.reward.step_head import StepHeadModel
from footfall.types import Cost, Judgement, Trajectory

__all__ = ["StepHeadJudge", "TooLong", "step_head"]

TooLong = Literal["error", "partial"]


@register("reward", "step-head")
def step_head(
    path: str | Path,
    device: str | None = None,
    too_long: TooLong = "error",
    token_budget: int | None = None,
    base: str | None = None,
    check: bool = True,
) -> StepHeadJudge:
    """A PRM that reads each step's value from a linear head on a decoder."""
    model = StepHeadModel.load(path, device=device, base=base, check=check)
    return StepHeadJudge(model, too_long=too_long, token_budget=token_budget)


class StepHeadJudge:
    """Values each step of a trace by the probability that it is good."""

    def __init__(self, model: StepHeadModel, *, too_long: TooLong = "error", token_budget: int | None = None) -> None:
        if too_long not in ("error", "partial"):
            raise ValueError(f'too_long is "error" or "partial", not {too_long!r}')
        self.model = model.eval()
        self.too_long = too_long
        self.token_budget = token_budget or (65536 if model.device.type == "cuda" else 2048)
        self._name = f"step-head@{model.fingerprint()}"
        self._size = model.size

    @property
    def name(self) -> str:
        """Kind and content of the weights."""
        return self._name

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, in order. A trace without steps costs nothing and gets no values."""
        whole = [self.model.read(t) for t in trajectories]
        read = [self._fit(t, r) for t, r in zip(trajectories, whole, strict=True)]
        probabilities, seconds = self._score(read)
        return [
            self._judgement(t, whole[i], read[i], probabilities[i], seconds[i]).check(t)
            for i, t in enumerate(trajectories)
        ]

    def _fit(self, trajectory: Trajectory, reading: Reading) -> Reading:
        limit = self.model.step_config.max_length
        if len(reading.ids) <= limit:
            return reading
        if self.too_long == "error":
            raise ValueError(
                f"trajectory {trajectory.id!r} has {len(reading.ids)} tokens, {self.name} takes {limit}; "
                'use too_long="partial" to judge the steps that fit'
            )
        return reading.fitting(limit)

    def _score(self, readings: Sequence[Reading]) -> tuple[list[Tensor], list[float]]:
        """Class probabilities (S, K) and seconds of each trace."""
        nothing = torch.zeros(0, self.model.step_config.outputs)
        probabilities, seconds = [nothing] * len(readings), [0.0] * len(readings)
        todo = [i for i, r in enumerate(readings) if r.positions]
        for group in pack([len(readings[i].ids) for i in todo], self.token_budget):
            members = [todo[j] for j in group]
            start = time.perf_counter()
            batch_NSK = self.model.probabilities(self.model.logits([readings[i] for i in members])).cpu()
            each = (time.perf_counter() - start) / len(members)
            for n, i in enumerate(members):
                probabilities[i], seconds[i] = batch_NSK[n, : len(readings[i].positions)], each
        return probabilities, seconds

    def _judgement(
        self, trajectory: Trajectory, whole: Reading, read: Reading, probabilities_SK: Tensor, seconds: float
    ) -> Judgement:
        config = self.model.step_config
        unread = len(whole.positions) - len(read.positions)
        good = config.good_index if config.classes else [0]
        values = tuple(probabilities_SK[:, good].sum(dim=-1).tolist()) + (None,) * unread
        aspects = {
            name: tuple(probabilities_SK[:, k].tolist()) + (None,) * unread for k, name in enumerate(config.classes)
        }
        late = whole.positions[len(read.positions) :]
        reasons = tuple(f"ends at token {p + 1}, the context holds {config.max_length}" for p in late)
        tokens = len(read.ids) if read.positions else 0
        cost = Cost(
            scored_tokens=tokens, flops=2.0 * self._size * tokens, seconds=seconds, calls=1 if read.positions else 0
        )
        return Judgement(
            trajectory.id, values, self.name, aspects=aspects,
            failures=(None,) * len(read.positions) + reasons if reasons else (), cost=cost,
        )  # fmt: skip
