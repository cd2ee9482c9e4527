"""Effect, interval and verdict: worked numbers, and how often the interval covers the truth."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from footfall.lab.ledger import decide, effect
from footfall.metrics.intervals import Interval, t_quantile

TRUTH = 0.1
SEEDS, PROBLEMS, REPEATS = 5, 40, 800
Floats = npt.NDArray[np.float64]


@pytest.mark.parametrize(
    ("df", "published"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)]
)
def test_t_quantiles_are_those_of_the_tables(df: int, published: float) -> None:
    assert t_quantile(df) == pytest.approx(published, abs=6e-4)


def test_the_interval_of_single_figures_is_students() -> None:
    # Five seeds with one figure each: mean 3, standard deviation 1.5811, 2.776 · 1.5811 / √5 = 1.963.
    found = effect([[1.0], [2.0], [3.0], [4.0], [5.0]])
    assert found.value == 3.0
    assert found.high - 3.0 == pytest.approx(1.963, abs=1e-3)
    assert 3.0 - found.low == pytest.approx(1.963, abs=1e-3)


def test_one_seed_has_an_interval_over_its_problems() -> None:
    # 0, 1, 0, 1: variance of the mean with k/(k-1) is (4 · 0.25 / 16) · 4/3 = 1/12.
    found = effect([[0.0, 1.0, 0.0, 1.0]])
    assert found.high - found.value == pytest.approx(1.95996 * math.sqrt(1 / 12), abs=1e-4)


def test_seeds_that_agree_by_luck_do_not_make_the_interval_vanish() -> None:
    found = effect([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    assert found.high - found.low > 0.5


def test_every_seed_counts_the_same_however_many_problems_it_has() -> None:
    assert effect([[1.0] * 100, [0.0] * 2]).value == 0.5


def test_problems_that_all_seeds_share_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    differences = [rng.normal(size=30)] * 5
    names = [f"p{i}" for i in range(30)]
    apart = effect([list(d) for d in differences])
    shared = effect([list(d) for d in differences], [names] * 5)
    assert shared.high - shared.low > 1.5 * (apart.high - apart.low)


def test_nothing_to_estimate_from_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="run more seeds"):
        effect([[0.3]])
    with pytest.raises(ValueError, match="at least one seed"):
        effect([])
    with pytest.raises(ValueError, match="1 problems are named for 2"):
        effect([[0.3, 0.1]], [["a"]])


@given(st.lists(st.lists(st.floats(-1, 1), min_size=2, max_size=6), min_size=1, max_size=6))
def test_the_interval_holds_the_effect_and_turns_with_its_sign(differences: list[list[float]]) -> None:
    found = effect(differences)
    turned = effect([[-d for d in seed] for seed in differences])
    assert found.low <= found.value <= found.high
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def simulated(between: float, within: float, shared: float, rng: np.random.Generator) -> Floats:
    """Differences (seed, problem) with the true mean TRUTH; `shared` is what a problem does under every seed."""
    of_seed = rng.normal(0, between, size=(SEEDS, 1))
    of_problem = rng.normal(0, shared, size=(1, PROBLEMS))
    return TRUTH + of_seed + of_problem + rng.normal(0, within, size=(SEEDS, PROBLEMS))


def covers(found: Interval) -> bool:
    return found.low <= TRUTH <= found.high


@pytest.mark.parametrize(
    ("between", "within", "shared"),
    [(0.1, 0.1, 0.0), (0.03, 0.3, 0.0), (0.0, 0.3, 0.0), (0.0, 0.1, 0.3), (0.1, 0.1, 0.3)],
    ids=["seeds differ", "both", "only problems differ", "shared problems", "shared problems and seeds"],
)
def test_the_interval_covers_the_truth_at_least_95_times_in_100(between: float, within: float, shared: float) -> None:
    rng = np.random.default_rng(7)
    names = [[f"p{i}" for i in range(PROBLEMS)]] * SEEDS if shared else None
    drawn = [simulated(between, within, shared, rng) for _ in range(REPEATS)]
    coverage = np.mean([covers(effect(list(map(list, d)), names)) for d in drawn])
    # Three standard errors of a rate of 0.95 over 800 repeats are 0.023.
    assert coverage > 0.95 - 0.023


def test_a_two_stage_bootstrap_would_not_cover_with_five_seeds() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(300):
        d = simulated(0.1, 0.1, 0.0, rng)
        seeds = rng.integers(SEEDS, size=(400, SEEDS, 1))
        means = d[seeds, rng.integers(PROBLEMS, size=(400, SEEDS, PROBLEMS))].mean(axis=(1, 2))
        low, high = np.percentile(means, (2.5, 97.5))
        hits += bool(low <= TRUTH <= high)
    assert hits / 300 < 0.9


def test_a_claim_holds_only_if_the_whole_interval_is_on_its_side() -> None:
    better, worse, unclear = Interval(0.2, 0.1, 0.3), Interval(-0.2, -0.3, -0.1), Interval(0.1, -0.1, 0.3)
    assert [decide(found, "higher") for found in (better, worse, unclear)] == ["holds", "does not hold", "too close"]
    assert [decide(found, "lower") for found in (better, worse, unclear)] == ["does not hold", "holds", "too close"]


def test_no_effect_at_all_is_too_close() -> None:
    assert decide(Interval(0.0, 0.0, 0.0), "higher") == "too close"


def test_a_margin_asks_for_more_or_forgives_a_little() -> None:
    gain, even = Interval(0.2, 0.1, 0.3), Interval(0.0, -0.01, 0.01)
    assert decide(gain, "higher", margin=0.05) == "holds"
    assert decide(gain, "higher", margin=0.2) == "too close"
    assert decide(gain, "higher", margin=0.4) == "does not hold"
    assert decide(even, "higher", margin=-0.02) == "holds"
    assert decide(even, "lower", margin=-0.02) == "holds"
