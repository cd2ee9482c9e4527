"""Budgets hold whatever is not known yet: how long a sample takes, what it computes, how long a solution is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from footfall.drive.budget import GROWTH, Pace
from footfall.drive.rollout_store import StoredPolicy
from footfall.policy.http import HttpPolicy
from footfall.policy.http_client import Server
from footfall.policy.protocol import Completion, SamplingParams
from footfall.registry import load
from footfall.search import BeamSearch, BestOf, Budget, ComputeOptimal, Method, Searcher
from footfall.types import Cost, Judgement, SearchResult, Trajectory
from tests.search.coins import Coins, SeesCoins, problems

PARAMS = SamplingParams(seed=3, max_tokens=100)


@dataclass
class Clock:
    """Stands still unless somebody works."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Slow(Coins):
    """Half a second a sample, `together` at a time."""

    clock: Clock = field(default_factory=Clock)
    together: int = 2
    quick: int = 0
    """The first calls that take no time."""
    samples: list[int] = field(default_factory=list)

    def sample(
        self, prefixes: Sequence[Trajectory], n: int = 1, params: SamplingParams = SamplingParams(), first: int = 0
    ) -> list[list[Completion]]:
        if len(self.samples) >= self.quick:
            self.clock.now += 0.5 * math.ceil(len(prefixes) * n / self.together)
        self.samples.append(len(prefixes) * n)
        return super().sample(prefixes, n, params, first)


@dataclass
class SlowJudge(SeesCoins):
    """A second a trace."""

    clock: Clock = field(default_factory=Clock)

    def judge(self, trajectories: Sequence[Trajectory]) -> list[Judgement]:
        self.clock.now += len(trajectories)
        return super().judge(trajectories)


def solve(method: Method, seconds: float, policy: Slow, judge: SeesCoins | None = None) -> list[SearchResult]:
    budget = Budget(seconds=seconds)
    searcher = Searcher(policy, judge or SeesCoins(), method, budget, PARAMS, "\n", clock=policy.clock)
    return searcher.solve(problems(4))


BREADTH = ["beam-search", "dvts", "gflownet", "mcts", "pats", "adaptive-beam", "speculative-rm", "hgs-prm", "birm"]


@pytest.mark.parametrize("name", ["majority", "best-of-n", "rstar", *BREADTH])
@pytest.mark.parametrize("seconds", [1, 3, 10])
def test_seconds_are_not_exceeded_by_more_than_one_sample_of_each_problem(name: str, seconds: float) -> None:
    policy = Slow(depth=9)
    results = solve(load("searcher", name)(), seconds, policy)
    assert policy.clock.now <= seconds + 1.0, "a sample of each of four problems takes a second"
    assert policy.clock.now < seconds or any(r.stopped == "seconds" for r in results)


@pytest.mark.parametrize("seconds", [1, 3, 10])
def test_a_vote_draws_as_many_samples_as_the_seconds_have_room_for(seconds: int) -> None:
    policy = Slow()
    results = solve(BestOf(32, "majority"), seconds, policy)
    assert all(r.stopped == "seconds" and len(r.candidates) == seconds for r in results)
    assert policy.clock.now == seconds


def test_the_time_of_a_judge_counts() -> None:
    policy = Slow()
    results = solve(BestOf(32, "best"), 20, policy, SlowJudge(clock=policy.clock))
    assert 20 <= policy.clock.now <= 20 + 5 and all(r.stopped == "seconds" for r in results)


def test_an_engine_that_batches_well_gets_larger_batches_from_round_to_round() -> None:
    policy = Slow(together=1000)
    results = solve(BestOf(32, "majority"), 30, policy)
    assert policy.samples == [4, 4 * GROWTH, 4 * GROWTH**2, 4 * (32 - 1 - GROWTH - GROWTH**2)]
    assert all(len(r.candidates) == 32 and r.stopped is None for r in results)


def test_a_first_sample_that_was_quick_lets_the_grant_grow_by_a_bounded_factor() -> None:
    policy = Slow(quick=1)
    results = solve(BestOf(64, "majority"), 3, policy)
    assert {len(r.candidates) for r in results} == {1 + GROWTH}
    assert all(r.stopped == "seconds" for r in results)


def test_samples_that_are_found_in_a_store_do_not_make_a_slow_server_fast(tmp_path: Path) -> None:
    policy = Slow()
    stored = StoredPolicy(policy, tmp_path)
    stored.sample([Trajectory(p.id, p, separator="\n") for p in problems(4)], 6, PARAMS)
    policy.clock.now = 0
    searcher = Searcher(stored, None, BestOf(64, "majority"), Budget(seconds=3), PARAMS, "\n", clock=policy.clock)
    results = searcher.solve(problems(4))
    assert {len(r.candidates) for r in results} == {6 + 3} and policy.clock.now == 3


