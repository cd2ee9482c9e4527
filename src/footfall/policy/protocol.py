"""What a policy is: it writes steps after a prefix. Stateless at the surface, fast inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from footfall.types import Cost, Step, Trajectory, content_key

__all__ = ["Chooser", "Completion", "Policy", "SamplingParams", "sample_seed"]

Finish = Literal["end", "step", "length", "error"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to draw tokens. `until="step"` stops after one step, `"end"` goes on to the end of the answer."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps the whole vocabulary."""
    max_tokens: int = 512
    until: Literal["end", "step"] = "end"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0 or self.max_tokens < 1:
            raise ValueError(f"sampling parameters out of range: {self}")


@dataclass(frozen=True, slots=True)
class Completion:
    """The steps that a policy wrote after one prefix."""

    steps: tuple[Step, ...]
    finish: Finish
    """`end`: the writer ended; `step`: stopped at a step; `length`: cut at max_tokens; `error`: see `error`."""
    index: int = 0
    """Which of the prefix's samples this is: sample `index` is the same however many are asked for."""
    tokenizer: str | None = None
    error: str | None = None
    cost: Cost = field(default_factory=Cost)

    def after(self, prefix: Trajectory, author: str) -> Trajectory:
        """The prefix continued by this completion, written by `author`; the answer is not extracted yet."""
        shared = prefix.tokenizer in (None, self.tokenizer)
        steps = prefix.steps + self.steps
        if not shared:
            steps = tuple(step.without_ids() for step in steps)
        return Trajectory(
            id=f"{prefix.id}/{self.index}",
            problem=prefix.problem,
            steps=steps,
            author=author,
            separator=prefix.separator,
            tokenizer=self.tokenizer if shared else None,
            cost=self.cost,
            meta={"finish": self.finish} if self.finish != "end" else {},
        )


class Policy(Protocol):
    """Writes steps. The same prefix, parameters and sample index give the same completion."""

    @property
    def name(self) -> str:
        """Who writes: model, weights and prompt format, so that a cache can be keyed by it."""
        ...

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, with sample indices `first`, `first + 1`, …"""
        ...


@runtime_checkable
class Chooser(Protocol):
    """A policy that can also say how likely given texts are to come next."""

    def choices(self, prefixes: Sequence[Trajectory], options: Sequence[str]) -> list[tuple[float | None, ...]]:
        """For each prefix the log-probability of each option's first token as the next one, at temperature 1.

        Options must differ in that token. `None` where nobody can say, as with a server that gives no logprobs.
        """
        ...


def sample_seed(params: SamplingParams, prefix: Trajectory, index: int) -> int:
    """A 63-bit seed for one sequence: depends on the run's seed, the prefix's content and the index alone."""
    return int(content_key("sample", params.seed, prefix.key, index)[:16], 16) >> 1
