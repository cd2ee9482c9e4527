"""What a policy is: it writes steps after a prefix. Stateless at the surface, fast inside.

A search that has copied a beam wants samples 0–7 of one prefix and 0–3 of another. `Policy.sample` gives every prefix the same
indices, so such a round would be several calls, one after another, each as slow as its longest sample. A policy that can
take them together says so by `sample_runs`; for all others `sample_runs` below makes the calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeGuard

from footfall.answers import grade
from footfall.types import Cost, Step, Trajectory, content_key

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
        if not 0 <= self.temperature < float("inf") or not 0 < self.top_p <= 1 or self.top_k < 0 or self.max_tokens < 1:
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


def only_greedy(writer: str, n: int, params: SamplingParams) -> None:
    """Refuse what a writer cannot do that knows but one text after each prefix, the likeliest."""
    if n != 1 or params.temperature != 0:
        raise ValueError(f"{writer} writes greedily: one sample at temperature 0, not {n} at {params.temperature:g}")


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


Sample: TypeAlias = Callable[[Sequence[Trajectory], int, SamplingParams, int], list[list[Completion]]]


class Run(NamedTuple):
    """The samples `first`, `first + 1`, … of a prefix, `n` of them."""

    prefix: Trajectory
    n: int
    first: int = 0

    @property
    def indices(self) -> range:
        """The sample indices that are wanted."""
        return range(self.first, self.first + self.n)


class RunSampler(Protocol):
    """A policy that takes runs of different indices in one batch."""

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """The completions of each run, in order: the same that `sample` gives."""
        ...


class RunWriter(ABC):
    """A policy that writes runs in one batch, from whole steps or from the middle of one: its ways to be asked."""

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """`n` completions for each prefix, in order; all prefixes advance together."""
        return self.sample_runs([Run(prefix, n, first) for prefix in prefixes], params)

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """The same where each prefix may want other samples."""
        return self._write(runs, params, [None] * len(runs))

    def resume(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        """The same for prefixes whose last step is unfinished: a completion begins with that step, now whole."""
        for prefix in prefixes:
            self._refuse_to_resume(prefix)
        begun = [prefix.steps[-1] for prefix in prefixes]
        return self._write([Run(prefix, n, first) for prefix in prefixes], params, begun)

    @abstractmethod
    def _refuse_to_resume(self, prefix: Trajectory) -> None:
        """An error where it cannot go on in the middle of the prefix's last step."""

    @abstractmethod
    def _write(
        self, runs: Sequence[Run], params: SamplingParams, begun: Sequence[Step | None]
    ) -> list[list[Completion]]:
        """`begun` are the steps that prefixes end in the middle of."""


def can_choose(policy: object) -> TypeGuard[Chooser]:
    """Whether it has `choices`, be it by passing them on: `isinstance` does not see that from Python 3.12 on."""
    return hasattr(policy, "choices")


def _takes_runs(policy: object) -> TypeGuard[RunSampler]:
    return hasattr(policy, "sample_runs")


def sample_runs(policy: Policy, runs: Sequence[Run], params: SamplingParams) -> list[list[Completion]]:
    """In one call if the policy can, otherwise in one call for each kind of run."""
    if _takes_runs(policy):
        return policy.sample_runs(runs, params)
    return kind_by_kind(policy.sample, runs, params)


def kind_by_kind(sample: Sample, runs: Sequence[Run], params: SamplingParams) -> list[list[Completion]]:
    """Runs that want the same indices together, in a call like `Policy.sample`."""
    alike: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for place, run in enumerate(runs):
        alike[run.first, run.n].append(place)
    found: dict[int, list[Completion]] = {}
    for (first, n), places in alike.items():
        found.update(zip(places, sample([runs[p].prefix for p in places], n, params, first), strict=True))
    return [found[place] for place in range(len(runs))]


def runs_of(indices: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending indices as (first, how many): 0, 1, 4 gives (0, 2) and (4, 1)."""
    first = size = 0
    for index in indices:
        if size and index == first + size:
            size += 1
            continue
        if size:
            yield first, size
        first, size = index, 1
    if size:
        yield first, size


def draw_traces(
    policy: Policy, prefixes: Sequence[Trajectory], n: int, params: SamplingParams
) -> list[list[Trajectory]]:
    """`n` graded traces for each prefix, in order."""
    drawn = policy.sample(prefixes, n, params)
    return [[finished(prefix, c, policy.name) for c in row] for prefix, row in zip(prefixes, drawn, strict=True)]


def finished(prefix: Trajectory, completion: Completion, author: str) -> Trajectory:
    """The graded trace; a sample that failed has no verdict but its reason, for it is not a wrong solution."""
    written = completion.after(prefix, author)
    if completion.finish == "error":
        return replace(written, meta={**written.meta, "error": completion.error or "the policy gave no reason"})
    return grade(written)
