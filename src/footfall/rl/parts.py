"""A batch of completions is written and judged in parts, in this process or by workers of a cluster (`footfall.scale`).

What is written depends in its rounding on what else is in the batch, and so does what a model says of it. So the size of a part
is a setting of the run: parts of the same size give the same bytes (on the CPU), whoever does them and in whatever order.

A worker has opened the policy and the judge once. Before a batch is written, the weights that are trained are put into the
cluster, and a worker takes those that it does not have yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import safetensors.torch
import torch

from footfall.judging import Traits, chunks_of, forget, traits
from footfall.policy.decoding import Generated, Request
from footfall.policy.engine import Engine
from footfall.policy.protocol import SamplingParams
from footfall.scale import RayWorkers, Sent
from footfall.types import Judge, Judgement, Trajectory


class Writing(NamedTuple):
    """Completions to be written with these weights; None: with those that the policy has."""

    requests: Sequence[Request]
    params: SamplingParams
    weights: Sent | None = None


class PartWork:
    """Writes and judges a part, with the engine and the judge of one process."""

    def __init__(self, engine: Engine | None, judge: Judge | None) -> None:
        self.engine, self.judge = engine, judge
        self._weights: Sent | None = None

    def __call__(self, part: Writing | Sequence[Trajectory]) -> list[Any]:
        """What was written, or said. What this process did before changes nothing."""
        if not isinstance(part, Writing):
            assert self.judge is not None
            forget(self.judge)
            return list(self.judge.judge(part))
        assert self.engine is not None
        if part.weights is not None and part.weights != self._weights:
            _take(self.engine.model, part.weights.get())
            self._weights = part.weights
        self.engine.forget()
        return self.engine.generate(part.requests, part.params)


@dataclass(frozen=True)
class Parts:
    """Who does the parts of a batch, of so many completions each."""

    size: int
    workers: RayWorkers | None = None
    """Made for calls of `PartWork`. None: this process."""
    log: Callable[..., None] = lambda *_, **__: None
    """Takes what happens to workers."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"--chunk {self.size}: a part has 1 completion or more")

    def done(self, stage: str, parts: Sequence[Any], here: PartWork) -> list[Any]:
        """What comes of each completion, in order."""
        if self.workers is None:
            found = {at: here(part) for at, part in enumerate(parts)}
        else:
            found = {done.chunk.index: done.shard for done in self.workers.calls(stage, parts, self.log)}
        return [each for at in range(len(parts)) for each in found[at]]

    def cut(self, items: Sequence[Any], sizes: Sequence[int] | None = None) -> list[Sequence[Any]]:
        """The parts, or parts of these sizes."""
        sizes = [self.size] * -(-len(items) // self.size) if sizes is None else sizes
        rest = iter(items)
        return [list(islice(rest, size)) for size in sizes]


class JudgeInParts:
    """A judge that reads a batch in parts; one that compares the traces of a problem has them all in one part."""

    def __init__(self, inner: Judge, parts: Parts) -> None:
        self.inner, self.parts = inner, parts

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def traits(self) -> Traits:
        return traits(self.inner)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        sizes = chunks_of(self.inner, trajectories, self.parts.size)
        parts = self.parts.cut(trajectories, None if isinstance(sizes, int) else sizes)
        return self.parts.done("judging", parts, PartWork(None, self.inner))


class EngineInParts:
    """The engine of the policy that is trained, writing a batch in parts."""

    def __init__(self, inner: Engine, parts: Parts) -> None:
        self.inner, self.parts = inner, parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def generate(self, requests: Sequence[Request], params: SamplingParams) -> list[Generated]:
        """As the engine writes it, with its present weights."""
        workers = self.parts.workers
        weights = None if workers is None else workers.send(_trained(self.inner.model))
        parts = [Writing(part, params, weights) for part in self.parts.cut(requests)]
        return self.parts.done("writing", parts, PartWork(self.inner, None))


def _trained(model: Any) -> bytes:
    """The weights that training changes: all, or those of adapters."""
    own = {
        name: weight.detach().cpu().contiguous() for name, weight in model.named_parameters() if weight.requires_grad
    }
    return safetensors.torch.save(own)


@torch.no_grad()
def _take(model: Any, weights: bytes) -> None:
    own = dict(model.named_parameters())
    for name, weight in safetensors.torch.load(weights).items():
        own[name].copy_(weight)
