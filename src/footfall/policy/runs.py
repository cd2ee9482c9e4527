"""Samples of many prefixes in one call, where each prefix may want other indices.

A search that has copied a beam wants samples 0–7 of one prefix and 0–3 of another. `Policy.sample` gives every prefix the same
indices, so such a round would be several calls, one after another, each as slow as its longest sample. A policy that can
take them together says so by `sample_runs`; for all others `sample_runs` below makes the calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from footfall.policy.protocol import Completion, Policy, SamplingParams
from footfall.types import Trajectory

__all__ = ["Run", "RunSampler", "kind_by_kind", "runs_of", "sample_runs"]

Sample: TypeAlias = Callable[[Sequence[Trajectory], int, SamplingParams, int], list[list[Completion]]]


class Run(NamedTuple):
    """The samples `first`, `first + 1`, … of a prefix, `n` of them."""

    prefix: Trajectory
    n: int
    first: int = 0

    @property
    def indices(self) -> range:
        return range(self.first, self.first + self.n)


@runtime_checkable
class RunSampler(Protocol):
    """A policy that takes runs of different indices in one batch."""

    def sample_runs(self, runs: Sequence[Run], params: SamplingParams = SamplingParams()) -> list[list[Completion]]:
        """The completions of each run, in order: the same that `sample` gives."""
        ...


def sample_runs(policy: Policy, runs: Sequence[Run], params: SamplingParams) -> list[list[Completion]]:
    """In one call if the policy can, otherwise in one call for each kind of run."""
    if isinstance(policy, RunSampler):
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
