"""Runs: samples of many prefixes in one call, each with indices of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from footfall.drive.rollout_store import StoredPolicy
from footfall.policy.embedded import embedded
from footfall.policy.protocol import Completion, Run, SamplingParams, runs_of, sample_runs
from footfall.types import Trajectory
from footfall.worlds import ArithmeticPolicy, ArithmeticWorld

WORLD = ArithmeticWorld()
PREFIXES = [WORLD.prefix(problem) for problem in WORLD.problems(3, seed=2)]
PARAMS = SamplingParams(max_tokens=24, until="step", seed=4)
RUNS = [Run(PREFIXES[0], 3), Run(PREFIXES[1], 2, 5), Run(PREFIXES[0], 2, 7), Run(PREFIXES[2], 3)]


class Plain:
    """A policy that knows only `sample`, and counts how often it is called."""

    name = "plain"

    def __init__(self) -> None:
        self.inner, self.calls = ArithmeticPolicy(), 0

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        self.calls += 1
        return self.inner.sample(prefixes, n, params, first)


def texts(rows: list[list[Completion]]) -> list[list[tuple[int, str]]]:
    return [[(c.index, "".join(step.text for step in c.steps)) for c in row] for row in rows]


@given(st.sets(st.integers(0, 40)))
def test_ascending_indices_are_cut_where_one_is_missing(indices: set[int]) -> None:
    found = list(runs_of(sorted(indices)))
    assert [i for first, n in found for i in range(first, first + n)] == sorted(indices)
    assert all(a + n < b for (a, n), (b, _) in itertools.pairwise(found))


def test_a_policy_that_knows_only_sample_is_called_once_for_each_kind_of_run() -> None:
    policy = Plain()
    rows = sample_runs(policy, RUNS, PARAMS)
    assert policy.calls == 3  # (0, 3) twice, (5, 2), (7, 2)
    assert texts(rows) == [texts(policy.sample([r.prefix], r.n, PARAMS, r.first))[0] for r in RUNS]


def test_the_engine_takes_all_runs_in_one_batch_and_writes_what_it_writes_alone() -> None:
    policy = embedded()
    assert hasattr(policy, "sample_runs")
    steps = policy.engine.usage.steps
    rows = sample_runs(policy, RUNS, PARAMS)
    together = policy.engine.usage.steps - steps
    policy.forget()
    assert texts(rows) == [texts(policy.sample([r.prefix], r.n, PARAMS, r.first))[0] for r in RUNS]
    assert together == max(c.cost.generated_tokens for row in rows for c in row)  # no longer than the longest


def test_a_store_asks_for_the_missing_samples_of_all_runs_together(tmp_path: Path) -> None:
    stored = StoredPolicy(embedded(), tmp_path)
    stored.sample([PREFIXES[0]], 2, PARAMS)
    rows = stored.sample_runs(RUNS, PARAMS)
    assert (stored.counts.hits, stored.counts.misses) == (2, 2 + 8)
    assert texts(rows) == texts(sample_runs(embedded(), RUNS, PARAMS))
    assert len(list(tmp_path.glob("*/*.parquet"))) == 2  # one for each call


def test_one_sample_that_two_runs_want_is_sampled_once(tmp_path: Path) -> None:
    stored = StoredPolicy(Plain(), tmp_path)
    first, second = stored.sample_runs([Run(PREFIXES[0], 3), Run(PREFIXES[0], 3, 1)], PARAMS)
    assert texts([first[1:]]) == texts([second[:2]])
    assert (stored.counts.hits, stored.counts.misses) == (2, 4)
