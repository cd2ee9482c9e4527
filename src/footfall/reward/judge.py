"""A step model as a judge: one forward pass a trace, batches of like length, no silent cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from footfall.judging import Traits
from footfall.registry import register
from footfall.reward.reading import Reading
from footfall.reward.running import Runner, TooLong
from footfall.reward.step_head import StepHeadModel
from footfall.reward.step_model import StepModel
from footfall.types import Cost, Judgement, Reason, Trajectory, Unjudged, failures_of

__all__ = ["StepHeadJudge", "step_head"]


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
    """Values each step of a trace by what the model's head says where the step ends; see `Runner` for the options."""

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
        self.model = model
        self.too_long = too_long
        self.runner = Runner(model, token_budget, cache_tokens, compile)
        self._name = f"{model.kind}@{model.fingerprint()}"

    @property
    def name(self) -> str:
        """Kind and content of the weights."""
        return self._name

    @property
    def traits(self) -> Traits:
        return Traits(threshold=self.model.threshold, separators=self.model.separators)

    def forget(self) -> None:
        """Drop what is cached."""
        self.runner.forget()

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        """One judgement a trace, in order. A trace without steps costs nothing and gets no values."""
        found = iter(self.model.reads_of([t for t in trajectories if t.steps]))
        read = [self._fit(t, next(found)) if t.steps else _Read([], []) for t in trajectories]
        logits, costs = self.runner.run([reading for r in read for reading in r.readings])
        judgements = []
        at = 0
        for trajectory, r in zip(trajectories, read, strict=True):
            own = slice(at, at + len(r.readings))
            at = own.stop
            judgements.append(
                self._judgement(trajectory, r.late, logits[own], Cost.total(costs[own])).check(trajectory)
            )
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

    def _judgement(
        self, trajectory: Trajectory, late: Sequence[int], logits: Sequence[Tensor], cost: Cost
    ) -> Judgement:
        logits_SK = torch.cat(list(logits)) if logits else torch.zeros(0, self.model.readout.outputs)
        values, aspects = self.model.columns(logits_SK)
        missing = (None,) * len(late)
        holds = f"the context holds {self.model.max_length}"
        reasons: list[Unjudged | None] = [Unjudged(Reason.TOO_LONG, f"ends at token {p + 1}, {holds}") for p in late]
        return Judgement(
            trajectory.id, values + missing, self.name,
            aspects={name: column + missing for name, column in aspects.items()},
            failures=failures_of([*[None] * len(values), *reasons]), cost=cost,
        )  # fmt: skip