def test_the_pace_of_a_kind_is_one_unit_until_it_is_known() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.fits(["writing"], 100) == 1
    with pace.timed("writing", [clock] * 8):
        clock.now += 4
    assert pace.fits(["writing"], 6) == 12
    assert pace.fits(["writing"], 0.1) == 1
    assert pace.fits(["writing"], 1000) == 8 * GROWTH
    assert pace.fits(["writing", "judging"], 6) == 1


@dataclass
class Heavy(Coins):
    """A hundred FLOPs a token."""

    def _one(self, prefix: Trajectory, params: SamplingParams, index: int) -> Completion:
        done = super()._one(prefix, params, index)
        return replace(done, cost=done.cost + Cost(flops=100.0 * done.cost.generated_tokens))


@pytest.mark.parametrize("flops", [1, 5000, 40_000])
def test_flops_are_not_exceeded_by_more_than_a_sample_though_nobody_knows_at_first_what_one_takes(flops: float) -> None:
    results = Searcher(Heavy(), None, BestOf(64, "majority"), Budget(flops=flops), PARAMS, "\n").solve(problems(3))
    assert all(flops <= r.cost.flops <= flops + 3000 and r.stopped == "flops" for r in results)


def test_a_policy_or_a_judge_that_counts_no_flops_is_refused_under_a_budget_of_them() -> None:
    budget = Budget(flops=1e6)
    with pytest.raises(ValueError, match=r"coins counts no FLOPs.* budget of tokens"):
        Searcher(Coins(), None, BestOf(4, "majority"), budget, PARAMS, "\n").solve(problems(1))
    with pytest.raises(ValueError, match="sees-coins counts no FLOPs"):
        Searcher(Heavy(), SeesCoins(tokens=5), BestOf(4, "best"), budget, PARAMS, "\n").solve(problems(1))
    Searcher(Heavy(), SeesCoins(), BestOf(4, "best"), budget, PARAMS, "\n").solve(problems(1))


def test_a_server_is_refused_under_a_budget_of_flops_before_anything_is_asked() -> None:
    server = HttpPolicy(Server("http://127.0.0.1:9/v1"), model="m")
    with pytest.raises(ValueError, match=r"http:m:.* counts no FLOPs"):
        Searcher(server, None, BestOf(4, "majority"), Budget(flops=1e6))
    with pytest.raises(ValueError, match=r"http:m:.* counts no FLOPs"):
        Searcher(Heavy(), None, BestOf(4, "majority"), Budget(flops=1e6), helpers={"critic": server})


@pytest.mark.parametrize(
    "method", [BestOf(16, "majority"), ComputeOptimal("majority:n=8;", cuts=(0.5,), rule="majority")]
)
def test_a_method_whose_answer_needs_no_judge_asks_none(method: Method) -> None:
    judge = SeesCoins(tokens=20)
    with_, without = (
        Searcher(Coins(), asked, method, Budget(tokens=600), PARAMS, "\n").solve(problems(5)) for asked in (judge, None)
    )
    assert judge.batches == [] and with_ == without


@pytest.mark.long
@pytest.mark.parametrize("name", BREADTH)
@pytest.mark.parametrize(("tokens", "price"), [(200, 0), (100, 0), (30, 0), (200, 5)])
def test_a_search_finishes_solutions_though_its_budget_pays_for_no_more_than_beginnings(
    name: str, tokens: int, price: int
) -> None:
    judge = SeesCoins(tokens=price)
    results = Searcher(
        Coins(depth=4, tokens=3), judge, load("searcher", name)(), Budget(tokens=tokens), PARAMS, "\n"
    ).solve(problems(20))
    assert all(r.answer is not None for r in results)
    assert all(r.cost.generated_tokens + r.cost.scored_tokens <= tokens + 12 + 4 * price for r in results)


def test_a_budget_that_cuts_the_only_solution_has_stopped_the_search() -> None:
    [result] = Searcher(Coins(), None, BestOf(1, "majority"), Budget(tokens=25), PARAMS, "\n").solve(problems(1))
    assert (
        result.answer is None and result.stopped == "tokens" and "the budget of tokens ran out" in str(result.failure)
    )


def test_where_paths_end_by_themselves_steps_stay_steps() -> None:
    results = Searcher(Coins(), SeesCoins(), BeamSearch(4, 2), Budget(tokens=100_000), PARAMS, "\n").solve(problems(5))
    free = Searcher(Coins(), SeesCoins(), BeamSearch(4, 2), Budget(), PARAMS, "\n").solve(problems(5))
    assert [r.tree for r in results] == [r.tree for r in free]


def test_if_whole_solutions_are_cut_at_the_length_limit_the_search_goes_on_step_by_step() -> None:
    params = replace(PARAMS, max_tokens=10)
    results = Searcher(Coins(depth=4), SeesCoins(), BeamSearch(2, 1), Budget(tokens=150), params, "\n").solve(
        problems(10)
    )
    assert all(r.answer is not None for r in results)
    cut = [d for r in results for d in r.decisions if d.what == "expanded" and "until end" in d.why]
    assert len(cut) <= 10, "one try each"
